import { flatText } from '../process/flat-text.ts'
import type { OrderTerms } from './order-terms.ts'
import type { QuoteTerms } from './terms-index.ts'

/** The request whose answer was an unreadable quote. */
export interface UnreadableQuote extends Pick<QuoteTerms, 'pairId' | 'application' | 'requestedAmount'> {
  /** When the answer was relayed, by our clock. */
  relayedAtMs: number
}

export interface UnreadableQuotes {
  note(quote: UnreadableQuote): void
  /** Whether the order may refer to an unreadable quote with the terms of `match`, relayed since `match` was noted. */
  mayBeMeant(order: OrderTerms, match: QuoteTerms & { readonly notedAtMs: number }): boolean
}

const maxQuotes = 10_000
/** No readable quote has a longer pair id (quote.ts), and a client could request thousands of some kilobytes each. */
const maxPairLength = 256

/** Relayed quotes that could not be parsed. An older quote must not refuse an order that may refer to one of them. */
export function createUnreadableQuotes(): UnreadableQuotes {
  /** When an unreadable quote was last relayed, by the key of its request; newest last. */
  const lastRelayedAtMs = new Map<string, number>()

  return {
    note(quote) {
      if (quote.pairId.length > maxPairLength) return
      const key = flatText(keyOf(quote, quote.requestedAmount))
      lastRelayedAtMs.delete(key)
      lastRelayedAtMs.set(key, quote.relayedAtMs)
      const [oldest = key] = lastRelayedAtMs.keys()
      if (lastRelayedAtMs.size > maxQuotes) lastRelayedAtMs.delete(oldest)
    },

    mayBeMeant({ fromAmount }, match) {
      // The order may state the requested amount, or the amount as the provider rounded it.
      const amounts = [match.requestedAmount, fromAmount?.canonical ?? match.requestedAmount]
      return amounts.some((amount) => (lastRelayedAtMs.get(keyOf(match, amount)) ?? -1) >= match.notedAtMs)
    },
  }
}

/** Amounts are compared by their nearest double, as in the terms index. */
function keyOf({ pairId, application }: Pick<QuoteTerms, 'pairId' | 'application'>, amount: string): string {
  return `${pairId} ${Number(amount)} ${application}`
}
