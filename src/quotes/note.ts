import { parseDecimal } from '../http/decimal.ts'
import { briefText, flatText } from '../process/text.ts'
import type { Ending } from './ends.ts'
import type { Quote } from './quote.ts'
import type { QuoteRequest } from './request.ts'

/**
 * What outlives a served quote: orders are judged by it. The note of an unreadable answer has no id and no toAmount.
 */
export interface Note extends Ending {
  readonly id: string
  readonly pairId: string
  /** App-Name as the provider receives it. */
  readonly application: string
  /** A digest of the partition that was given the quote. Undefined: the user's address was unknown. */
  readonly partition: string | undefined
  /** Amounts are canonical decimals. */
  readonly fromValue: string
  /** The amount in the quote request. The provider may round it, and an order may state either. */
  readonly requestedAmount: string
  readonly toValue: string
  /** As in the quote. */
  readonly hasNumbers: boolean
  readonly expiresAtMs: number
  /** For dropping the quote from the cache. Empty once the quote is over; journals have it only with a shared store. */
  readonly cacheKey: string
  /** When the quote was first noted, by our clock: shows how old an order's quote is. */
  readonly notedAtMs: number
}

/** Names one quote: the same id with a later expiry is another quote. */
export type QuoteName = Pick<Note, 'id' | 'expiresAtMs'>

export type Whose = Pick<Note, 'application' | 'partition'>

export function isUnreadable({ toValue }: Pick<Note, 'toValue'>): boolean {
  return toValue === ''
}

/** Orders are matched with the quote's own amounts, and with the requested amount. */
export function noteOf(
  quote: Quote,
  request: QuoteRequest,
  { partition, notedAtMs }: Pick<Note, 'partition' | 'notedAtMs'>,
): Note {
  const { refusedFromMs, wallAheadMs } = quote.end
  const fromValue = parseDecimal(quote.fromValue) ?? quote.fromValue
  const { canonicalAmount } = request
  return {
    id: quote.id,
    pairId: briefText(quote.pairId),
    // A copy: a slice would keep the whole request target in memory as long as the quote.
    requestedAmount:
      canonicalAmount === fromValue ? fromValue : flatText(canonicalAmount),
    cacheKey: request.key ?? '',
    application: briefText(request.application),
    partition,
    fromValue,
    toValue: parseDecimal(quote.toValue) ?? quote.toValue,
    hasNumbers: quote.hasNumbers,
    expiresAtMs: quote.expiresAtMs,
    refusedFromMs,
    wallAheadMs,
    notedAtMs,
  }
}

/** Field by field, because entries of the ledger have many more fields. */
export function withoutCacheKey(note: Note): Note {
  return {
    id: note.id,
    pairId: note.pairId,
    application: note.application,
    partition: note.partition,
    fromValue: note.fromValue,
    requestedAmount: note.requestedAmount,
    toValue: note.toValue,
    hasNumbers: note.hasNumbers,
    expiresAtMs: note.expiresAtMs,
    refusedFromMs: note.refusedFromMs,
    wallAheadMs: note.wallAheadMs,
    notedAtMs: note.notedAtMs,
    cacheKey: '',
  }
}
