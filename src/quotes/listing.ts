import { type Quote, type StoredQuote, storedQuote } from './quote.ts'

export interface KeptQuote {
  readonly quote: StoredQuote
  /** How often the cache served a quote of this key, earlier quotes included. */
  readonly hits: number
  /** The price change from the previous quote of this key, as a share of the previous price. */
  readonly drift: number | undefined
}

interface ListedQuote {
  readonly id: string
  readonly pair: string
  readonly amount: string
  readonly toAmount: string
  readonly toAsset: string
  readonly hits: number
  readonly drift: number | null
  readonly leftMs: number
  readonly lifeMs: number
}

/** Sorting a hundred thousand quotes every second would be slow; those with many hits are among the recently used. */
const maxExamined = 5_000

/** The live quotes with the most hits, for the console. */
export function listQuotes(
  kept: Iterable<readonly [key: string, kept: KeptQuote]>,
  { leftMs, maxQuotes }: { leftMs(quote: StoredQuote): number; maxQuotes: number },
): ListedQuote[] {
  const live: KeptQuote[] = []
  let examined = 0
  for (const [, entry] of kept) {
    if (leftMs(entry.quote) > 0) live.push(entry)
    examined += 1
    if (examined >= maxExamined) break
  }
  live.sort((left, right) => right.hits - left.hits)
  return live.slice(0, maxQuotes).flatMap((entry) => {
    const body = storedQuote(entry.quote)
    return body === undefined ? [] : [toListed(entry, body, leftMs(entry.quote))]
  })
}

/** The price change from one quote to the next under the same key. */
interface PriceMove {
  readonly pair: string
  /** 0.01 if the next quote gives 1 % more than the one before; NaN if either body is not a quote. */
  readonly share: number
}

export function priceMove(before: StoredQuote, next: StoredQuote): PriceMove {
  const body = storedQuote(next)
  return { pair: body?.pairId ?? '', share: priceOf(body) / priceOf(storedQuote(before)) - 1 }
}

/** What one unit of the source asset gives. A double is exact enough for the console and for statistics. */
function priceOf(body: Quote | undefined): number {
  return body === undefined ? Number.NaN : Number(body.toAmount.value) / Number(body.fromAmount.value)
}

function toListed({ quote, hits, drift }: KeptQuote, body: Quote, leftMs: number): ListedQuote {
  return {
    id: quote.id,
    pair: body.pairId,
    amount: body.fromAmount.value,
    toAmount: body.toAmount.value,
    toAsset: body.toAmount.assetId,
    hits,
    drift: drift === undefined || Number.isNaN(drift) ? null : drift,
    leftMs,
    lifeMs: Math.max(1, quote.lifeMs),
  }
}
