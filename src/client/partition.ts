import { hash, randomBytes } from 'node:crypto'
import { lineBreak, linesOf } from '../http/headers.ts'
import { memoize } from '../http/memoize.ts'
import { flatText } from '../process/text.ts'
import type { ClientAddress } from './client-address.ts'

export type PartitionClient = Pick<ClientAddress, 'address' | 'peerTrusted'>

interface PartitionOptions {
  mode: 'ip' | 'header' | 'none'
  /** QUOTE_PARTITION_HEADER, in lower case: the headers that together say one place. */
  placeHeaders: readonly string[]
}

/**
 * Which clients may share a quote, and whose quotes an order may mean: those of one partition. Undefined: this client
 * shares with no other client.
 */
export type Partition = (
  client: PartitionClient,
  rawHeaders: readonly string[],
) => string | undefined

/** A digest of a partition, for where it is kept longer than its requests, or where others can read it. */
export function createPartitionMark(
  salt: string = randomBytes(32).toString('base64url'),
) {
  const markOf = memoize((partition) =>
    flatText(hash('sha256', salt + partition, 'base64url').slice(0, 16)),
  )
  return (partition: string | undefined): string | undefined =>
    partition === undefined ? undefined : markOf(partition)
}

export function createPartition({ mode, placeHeaders }: PartitionOptions): Partition {
  if (mode === 'none') return () => ''
  if (mode === 'ip') return byAddress
  return (client, rawHeaders) => {
    // Any other client could name the country whose quotes it wants. The provider gets for=unknown for a client without
    // an address, so its answer may not be that of the place.
    if (!client.peerTrusted || client.address === undefined) return byAddress(client)
    const values = linesOf(rawHeaders, placeHeaders)
    // No value holds a comma, so no value can imitate two.
    return values.every(saysPlace) ? `place:${values.join(',')}` : byAddress(client)
  }
}

/** Whether the partition is one address, and no place or all clients. */
export function isAddress(partition: string | undefined): boolean {
  return partition?.startsWith('ip:') ?? false
}

function byAddress({ address }: PartitionClient): string | undefined {
  return address === undefined ? undefined : `ip:${address}`
}

/** What edges send when they do not know a place, or for a place that is not a single country, in upper case. */
const placeholders: ReadonlySet<string> = new Set([
  '',
  'UNKNOWN',
  '-',
  '??',
  '**',
  'NO REGION',
  // XX: Cloudflare's unknown. ZZ: Google's, and CLDR's. T1: Tor.
  'XX',
  'ZZ',
  'T1',
  // MaxMind's anonymous proxy, satellite provider and other country, and its two regions of many countries.
  'A1',
  'A2',
  'O1',
  'AP',
  'EU',
])

function saysPlace(value: string | undefined): boolean {
  if (value === undefined || placeholders.has(value.toUpperCase())) return false
  // Two lines, as they came or joined by a proxy (RFC 9110 5.2), may mean that the client smuggled in one of its own.
  return !value.includes(',') && !value.includes(lineBreak)
}

/** App-Name as the swap upstream sees it: the request's own, else SWAP_APP_NAME. Undefined if there is neither. */
export type ApplicationOf = (rawHeaders: readonly string[]) => string | undefined
