import type { Clock } from '../clock.ts'
import { parseDecimal } from '../http/decimal.ts'
import type { NotedQuote } from '../journal/journal.ts'
import { briefText } from '../process/brief-text.ts'
import { flatText } from '../process/flat-text.ts'
import type { End } from '../quotes/ends.ts'
import { type Quote, readQuote } from '../quotes/quote.ts'
import type { QuoteRecorder } from '../quotes/quote-answer.ts'
import type { QuoteRequest } from '../quotes/quote-key.ts'
import type { Notes } from './notes.ts'

export interface QuoteRecorderOptions {
  clock: Clock
  notes: Pick<Notes, 'note' | 'noteFound' | 'noteUnreadable'>
  keyOf(request: QuoteRequest): string
  /** The digest of a partition that orders are matched by. */
  markOf(partition: string | undefined): string | undefined
  /** The application name that orders are matched by. */
  applicationAmong(keyedHeaders: QuoteRequest['keyedHeaders']): string
}

/** Notes relayed quotes in the ledger, so that orders can be matched with them. */
export function createQuoteRecorder(options: QuoteRecorderOptions): QuoteRecorder {
  const { clock, notes, keyOf, markOf, applicationAmong } = options

  /** Orders are matched with the quote's own amounts, and with the requested amount. */
  function toNoted(quote: Quote, end: End, request: QuoteRequest): NotedQuote {
    const fromValue = parseDecimal(quote.fromAmount.value) ?? quote.fromAmount.value
    const toValue = parseDecimal(quote.toAmount.value) ?? quote.toAmount.value
    const key = keyOf(request)
    return {
      id: quote.id,
      pairId: briefText(quote.pairId),
      fromValue,
      toValue,
      // Copied, because a slice would keep the whole request target in memory as long as the ledger keeps the quote.
      requestedAmount: flatText(request.canonicalAmount),
      cacheKey: flatText(key),
      application: applicationAmong(request.keyedHeaders),
      partition: markOf(request.partition),
      expiresAtMs: quote.expiryMs,
      refusedFromMs: end.refusedFromMs,
      wallAheadMs: end.wallAheadMs,
      notedAtMs: clock.nowMs(),
    }
  }

  return {
    record: (quote, end, request) => notes.note(toNoted(quote, end, request)),
    // Noted here too, so that this replica can judge an order for the quote while the store is away.
    recordFound({ body, expiresAtMs, lifeMs, end }, request) {
      const { quote } = readQuote(Buffer.from(body, 'latin1'))
      if (quote === undefined) return
      notes.noteFound({ ...toNoted(quote, end, request), notedAtMs: expiresAtMs - lifeMs })
    },
    async recordUnreadable({ pair, canonicalAmount, keyedHeaders, partition }, { pairId, fromAmount }) {
      const whose = { application: applicationAmong(keyedHeaders), partition: markOf(partition) }
      // The order repeats the pair that the answer names; where that is not known, what the path means. It repeats the
      // amount that was asked for, or the one that the answer states.
      const pairs = new Set([pairId ?? decoded(pair), pair])
      const amounts = new Set([canonicalAmount, fromAmount ?? canonicalAmount])
      const meant = [...pairs].flatMap((name) => [...amounts].map((amount) => ({ name, amount })))
      await Promise.all(
        meant.map(({ name, amount }) => {
          const terms = { pairId: flatText(briefText(name)), requestedAmount: flatText(amount) }
          return notes.noteUnreadable({ ...whose, ...terms })
        }),
      )
    },
  }
}

function decoded(pair: string): string {
  try {
    return decodeURIComponent(pair)
  } catch {
    return pair
  }
}
