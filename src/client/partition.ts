import { hash, randomBytes } from 'node:crypto'
import { flatText } from '../process/flat-text.ts'

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

/** A digest of a partition, for where it is kept longer than its requests, or where others can read it. */
export function createPartitionMark(salt: string = randomBytes(32).toString('base64url')) {
  return (partition: string | undefined): string | undefined =>
    partition === undefined ? undefined : flatText(hash('sha256', salt + partition, 'base64url').slice(0, 16))
}

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
  // Two lines, as they came or joined by a proxy (RFC 9110 5.2), may mean that the client smuggled in one of its own.
  if (/[,\n]/.test(place) || unknownPlaces.has(place.toUpperCase())) return undefined
  return `place:${place}`
}
