import { hash, randomBytes } from 'node:crypto'
import { lineBreak, linesOf } from '../http/headers.ts'
import { memoize } from '../http/memoize.ts'
import { flatText } from '../process/text.ts'
import type { UserAddress } from './client-address.ts'

export type PartitionUser = Pick<UserAddress, 'address' | 'peerTrusted'>

interface PartitionOptions {
  mode: 'ip' | 'header' | 'none'
  /** QUOTE_PARTITION_HEADER in lower case: the headers that together name one place. */
  placeHeaders: readonly string[]
}

/** Users of one partition share quotes, and an order may mean any of them. Undefined: this user shares none. */
export type Partition = (
  user: PartitionUser,
  rawHeaders: readonly string[],
) => string | undefined

/** Digests a partition for places that keep it after its request, or where others can read it. */
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
  return (user, rawHeaders) => {
    // Only a trusted proxy may name the place: another peer could choose one. For a user without an address the
    // provider gets for=unknown, so its answer may differ from the place's.
    if (!user.peerTrusted || user.address === undefined) return byAddress(user)
    const values = linesOf(rawHeaders, placeHeaders)
    // No value has a comma, so one value cannot imitate two.
    return values.every(saysPlace) ? `place:${values.join(',')}` : byAddress(user)
  }
}

/** Whether the partition is a single address, not a place or all users. */
export function isAddress(partition: string | undefined): boolean {
  return partition?.startsWith('ip:') ?? false
}

function byAddress({ address }: PartitionUser): string | undefined {
  return address === undefined ? undefined : `ip:${address}`
}

/** What edges send for an unknown place, or for one that is not a single country. In upper case. */
const placeholders: ReadonlySet<string> = new Set([
  '',
  'UNKNOWN',
  '-',
  '??',
  '**',
  'NO REGION',
  // XX: Cloudflare's unknown. ZZ: Google's and CLDR's unknown. T1: Tor.
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
  // Two lines, as they came or joined by a proxy (RFC 9110 section 5.2): the user may have smuggled one in.
  return !value.includes(',') && !value.includes(lineBreak)
}

/** The App-Name that the swap API sees: the request's own, else SWAP_APP_NAME. Undefined if neither is there. */
export type ApplicationOf = (rawHeaders: readonly string[]) => string | undefined
