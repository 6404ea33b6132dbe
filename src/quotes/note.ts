import { parseDecimal } from '../http/decimal.ts'
import { briefText, flatText } from '../process/text.ts'
import type { Ending } from './ends.ts'
import type { Quote } from './quote.ts'
import type { QuoteRequest } from './request.ts'

/**
 * What outlives a relayed quote: orders are judged by it. An answer that could not be read has a note, too, without an id
 * and without a toAmount.
 */
export interface Note extends Ending {
  readonly id: string
  readonly pairId: string
  /** App-Name as the upstream receives it. */
  readonly application: string
  /** Who was given it: a digest of the client's partition. Undefined: a client whose address is not known. */
  readonly partition: string | undefined
  /** Amounts are canonical decimals. */
  readonly fromValue: string
  /** The amount in the quote request. An upstream may round it, and an order may state either amount. */
  readonly requestedAmount: string
  readonly toValue: string
  /** As in the quote. */
  readonly hasNumbers: boolean
  readonly expiresAtMs: number
  /** The quote's cache key, for dropping it from the cache; empty once it is over, and where no store is shared. */
  readonly cacheKey: string
  /** When it was first noted, by our clock. Metrics and the console show how old an order's quote is. */
  readonly notedAtMs: number
}

/** Names one quote: the same id with a later expiry is another quote. */
export type QuoteName = Pick<Note, 'id' | 'expiresAtMs'>

/** Who was given a quote, or who sends an order. */
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
    // Copied, because a slice would keep the whole request target in memory as long as the ledger keeps the quote.
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

/** Copied field by field, because the ledger hands in its entries, which have much more. */
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
