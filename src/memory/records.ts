import { crc32 } from 'node:zlib'
import type { Now } from '../clock.ts'
import { headLines } from '../http/answer.ts'
import { parseDecimal } from '../http/decimal.ts'
import { type End, refusalIn, untilRefusal } from '../quotes/ends.ts'
import type { Note, QuoteName } from '../quotes/note.ts'
import { type Quote, quoteOf, readEither } from '../quotes/quote.ts'
import type { Hold } from './holds.ts'
import type { JournalRecord } from './journal.ts'

/*
 * What other processes read: the lines of the journals, and the copies of quotes in the shared cache. A line is a list
 * in JSON, and its first member is a checksum of the rest. An end is written as what is left of it, because readers
 * have other clocks. The lines:
 *   [checksum, "n", wallMs, leftMs, lifeMs, id, pair, application, "from to", requested, partition, cacheKey,
 *     expiresAtMs]: a note; the amounts of a quote with numbers are "from to ~"; `requested` 0: the from amount
 *   [checksum, "u", wallMs, id, expiresAtMs]: a used quote
 *   [checksum, "k", claimedAtMs, id, what is kept of the order with that key]: null if the key is free again
 *   [checksum, "h", wallMs, saidAtMs, leftMs, keptMs, lastsMs, pair, application, quotes, reason]: a hold
 *   [checksum, "e", wallMs]: a clean end
 * `wallMs` is the writer's wall clock. A missing partition, pair or application is 0. "k" is only on the disk, because
 * the store has a value for each key. "h" is on the disk, and in a hash of the store.
 */

/** Longer lines are not read. */
export const maxRecordLength = 16_384

export function sealLine(members: readonly unknown[]): string {
  return sealed(JSON.stringify(members).slice(1))
}

function sealed(tail: string): string {
  return `[${crc32(tail)},${tail}`
}

/** The members, the checksum first. Undefined: the line is damaged, or was never sealed. */
export function unsealLine(line: string): unknown[] | undefined {
  const comma = line.indexOf(',')
  if (Number(line.slice(1, comma)) !== crc32(line.slice(comma + 1))) return undefined
  const members = parsed(line)
  return Array.isArray(members) ? members : undefined
}

/** Encodes what is left now, so the line must be written at once. */
export function encodeRecord({ kind, quote }: JournalRecord, now: Now): string {
  return sealLine(
    kind === 'noted'
      ? noteMembers(quote, now)
      : ['u', now.nowMs, quote.id, quote.expiresAtMs],
  )
}

/** The last line of a process with a clean end. */
export function encodeEnd(nowMs: number): string {
  return sealLine(['e', nowMs])
}

/** Encodes a key. `text`: JSON; undefined: the key is free again. */
export function encodeKey({ id, text = 'null', claimedAtMs }: KeyRecord): string {
  return sealed(`"k",${Math.round(claimedAtMs)},${JSON.stringify(id)},${text}]`)
}

/** Encodes a hold, with what is left of its ends now. */
export function encodeHold(hold: Hold, now: Now): string {
  const leftMs = Math.round(hold.endsSteadyMs - now.steadyMs)
  const keptMs = Math.round(hold.keptSteadyMs - now.steadyMs)
  const { saidAtMs, lastsMs, pair = 0, application = 0, quotes, reason } = hold
  return sealLine([
    'h',
    Math.round(now.nowMs),
    saidAtMs,
    leftMs,
    keptMs,
    lastsMs,
    pair,
    application,
    quotes ? 1 : 0,
    reason,
  ])
}

/** `writersNowMs`: the time now, by the clock of `wallMs`. */
export function decodeHold(
  line: string,
  now: Now,
  writersNowMs: number,
): Hold | undefined {
  const members = line.length > maxRecordLength ? undefined : unsealLine(line)
  return members && holdIn(members, now, writersNowMs)
}

function holdIn(members: unknown[], now: Now, writersNowMs: number): Hold | undefined {
  // Checked first, because nearly all lines of a journal are about quotes.
  if (members[1] !== 'h') return undefined
  const [, , wallMs, saidAtMs, leftMs, keptMs, lastsMs, ...said] = members
  const [pair, application, quotes, reason] = said
  if (!isNumber(wallMs) || !isNumber(saidAtMs)) return undefined
  if (!isNumber(leftMs) || !isNumber(keptMs) || !isNumber(lastsMs)) return undefined
  const areNames = [pair, application].every((name) => name === 0 || isText(name))
  if (!areNames || !isText(reason)) return undefined
  const ageMs = Math.max(0, writersNowMs - wallMs)
  const endsInMs = Math.min(leftMs, lastsMs) - ageMs
  return {
    pair: isText(pair) ? pair : undefined,
    application: isText(application) ? application : undefined,
    quotes: quotes === 1,
    reason,
    saidAtMs,
    lastsMs,
    endsSteadyMs: now.steadyMs + endsInMs,
    untilMs: Math.round(now.nowMs + endsInMs),
    keptSteadyMs: now.steadyMs + keptMs - ageMs,
  }
}

/** Stands behind the amounts of a quote with JSON numbers. Earlier versions skip such a record. */
const numbersMark = ' ~'

function noteMembers(note: Note, now: Now): unknown[] {
  const {
    id,
    pairId,
    application,
    fromValue,
    requestedAmount,
    toValue,
    hasNumbers,
    partition = 0,
    cacheKey,
  } = note
  const leftMs = untilRefusal(note, now)
  const lifeMs = Math.ceil(note.refusedFromMs - note.notedAtMs)
  const requested = requestedAmount === fromValue ? 0 : requestedAmount
  // The two amounts are one text, because V8 looks up each text of up to ten characters in one large table.
  const amounts = `${fromValue} ${toValue}${hasNumbers ? numbersMark : ''}`
  return [
    'n',
    now.nowMs,
    leftMs,
    lifeMs,
    id,
    pairId,
    application,
    amounts,
    requested,
    partition,
    cacheKey,
    note.expiresAtMs,
  ]
}

export interface HoldRecord {
  readonly kind: 'hold'
  readonly hold: Hold
}

/** What is known of the order with a key (`memory/keys.ts`). */
export interface KeyRecord {
  readonly kind: 'key'
  readonly id: string
  /** Undefined: the key is free again. */
  readonly text: string | undefined
  /** By its writer's wall clock. */
  readonly claimedAtMs: number
}

/** The times of its note are as if this process had written it now. */
interface ReadLine<Kind = JournalRecord> {
  /** Undefined: the line of a clean end. */
  readonly record: Kind | undefined
  /** When the line was written, by its writer's wall clock. */
  readonly wallMs: number
}

/** `ageOf` turns the time of a line into its age. Undefined: the line is damaged, or not one of ours. */
export function decodeLine(
  line: string,
  now: Now,
  ageOf: (wallMs: number) => number,
): ReadLine | undefined {
  const members = line.length > maxRecordLength ? undefined : unsealLine(line)
  return members && recordOf(members, now, ageOf)
}

/** Reads a line of the file on the disk, which has keys and holds too. */
export function decodeDiskLine(
  line: string,
  now: Now,
): ReadLine<JournalRecord | KeyRecord | HoldRecord> | undefined {
  const members = unsealLine(line)
  if (members === undefined) return undefined
  if (members[1] !== 'k') {
    if (line.length > maxRecordLength) return undefined
    const hold = holdIn(members, now, now.nowMs)
    if (hold !== undefined)
      return { record: { kind: 'hold', hold }, wallMs: Number(members[2]) }
    return recordOf(members, now, (wallMs) => Math.max(0, now.nowMs - wallMs))
  }
  const [, , claimedAtMs, id, kept] = members
  if (typeof claimedAtMs !== 'number' || typeof id !== 'string') return undefined
  const text = kept === null ? undefined : JSON.stringify(kept)
  return { record: { kind: 'key', id, text, claimedAtMs }, wallMs: claimedAtMs }
}

function recordOf(
  members: unknown[],
  now: Now,
  ageOf: (wallMs: number) => number,
): ReadLine | undefined {
  const kind = members[1]
  const wallMs = members[2]
  if (typeof wallMs !== 'number') return undefined
  if (kind === 'e') return { record: undefined, wallMs }
  const quote = kind === 'n' ? noteIn(members, now, ageOf(wallMs)) : undefined
  if (quote !== undefined) return { record: { kind: 'noted', quote }, wallMs }
  const used = kind === 'u' ? usedIn(members) : undefined
  return used && { record: { kind: 'used', quote: used }, wallMs }
}

function usedIn([, , , id, expiresAtMs]: unknown[]): QuoteName | undefined {
  return typeof id === 'string' && typeof expiresAtMs === 'number'
    ? { id, expiresAtMs }
    : undefined
}

function noteIn(members: unknown[], now: Now, ageMs: number): Note | undefined {
  if (members.length !== 13) return undefined
  // By index: destructuring makes an object for each member, and a file may have a million records.
  const leftMs = members[3]
  const lifeMs = members[4]
  const id = members[5]
  const pairId = members[6]
  const application = members[7]
  const amounts = members[8]
  const requested = members[9]
  const partition = members[10]
  const cacheKey = members[11]
  const expiresAtMs = members[12]
  if (
    typeof leftMs !== 'number' ||
    typeof lifeMs !== 'number' ||
    typeof expiresAtMs !== 'number'
  )
    return undefined
  if (
    !isText(id) ||
    !isText(pairId) ||
    !isText(application) ||
    !isText(amounts) ||
    !isText(cacheKey)
  )
    return undefined
  const space = amounts.indexOf(' ')
  const fromValue = amounts.slice(0, space)
  const hasNumbers = amounts.endsWith(numbersMark)
  const toValue = amounts.slice(space + 1, hasNumbers ? -numbersMark.length : undefined)
  const requestedAmount = requested === 0 ? fromValue : requested
  if (!isText(requestedAmount) || !(partition === 0 || isText(partition)))
    return undefined
  // Other programs can write to the store. Only an unreadable answer has no toAmount, and it has no id either.
  if (toValue !== '' && parseDecimal(toValue) !== toValue) return undefined
  const { refusedFromMs, wallAheadMs } = refusalIn(leftMs - ageMs, now)
  return {
    id,
    pairId,
    application,
    partition: partition === 0 ? undefined : partition,
    fromValue,
    requestedAmount,
    toValue,
    hasNumbers,
    expiresAtMs,
    cacheKey,
    refusedFromMs,
    wallAheadMs,
    notedAtMs: refusedFromMs - lifeMs,
  }
}

function isNumber(value: unknown): value is number {
  return Number.isFinite(value)
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

/**
 * A copy for the shared cache: a line with the quote's id, a line with what is needed to serve it, and its body, byte
 * for byte. JSON has no line breaks, so a script can compare the first line to identify the quote. What is left of the
 * quote is stored beside the copy.
 */
export function encodeCopy({ id, body, headers, lifeMs, expiresAtMs }: Quote): Buffer {
  const head = `${idLine(id)}${JSON.stringify([lifeMs, expiresAtMs, ...headers])}\n`
  return Buffer.concat([Buffer.from(head), Buffer.from(body, 'latin1')])
}

export function idLine(id: string): string {
  return `${JSON.stringify(id)}\n`
}

/**
 * `end`: by our clocks, from what was beside the copy. Undefined: the bytes are not a copy of a quote or of a list of
 * rates. Other programs can write to the store, and a damaged quote would be served until it expires.
 */
export function decodeCopy(bytes: Buffer, end: End): Quote | undefined {
  const idEnd = bytes.indexOf(lineBreak)
  const headEnd = bytes.indexOf(lineBreak, idEnd + 1)
  if (idEnd === -1 || headEnd === -1) return undefined
  const id = parsed(bytes.toString('utf8', 0, idEnd))
  const head = parsed(bytes.toString('utf8', idEnd + 1, headEnd))
  if (!Array.isArray(head)) return undefined
  const [lifeMs, expiresAtMs, ...headers] = head
  if (!Number.isFinite(lifeMs) || headers.length % 2 !== 0) return undefined
  if (!headers.every(isText) || headLines(headers) === undefined) return undefined
  const body = bytes.subarray(headEnd + 1)
  const stated = readEither(body)
  if (typeof stated === 'string') return undefined
  if (stated.id !== id || stated.expiresAtMs !== expiresAtMs) return undefined
  return quoteOf(stated, { body: body.toString('latin1'), headers, lifeMs, end })
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const lineBreak = 0x0a
