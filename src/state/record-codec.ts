import type { NotedQuote } from '../orders/noted-quote.ts'
import { seal } from './seal.ts'
import type { RestoredRecord, StateRecord } from './state.ts'

/** Raised when records or files change their form. A folder of a higher version is refused. */
export const layoutVersion = 2

const serialDigits = 9

export function keyOf(serial: number): string {
  return serial.toString(36).padStart(serialDigits, '0')
}

export function serialOf(key: string): number {
  return Number.parseInt(key, 36)
}

export function encodeRecord(key: string, record: StateRecord): string {
  return seal(key, JSON.stringify(membersOf(record)))
}

export function membersOf({ kind, value }: StateRecord): unknown[] {
  if (kind === 'use') return ['u', value.id, value.expiresAtMs]
  if (kind === 'unreadable') {
    const { pairId, application, requestedAmount, partition = 0, relayedAtMs } = value
    return ['x', pairId, application, requestedAmount, partition, relayedAtMs]
  }
  const { id, pairId, fromValue, requestedAmount, toValue, application, expiresAtMs, refusedFromMs } = value
  const requested = requestedAmount === fromValue ? 0 : requestedAmount
  const amounts = `${fromValue} ${toValue}`
  const { partition = 0, cacheKey, notedAtMs } = value
  // One list and no copies of it, because every quote is written.
  const members = [
    'q',
    id,
    pairId,
    application,
    amounts,
    requested,
    partition,
    cacheKey,
    notedAtMs,
    expiresAtMs,
  ]
  // Relative to the expiry, because small numbers take fewer digits; and mostly it is 0.
  if (refusedFromMs !== expiresAtMs) members.push(Math.ceil(refusedFromMs - expiresAtMs))
  return members
}

/** Undefined: the kind is unknown. `wallAheadMs`: our wall clock less our steady clock. */
export function recordOf(
  members: unknown[],
  serial: number,
  wallAheadMs: number,
): RestoredRecord | undefined {
  switch (members[0]) {
    case 'u': {
      const [, id, expiresAtMs] = members as [string, string, number]
      return { kind: 'use', serial, value: { id, expiresAtMs } }
    }
    case 'x': {
      const [, pairId, application, requestedAmount, partition, relayedAtMs] = members as WrittenUnreadable
      const request = { pairId, application, requestedAmount, partition: partitionOf(partition) }
      return { kind: 'unreadable', serial, value: { ...request, relayedAtMs } }
    }
    case 'q':
      return { kind: 'quote', serial, value: quoteOf(members as WrittenQuote, wallAheadMs) }
    default:
      return undefined
  }
}

type WrittenUnreadable = [
  kind: string,
  pairId: string,
  application: string,
  requestedAmount: string,
  partition: string | 0,
  relayedAtMs: number,
]

type WrittenQuote = [
  kind: string,
  id: string,
  pairId: string,
  application: string,
  /** `fromValue toValue`, because V8 looks up each text of up to ten characters in a table of all. */
  amounts: string,
  requested: string | 0,
  partition: string | 0,
  cacheKey: string,
  notedAtMs: number,
  expiresAtMs: number,
  refusedLateMs?: number,
]

function partitionOf(written: string | 0): string | undefined {
  return written === 0 ? undefined : written
}

function quoteOf(members: WrittenQuote, wallAheadMs: number): NotedQuote {
  const [, id, pairId, application, amounts, requested, partition, cacheKey, notedAtMs, expiresAtMs] = members
  const [, , , , , , , , , , refusedLateMs = 0] = members
  const space = amounts.indexOf(' ')
  const fromValue = amounts.slice(0, space)
  return {
    id,
    pairId,
    application,
    partition: partitionOf(partition),
    fromValue,
    requestedAmount: requested === 0 ? fromValue : requested,
    toValue: amounts.slice(space + 1),
    expiresAtMs,
    refusedFromMs: expiresAtMs + refusedLateMs,
    wallAheadMs,
    cacheKey,
    notedAtMs,
  }
}
