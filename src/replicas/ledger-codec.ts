import { hash } from 'node:crypto'
import type { Now } from '../clock.ts'
import type { NotedQuote, Orderer } from '../orders/noted-quote.ts'
import type { OrderTerms } from '../orders/order-terms.ts'
import { briefText } from '../process/brief-text.ts'
import { parseDecimal } from '../quotes/decimal.ts'
import { orderLeftMs } from '../quotes/ends.ts'
import { amountGroup, amountGroups } from './amount-groups.ts'

/** Where the shared store keeps one noted quote: the key of a hash, and a field that equal quotes share. */
export interface LedgerField {
  key: string
  field: string
}

export interface LedgerKeys {
  /** Every field under which a quote is noted. */
  fieldsOf(quote: NotedQuote): LedgerField[]
  /** The keys of the quotes that an order can mean. */
  keysOf(order: OrderTerms, orderer: Orderer): string[]
}

/**
 * A quote is filed by its id and as in the index of terms. Within one key, a field stands for all quotes
 * of exactly equal terms. Keys are digests, so that they do not reveal which application asked for which amount.
 */
export function createLedgerKeys({ keyPrefix, salt }: { keyPrefix: string; salt: string }): LedgerKeys {
  // 22 characters are more than 128 bits: no two keys are ever equal by chance.
  const digest = (parts: readonly unknown[]) =>
    hash('sha256', salt + JSON.stringify(parts), 'base64url').slice(0, 22)
  const keyOf = (...parts: readonly unknown[]) => `${keyPrefix}ledger:${digest(parts)}`
  const keysOfTerms = (pair: string, application: string, from: number) => ({
    // Version 1.0.0 writes this key too.
    any: keyOf('terms', pair, application, from, 'any'),
    of: (partition: string) => keyOf('of', pair, application, from, partition),
    toward: (group: string) => keyOf('toward', pair, application, from, group),
  })

  return {
    fieldsOf({ id, pairId, application, partition, fromValue, requestedAmount, toValue }) {
      const froms = new Set([Number(fromValue), Number(requestedAmount)])
      const from = `${fromValue} ${requestedAmount}`
      const terms = `${from} ${toValue}`
      const fields: LedgerField[] = [{ key: keyOf('id', id), field: 'latest' }]
      for (const double of froms) {
        const keys = keysOfTerms(pairId, application, double)
        fields.push({ key: keys.toward(amountGroup(toValue)), field: terms }, { key: keys.any, field: from })
        if (partition !== undefined) fields.push({ key: keys.of(partition), field: terms })
      }
      return fields
    },

    keysOf({ quoteIds, pair, fromAmount, toAmount }, { application, partition }) {
      const ids = quoteIds.map(({ id }) => keyOf('id', id))
      // An id decides alone, unless it may be a number of the client's own.
      const isById = quoteIds.some(({ isBare }) => !isBare)
      if (isById || pair === undefined || fromAmount === undefined || application === undefined)
        return [...new Set(ids)]
      const keys = keysOfTerms(briefText(pair), application, Number(fromAmount.canonical))
      const groups =
        toAmount === undefined || toAmount === 'unreadable' ? [] : amountGroups(toAmount.canonical)
      const own = partition === undefined ? [] : [keys.of(partition)]
      return [...ids, ...groups.map(keys.toward), ...own, keys.any]
    },
  }
}

/** The parts of a note but for its two times, which the script writes before them: the expiry and the store's clock. */
export function encodeNote(quote: NotedQuote, now: Now): string {
  const { id, pairId, fromValue, requestedAmount, toValue, application, partition } = quote
  const texts = [id, pairId, fromValue, requestedAmount, toValue, application]
  // The store's clock is cut to milliseconds, so one more: no replica takes the quote for over before it is.
  const leftMs = Math.ceil(orderLeftMs(quote, now)) + 1
  return JSON.stringify([...texts, quote.notedAtMs, quote.cacheKey, partition ?? null, leftMs])
}

const maxNoteLength = 8_192
/** Longer than any noted quote lives, however far the clocks of two replicas differ. */
export const maxLifeMs = 2 * 86_400_000

/** The instant at which a note was read, by each clock that its times may be of. */
export interface ReadAt extends Now {
  readonly storeNowMs: number
}

/** Undefined: the text is not a note, because other programs can write to the store. */
export function decodeNote(text: unknown, readAt: ReadAt): NotedQuote | undefined {
  if (typeof text !== 'string' || text.length > maxNoteLength) return undefined
  const [, digits = '', storeDigits = '', json = ''] = /^(\d{1,16}) (\d{1,16}) (\[.*\])$/s.exec(text) ?? []
  const expiresAtMs = Number(digits)
  // Compared with the latest time that any clock shows, so that doubt about the time never discards a note.
  if (expiresAtMs === 0 || expiresAtMs - Math.max(readAt.storeNowMs, readAt.nowMs) > maxLifeMs)
    return undefined
  const members = parseMembers(json)
  const [notedAtMs, cacheKey, partition = null, leftMs] = members.slice(6)
  const texts = [...members.slice(0, 6), cacheKey, partition ?? '']
  if (members.length !== 10 || !texts.every(isText)) return undefined
  if (typeof notedAtMs !== 'number' || typeof leftMs !== 'number') return undefined
  const [id = '', pairId = '', fromValue = '', requestedAmount = '', toValue = '', application = ''] = texts
  if (![fromValue, requestedAmount, toValue].every((value) => parseDecimal(value) === value)) return undefined
  const terms = { pairId, fromValue, requestedAmount, toValue, application }
  return {
    id,
    ...terms,
    partition: isText(partition) ? partition : undefined,
    expiresAtMs,
    // What is left goes down by the store's clock. What a note took on its way makes the end later, not earlier.
    refusedFromMs: readAt.nowMs - (readAt.storeNowMs - Number(storeDigits)) + leftMs,
    wallAheadMs: readAt.nowMs - readAt.steadyMs,
    cacheKey: texts[6] ?? '',
    notedAtMs,
  }
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

function parseMembers(json: string): unknown[] {
  try {
    const members: unknown = JSON.parse(json)
    return Array.isArray(members) ? members : []
  } catch {
    return []
  }
}
