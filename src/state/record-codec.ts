import { crc32 } from 'node:zlib'
import type { LedgerEntry } from '../orders/ledger.ts'
import type { Operation } from './level-state.ts'
import type { RestoredRecord, StateRecord } from './state.ts'
import type { Changes } from './waiting-changes.ts'

/** Raised when records or files change their form. A folder of a higher version is refused. */
export const layoutVersion = 1

/** What each batch says of the whole store. */
export interface BatchMark {
  /** The running number of the batch; 0: nothing was ever written. */
  readonly number: number
  /** How many records the store holds after it. */
  readonly count: number
  /** The serial of the next record. */
  readonly nextSerial: number
  /** Our wall clock. */
  readonly writtenAtMs: number
}

export const emptyMark: BatchMark = { number: 0, count: 0, nextSerial: 1, writtenAtMs: 0 }

/** The mark of the newest batch. It sorts before every record. */
export const markKey = '!'
const serialDigits = 9
const checksumDigits = 7

export function keyOf(serial: number): string {
  return serial.toString(36).padStart(serialDigits, '0')
}

function serialOf(key: string): number {
  return Number.parseInt(key, 36)
}

/**
 * The checksum is of the key too: a flipped byte in a key would make one record another. The key is the checksum's start
 * value, as a hash that any single change of the key changes.
 */
function checksumOf(key: string, json: string): number {
  let start = 0
  for (let index = 0; index < key.length; index += 1)
    start = Math.imul(start ^ key.charCodeAt(index), 0x01000193)
  return crc32(json, start >>> 0)
}

export function seal(key: string, json: string): string {
  return checksumOf(key, json).toString(36).padStart(checksumDigits, '0') + json
}

/** Undefined: the checksum is wrong. */
export function unseal(key: string, value: string): unknown {
  const json = value.slice(checksumDigits)
  // Compared as numbers, because writing one takes as long as the checksum itself.
  const stated = Number.parseInt(value.slice(0, checksumDigits), 36)
  return checksumOf(key, json) === stated ? JSON.parse(json) : undefined
}

export function encodeMark({ number, count, nextSerial, writtenAtMs }: BatchMark): string {
  return seal(markKey, JSON.stringify([number, count, nextSerial, writtenAtMs]))
}

export function decodeMark(value: string): BatchMark | undefined {
  const [number, count, nextSerial, writtenAtMs] = (unseal(markKey, value) ?? []) as number[]
  if (number === undefined || count === undefined || nextSerial === undefined || writtenAtMs === undefined)
    return undefined
  return { number, count, nextSerial, writtenAtMs }
}

export function markAfter(
  before: BatchMark,
  { batch, ...since }: { batch: Changes } & Pick<BatchMark, 'nextSerial' | 'writtenAtMs'>,
): BatchMark {
  let { count } = before
  for (const to of batch.values()) count += to === undefined ? -1 : 1
  return { number: before.number + 1, count, ...since }
}

export function encodeBatch(batch: Changes, after: BatchMark, wallAheadMs: number): Operation[] {
  const operations: Operation[] = []
  for (const [serial, to] of batch) {
    const key = keyOf(serial)
    if (to === undefined) operations.push({ type: 'del', key })
    else operations.push({ type: 'put', key, value: encodeRecord(key, to, wallAheadMs) })
  }
  operations.push({ type: 'put', key: markKey, value: encodeMark(after) })
  return operations
}

/** `wallAheadMs`: our wall clock less our steady clock, which no other process has. */
export function encodeRecord(key: string, record: StateRecord, wallAheadMs: number): string {
  return seal(key, JSON.stringify(membersOf(record, wallAheadMs)))
}

function membersOf({ kind, value }: StateRecord, wallAheadMs: number): unknown[] {
  if (kind === 'use') return ['u', value.id, value.expiresAtMs]
  if (kind === 'unreadable') {
    const { pairId, application, requestedAmount, partition, relayedAtMs } = value
    return ['x', pairId, application, requestedAmount, partition, relayedAtMs]
  }
  const { id, pairId, fromValue, requestedAmount, toValue, application, expiresAtMs, ownEnd } = value
  const requested = requestedAmount === fromValue ? 0 : requestedAmount
  const terms = [id, pairId, application, `${fromValue} ${toValue}`, requested]
  const members = ['q', ...terms, value.partition ?? 0, value.cacheKey, value.notedAtMs, expiresAtMs]
  if (ownEnd === undefined) return members
  // Relative to the expiry, because small numbers take fewer digits.
  const byWallMs = wallAheadMs - expiresAtMs
  return [...members, Math.round(ownEnd.fromMs + byWallMs), Math.round(ownEnd.untilMs + byWallMs)]
}

/** Undefined: the record is damaged. */
export function decodeRecord(key: string, written: string, wallAheadMs: number): RestoredRecord | undefined {
  const members = unseal(key, written) as unknown[] | undefined
  const serial = serialOf(key)
  switch (members?.[0]) {
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
