import { flatText } from '../process/flat-text.ts'
import type { OrderTerms } from './order-terms.ts'
import type { Orderer, QuoteTerms } from './terms-index.ts'

/** The request whose answer looked like a quote and could not be noted. */
export interface UnreadableQuote
  extends Pick<QuoteTerms, 'pairId' | 'application' | 'requestedAmount' | 'partition'> {
  /** When the answer was relayed, by our clock. */
  relayedAtMs: number
}

export interface UnreadableQuotes {
  /** Of a client without a partition nothing is noted: it would be noted for all such clients, who share nothing. */
  note(quote: UnreadableQuote): void
  /** A quote was read, so its client orders by that one and not by an unreadable one before it. */
  noteRead(quote: QuoteTerms & { readonly notedAtMs: number }, lifeMs: number): void
  /** Whether the order may refer to an unreadable quote that its client has had since `match` was noted. */
  mayBeMeant(order: OrderTerms, orderer: Orderer, match: QuoteTerms & { readonly notedAtMs: number }): boolean
}

const maxQuotes = 10_000
/** How long an unreadable quote is taken to live where no quote was read that tells. */
const defaultLifeMs = 300_000
const livesRemembered = 100

/** An older quote must not refuse an order that may refer to a quote that could not be read. */
export function createUnreadableQuotes({ nowMs }: { nowMs(): number }): UnreadableQuotes {
  /** When an unreadable quote was last relayed, by the key of its request; newest last. */
  const relayedAtMsByKey = new Map<string, number>()
  /** How long the quotes lived that were read last. */
  const livesMs: number[] = []

  return {
    note(quote) {
      if (quote.partition === undefined) return
      const key = flatText(keyOf(quote, quote.requestedAmount))
      relayedAtMsByKey.delete(key)
      relayedAtMsByKey.set(key, quote.relayedAtMs)
      const [oldest = key] = relayedAtMsByKey.keys()
      if (relayedAtMsByKey.size > maxQuotes) relayedAtMsByKey.delete(oldest)
    },

    noteRead(quote, lifeMs) {
      // A quote that had expired when it came says nothing of how long quotes live.
      if (lifeMs > 0) livesMs.push(lifeMs)
      if (livesMs.length > livesRemembered) livesMs.shift()
      if (relayedAtMsByKey.size === 0) return
      for (const amount of [quote.requestedAmount, quote.fromValue]) {
        const key = keyOf(quote, amount)
        // Another replica may have read it before the unreadable one came.
        if (quote.notedAtMs >= (relayedAtMsByKey.get(key) ?? 0)) relayedAtMsByKey.delete(key)
      }
    },

    mayBeMeant({ fromAmount }, { partition }, match) {
      if (relayedAtMsByKey.size === 0) return false
      const lifeMs = livesMs.length === 0 ? defaultLifeMs : Math.max(...livesMs)
      const sinceMs = Math.max(match.notedAtMs, nowMs() - lifeMs)
      // The order may state the requested amount, or the amount as the provider rounded it.
      const amounts = [match.requestedAmount, fromAmount?.canonical ?? match.requestedAmount]
      const { pairId, application } = match
      return amounts.some((amount) => {
        const relayedAtMs = relayedAtMsByKey.get(keyOf({ pairId, application, partition }, amount))
        return relayedAtMs !== undefined && relayedAtMs >= sinceMs
      })
    },
  }
}

/** Amounts are compared by their nearest double, as in the terms index. */
function keyOf(
  { pairId, application, partition }: Pick<QuoteTerms, 'pairId' | 'application' | 'partition'>,
  amount: string,
): string {
  return JSON.stringify([pairId, Number(amount), application, partition])
}
