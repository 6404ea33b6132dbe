export interface PartitionClient {
  /** One IP address in canonical form; `undefined` if it is not known. */
  address: string | undefined
  peerTrusted: boolean
}

/**
 * Which clients may share a quote: those of one partition. `place` is what QUOTE_PARTITION_HEADER says. Undefined: this
 * client shares with no other client.
 */
export type Partition = (client: PartitionClient, place: string | undefined) => string | undefined

/** What edges send when they cannot tell: Cloudflare's XX and T1 (Tor), Google's ZZ. */
const unknownPlaces: ReadonlySet<string> = new Set(['XX', 'T1', 'ZZ'])

export function createPartition(mode: 'ip' | 'header' | 'none'): Partition {
  switch (mode) {
    case 'none':
      return () => ''
    case 'ip':
      return byAddress
    case 'header':
      return (client, place) => byPlace(client, place) ?? byAddress(client)
  }
}

function byAddress({ address }: PartitionClient): string | undefined {
  return address === undefined ? undefined : `ip:${address}`
}

function byPlace(client: PartitionClient, place: string | undefined): string | undefined {
  // Any other client could name the country whose quotes it wants.
  if (!client.peerTrusted || place === undefined || place === '') return undefined
  // The provider sees `for=unknown`, not the place, so its answer may not be that of the place.
  if (client.address === undefined) return undefined
  // Two lines, as they came or joined by a proxy (RFC 9110 5.2), may mean that the client smuggled in one of its own.
  if (/[,\n]/.test(place) || unknownPlaces.has(place.toUpperCase())) return undefined
  return `place:${place}`
}
