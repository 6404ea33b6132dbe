import { flatText } from '../process/flat-text.ts'
import { type LedgerMirror, noMirror, type SerialRecord } from './mirror.ts'
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
  /** What an earlier process noted. */
  restore(quote: UnreadableQuote, serial: number): void
  /** A quote was read, so its client orders by that one and not by an unreadable one before it. */
  noteRead(quote: QuoteTerms & { readonly notedAtMs: number }, lifeMs: number): void
  /**
   * Whether the order may refer to an unreadable quote of its client, and not to `match`, whose terms it has. A quote that
   * another client was given since says nothing of it: the order may still be for the unreadable one.
   */
  mayBeMeant(
    order: OrderTerms,
    orderer: Orderer,
    match: Pick<QuoteTerms, 'pairId' | 'application' | 'requestedAmount'>,
  ): boolean
  /** Drops those that no order can mean any more. */
  sweep(): void
  all(): SerialRecord[]
}

interface Entry {
  readonly quote: UnreadableQuote
  readonly serial: number
}

const maxQuotes = 10_000
/** How long an unreadable quote is taken to live where no quote was read that tells. */
const defaultLifeMs = 300_000
const livesRemembered = 100

/** An older quote must not refuse an order that may refer to a quote that could not be read. */
export function createUnreadableQuotes(
  { nowMs }: { nowMs(): number },
  mirror: LedgerMirror = noMirror,
): UnreadableQuotes {
  /** The unreadable quote that was relayed last, by the key of its request; newest last. */
  const byKey = new Map<string, Entry>()
  /** How long the quotes lived that were read last. */
  const livesMs: number[] = []
  let livesRead = 0

  const lifeMs = () => (livesMs.length === 0 ? defaultLifeMs : Math.max(...livesMs))

  function keep(quote: UnreadableQuote, serial: number): void {
    const key = flatText(keyOf(quote, quote.requestedAmount))
    drop(key)
    byKey.set(key, { quote, serial })
    const [oldest = key] = byKey.keys()
    if (byKey.size > maxQuotes) drop(oldest)
  }

  function drop(key: string): void {
    const entry = byKey.get(key)
    if (entry === undefined) return
    byKey.delete(key)
    mirror.forget(entry.serial)
  }

  return {
    note(quote) {
      if (quote.partition === undefined) return
      keep(quote, mirror.note({ kind: 'unreadable', value: quote }))
    },

    restore: keep,

    noteRead(quote, quoteLifeMs) {
      // A quote that had expired when it came says nothing of how long quotes live.
      if (quoteLifeMs > 0) livesMs[livesRead++ % livesRemembered] = quoteLifeMs
      if (byKey.size === 0) return
      for (const amount of [quote.requestedAmount, quote.fromValue]) {
        const key = keyOf(quote, amount)
        // Another replica may have read it before the unreadable one came.
        if (quote.notedAtMs >= (byKey.get(key)?.quote.relayedAtMs ?? 0)) drop(key)
      }
    },

    mayBeMeant({ fromAmount }, { partition }, match) {
      if (byKey.size === 0) return false
      const sinceMs = nowMs() - lifeMs()
      // The order may state the requested amount, or the amount as the provider rounded it.
      const amounts = [match.requestedAmount, fromAmount?.canonical ?? match.requestedAmount]
      const { pairId, application } = match
      return amounts.some((amount) => {
        const relayedAtMs = byKey.get(keyOf({ pairId, application, partition }, amount))?.quote.relayedAtMs
        return relayedAtMs !== undefined && relayedAtMs >= sinceMs
      })
    },

    sweep() {
      const sinceMs = nowMs() - lifeMs()
      for (const [key, { quote }] of byKey) if (quote.relayedAtMs < sinceMs) drop(key)
    },

    all: () => [...byKey.values()].map(({ quote, serial }) => [serial, { kind: 'unreadable', value: quote }]),
  }
}

/** Amounts are compared by their nearest double, as in the terms index. */
function keyOf(
  { pairId, application, partition }: Pick<QuoteTerms, 'pairId' | 'application' | 'partition'>,
  amount: string,
): string {
  return JSON.stringify([pairId, Number(amount), application, partition])
}
