import type { Clock } from '../clock.ts'
import { flattened } from '../http/memoize.ts'
import { parseDecimal } from '../quotes/decimal.ts'
import type { ProviderClock } from '../quotes/provider-clock.ts'
import { type Quote, readQuote } from '../quotes/quote.ts'
import type { QuoteRequest } from '../quotes/quote-key.ts'
import type { StoredQuote } from '../quotes/quote-store.ts'
import type { SharedLedger } from '../replicas/shared-ledger.ts'
import type { NotedQuote, QuoteLedger } from './ledger.ts'

export interface QuoteNotesOptions {
  clock: Clock
  providerClock: Pick<ProviderClock, 'latestMs'>
  ledger: Pick<QuoteLedger, 'noteUnread'>
  sharedLedger: Pick<SharedLedger, 'note' | 'noteHere'>
  keyOf(request: QuoteRequest): string
  /** The application as orders are matched by it. */
  applicationOf(request: QuoteRequest): string
}

/** What the ledger is told of the quotes that go out, so that orders can be matched with them. */
export interface QuoteNotes {
  /** Settles when the quote may go out. */
  noteQuote(quote: Quote, request: QuoteRequest): Promise<void> | void
  /** One that another replica asked for: what is served here is known here, whatever becomes of the store. */
  noteFound(stored: StoredQuote, request: QuoteRequest): void
  /** An answer that its caller may take for a quote, and that cannot be read here. */
  noteUnread(request: QuoteRequest): void
}

export function createQuoteNotes(options: QuoteNotesOptions): QuoteNotes {
  const { clock, providerClock, ledger, sharedLedger, keyOf, applicationOf } = options

  /** What an order may be matched with: the quote's own amounts, and the amount that was asked for. */
  function noted(quote: Quote, request: QuoteRequest): NotedQuote {
    return {
      id: quote.id,
      pairId: quote.pairId,
      fromValue: parseDecimal(quote.fromAmount.value) ?? quote.fromAmount.value,
      toValue: parseDecimal(quote.toAmount.value) ?? quote.toAmount.value,
      // Of many digits it is a slice, which would keep all of the target for as long as the quote is remembered.
      requestedAmount: flattened(request.canonicalAmount),
      application: applicationOf(request),
      expiresAtMs: quote.expiryMs,
      cacheKey: flattened(keyOf(request)),
      notedAtMs: clock.nowMs(),
    }
  }

  return {
    noteQuote: (quote, request) => sharedLedger.note(noted(quote, request)),
    noteFound({ body, expiresAtMs, lifeMs }, request) {
      const { quote } = readQuote(Buffer.from(body, 'latin1'), providerClock.latestMs())
      if (quote === undefined) return
      sharedLedger.noteHere({ ...noted(quote, request), notedAtMs: expiresAtMs - lifeMs })
    },
    noteUnread(request) {
      ledger.noteUnread({
        pairId: request.pair,
        application: applicationOf(request),
        requestedAmount: request.canonicalAmount,
        passedAtMs: clock.nowMs(),
      })
    },
  }
}
