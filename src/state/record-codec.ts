import type { LedgerEntry } from '../orders/ledger.ts'
import { seal } from './seal.ts'
import type { RestoredRecord, StateRecord } from './state.ts'

/** Raised when records or files change their form. A folder of a higher version is refused. */
export const layoutVersion = 1

const serialDigits = 9

export function keyOf(serial: number): string {
  return serial.toString(36).padStart(serialDigits, '0')
}

export function serialOf(key: string): number {
  return Number.parseInt(key, 36)
}

/** `wallAheadMs`: our wall clock less our steady clock, which no other process has. */
export function encodeRecord(key: string, record: StateRecord, wallAheadMs: number): string {
  return seal(key, JSON.stringify(membersOf(record, wallAheadMs)))
}

export function membersOf({ kind, value }: StateRecord, wallAheadMs: number): unknown[] {
  if (kind === 'use') return ['u', value.id, value.expiresAtMs]
  if (kind === 'unreadable') {
    const { pairId, application, requestedAmount, partition, relayedAtMs } = value
    return ['x', pairId, application, requestedAmount, partition, relayedAtMs]
  }
  const { id, pairId, fromValue, requestedAmount, toValue, application, expiresAtMs, ownEnd } = value
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
  if (ownEnd !== undefined) {
    // Relative to the expiry, because small numbers take fewer digits.
    const byWallMs = wallAheadMs - expiresAtMs
    members.push(Math.round(ownEnd.fromMs + byWallMs), Math.round(ownEnd.untilMs + byWallMs))
  }
  return members
}

/** Undefined: the kind is unknown. */
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
      const value = { pairId, application, requestedAmount, partition, relayedAtMs }
      return { kind: 'unreadable', serial, value }
    }
    case 'q':
      return { kind: 'quote', serial, value: entryOf(members as WrittenQuote, serial, wallAheadMs) }
    default:
      return undefined
  }
}

type WrittenUnreadable = [
  kind: string,
  pairId: string,
  application: string,
  requestedAmount: string,
  partition: string,
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
  ownFromMs?: number,
  ownUntilMs?: number,
]

/** The properties have the order of the ledger's own entries, so that V8 takes them for objects of one kind. */
function entryOf(members: WrittenQuote, serial: number, wallAheadMs: number): LedgerEntry {
  const [
    ,
    id,
    pairId,
    application,
    amounts,
    requested,
    partition,
    cacheKey,
    notedAtMs,
    expiresAtMs,
    ownFromMs,
    ownUntilMs,
  ] = members
  const space = amounts.indexOf(' ')
  const fromValue = amounts.slice(0, space)
  const bySteadyMs = expiresAtMs - wallAheadMs
  const ownEnd =
    ownFromMs === undefined || ownUntilMs === undefined
      ? undefined
      : { fromMs: ownFromMs + bySteadyMs, untilMs: ownUntilMs + bySteadyMs }
  return {
    id,
    pairId,
    application,
    partition: partition === 0 ? undefined : partition,
    fromValue,
    requestedAmount: requested === 0 ? fromValue : requested,
    toValue: amounts.slice(space + 1),
    expiresAtMs,
    ownEnd,
    cacheKey,
    notedAtMs,
    serial,
  }
}
