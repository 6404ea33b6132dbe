import { headerLines } from '../http/headers.ts'

export interface PartitionOptions {
  mode: 'ip' | 'header' | 'none'
  /** For `header`: the name of what a trusted peer says of the client's place, in lower case. */
  header?: string | undefined
}

export interface PartitionClient {
  /** One IP address in canonical form; `undefined` if it is not known. */
  address: string | undefined
  peerTrusted: boolean
}

/** Which clients may share a quote: those of one partition. `undefined`: this one shares with nobody. */
export type Partition = (client: PartitionClient, rawHeaders: readonly string[]) => string | undefined

// What edges send when they cannot tell: Cloudflare's XX and T1 (Tor), Google's ZZ. Clients in such a "place"
// have nothing in common.
const unknownPlaces: ReadonlySet<string> = new Set(['XX', 'T1', 'ZZ'])

export function createPartition(options: PartitionOptions): Partition {
  switch (options.mode) {
    case 'none':
      return () => ''
    case 'ip':
      return (client) => byAddress(client)
    case 'header': {
      const header = options.header
      if (header === undefined) return (client) => byAddress(client)
      return (client, rawHeaders) => byPlace(client, headerLines(rawHeaders, header)) ?? byAddress(client)
    }
  }
}

function byAddress({ address }: PartitionClient): string | undefined {
  return address === undefined ? undefined : `ip:${address}`
}

function byPlace(client: PartitionClient, place: string | undefined): string | undefined {
  // Anybody else could name the country that he wants quotes of.
  if (!client.peerTrusted || place === undefined || place === '') return undefined
  // Two lines, as they came or joined by a proxy (RFC 9110 5.2), may mean that the client smuggled in one of its own.
  if (/[,\n]/.test(place) || unknownPlaces.has(place.toUpperCase())) return undefined
  return `place:${place}`
}
