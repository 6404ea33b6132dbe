import { flatText } from '../process/flat-text.ts'
import type { OrderTerms } from './order-terms.ts'
import type { QuoteTerms } from './terms-index.ts'

/** What an unreadable quote was asked for. */
export interface UnreadableQuote extends Pick<QuoteTerms, 'pairId' | 'application' | 'requestedAmount'> {
  /** By our clock. */
  passedAtMs: number
}

export interface UnreadableQuotes {
  note(quote: UnreadableQuote): void
  /** Whether the order may mean an unreadable quote that passed since `instead` was noted, and has the same terms. */
  mayBeMeant(order: OrderTerms, instead: QuoteTerms & { readonly notedAtMs: number }): boolean
}

const maxQuotes = 10_000
/** No readable quote has a longer one (quote.ts), and a client could ask for thousands of some kilobytes each. */
const maxPairLength = 256

/** Relayed quotes that could not be parsed. An older quote must not refuse an order that may refer to one of them. */
export function createUnreadableQuotes(): UnreadableQuotes {
  /** When an unreadable quote last passed, by what was asked for; the newest last. */
  const passedAtMs = new Map<string, number>()

  return {
    note(quote) {
      if (quote.pairId.length > maxPairLength) return
      const key = flatText(keyOf(quote, quote.requestedAmount))
      passedAtMs.delete(key)
      passedAtMs.set(key, quote.passedAtMs)
      const [oldest = key] = passedAtMs.keys()
      if (passedAtMs.size > maxQuotes) passedAtMs.delete(oldest)
    },

    mayBeMeant({ fromAmount }, instead) {
      // The order may state the amount that was asked for, or the amount as the provider rounded it.
      const amounts = [instead.requestedAmount, fromAmount?.canonical ?? instead.requestedAmount]
      return amounts.some((amount) => (passedAtMs.get(keyOf(instead, amount)) ?? -1) >= instead.notedAtMs)
    },
  }
}

/** By the nearest double, as the index of terms does. */
function keyOf({ pairId, application }: Pick<QuoteTerms, 'pairId' | 'application'>, amount: string): string {
  return `${pairId} ${Number(amount)} ${application}`
}
