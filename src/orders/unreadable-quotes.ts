import { flattened } from '../http/memoize.ts'
import type { OrderTerms } from './order-terms.ts'
import type { QuoteTerms } from './terms-index.ts'

/** What a quote was asked for. */
export interface UnreadQuote extends Pick<QuoteTerms, 'pairId' | 'application' | 'requestedAmount'> {
  /** By our clock. */
  passedAtMs: number
}

export interface UnreadQuotes {
  note(quote: UnreadQuote): void
  /** Whether one that passed since may be what the order means, rather than this quote of the same terms. */
  mayBeMeant(order: OrderTerms, instead: QuoteTerms & { readonly notedAtMs: number }): boolean
}

const most = 10_000
/** No quote names a longer one (quote.ts), and a client could ask for thousands of some kilobytes each. */
const longestPair = 256

/** Quotes that went out and could not be read here: by terms, none that is older may refuse an order from then on. */
export function createUnreadQuotes(): UnreadQuotes {
  /** When one last passed, by what was asked for; the newest last. */
  const passedAtMs = new Map<string, number>()

  return {
    note(quote) {
      if (quote.pairId.length > longestPair) return
      const key = flattened(keyOf(quote, quote.requestedAmount))
      passedAtMs.delete(key)
      passedAtMs.set(key, quote.passedAtMs)
      const [oldest = key] = passedAtMs.keys()
      if (passedAtMs.size > most) passedAtMs.delete(oldest)
    },

    mayBeMeant({ fromAmount }, instead) {
      // The order may state the amount as it was asked for, or as the provider rounded it.
      const amounts = [instead.requestedAmount, fromAmount?.canonical ?? instead.requestedAmount]
      return amounts.some((amount) => (passedAtMs.get(keyOf(instead, amount)) ?? -1) >= instead.notedAtMs)
    },
  }
}

/** By the double, as terms are found. */
function keyOf({ pairId, application }: Pick<QuoteTerms, 'pairId' | 'application'>, amount: string): string {
  return `${pairId} ${Number(amount)} ${application}`
}
