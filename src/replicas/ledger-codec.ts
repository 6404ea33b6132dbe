import { hash } from 'node:crypto'
import type { NotedQuote } from '../orders/ledger.ts'
import type { OrderTerms } from '../orders/order-terms.ts'
import { amountsSought } from '../orders/terms-index.ts'
import { parseDecimal } from '../quotes/decimal.ts'

/** Where the shared store keeps one noted quote: the key of a hash, and a field that equal quotes share. */
export interface LedgerField {
  key: string
  field: string
  foundBy: 'id' | 'terms'
}

export interface LedgerKeys {
  /** Every field under which a quote is noted. */
  fieldsOf(quote: NotedQuote): LedgerField[]
  /** The keys of the quotes that an order can mean. */
  keysOf(order: OrderTerms, application: string | undefined): string[]
}

/**
 * As in the index of terms, amounts are filed under their nearest double. Within one key, a field stands for all quotes
 * of exactly equal terms. Keys are digests, so that they do not reveal which application asked for which amount.
 */
export function createLedgerKeys({ keyPrefix, salt }: { keyPrefix: string; salt: string }): LedgerKeys {
  // 22 characters are more than 128 bits: no two keys are ever equal by chance.
  const digest = (parts: readonly unknown[]) =>
    hash('sha256', salt + JSON.stringify(parts), 'base64url').slice(0, 22)
  const keyOf = (...parts: readonly unknown[]) => `${keyPrefix}ledger:${digest(parts)}`
  const keyOfTerms = (pair: string, application: string, from: number, to?: number) =>
    keyOf('terms', pair, application, from, to ?? 'any')

  return {
    fieldsOf({ id, pairId, application, fromValue, requestedAmount, toValue }) {
      const froms = [...new Set([Number(fromValue), Number(requestedAmount)])]
      const from = `${fromValue} ${requestedAmount}`
      const to = Number(toValue)
      return [
        { key: keyOf('id', id), field: 'latest', foundBy: 'id' },
        ...froms.flatMap((double): LedgerField[] => [
          { key: keyOfTerms(pairId, application, double, to), field: `${from} ${toValue}`, foundBy: 'terms' },
          { key: keyOfTerms(pairId, application, double), field: from, foundBy: 'terms' },
        ]),
      ]
    },

    keysOf(order, application) {
      const keys = order.quoteIds.map((id) => keyOf('id', id))
      const sought = amountsSought(order)
      if (sought !== undefined && order.pair !== undefined && application !== undefined)
        keys.push(keyOfTerms(order.pair, application, sought.from, sought.to))
      return [...new Set(keys)]
    },
  }
}

/** The expiry comes first, where a script can read it. */
export function encodeNote(quote: NotedQuote): string {
  const { id, pairId, fromValue, requestedAmount, toValue, application, notedAtMs, cacheKey } = quote
  const members = [id, pairId, fromValue, requestedAmount, toValue, application, notedAtMs, cacheKey]
  return `${quote.expiresAtMs} ${JSON.stringify(members)}`
}

/** How far the provider was behind the store's clock when a quote was noted; 0 if `text` is another field's value. */
export function decodeClockLag(text: string): number {
  return Number(/^\d{1,16} (\d{1,13})$/.exec(text)?.[1] ?? 0)
}

const maxNoteLength = 8_192
/** Longer than any noted quote lives, however far the clocks of two replicas differ. */
export const maxLifeMs = 2 * 86_400_000

/**
 * Undefined: the text is not what `encodeNote` writes, because other programs can write to the store. `latestMs` is the
 * latest time that any clock shows, so that doubt about the time never discards a note.
 */
export function decodeNote(text: unknown, latestMs: number): NotedQuote | undefined {
  if (typeof text !== 'string' || text.length > maxNoteLength) return undefined
  const [, digits = '', json = ''] = /^(\d{1,16}) (\[.*\])$/s.exec(text) ?? []
  const expiresAtMs = Number(digits)
  if (expiresAtMs === 0 || expiresAtMs - latestMs > maxLifeMs) return undefined
  const members = parseMembers(json)
  const notedAtMs = members[6]
  const texts = [...members.slice(0, 6), members[7]]
  if (members.length !== 8 || !texts.every(isText) || !Number.isFinite(notedAtMs)) return undefined
  const [id = '', pairId = '', fromValue = '', requestedAmount = '', toValue = '', application = ''] = texts
  if (![fromValue, requestedAmount, toValue].every((value) => parseDecimal(value) === value)) return undefined
  const cacheKey = texts[6] ?? ''
  const terms = { pairId, fromValue, requestedAmount, toValue, application }
  return { id, ...terms, expiresAtMs, cacheKey, notedAtMs: Number(notedAtMs) }
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
