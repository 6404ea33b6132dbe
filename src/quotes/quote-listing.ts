import type { StoredQuote } from './quote-store.ts'

export interface KeptQuote {
  readonly quote: StoredQuote
  /** How often a quote was handed out under its key, this one or one before it. */
  readonly hits: number
  /** How far the price has moved since the quote before it, as a share of that. */
  readonly drift: number | undefined
}

export interface ListedQuote {
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

interface Written {
  pairId: string
  fromAmount: { value: string }
  toAmount: { value: string; assetId: string }
}

/** To sort a hundred thousand quotes once a second would be felt; the busy ones are the recently used ones. */
const lookedAtMost = 5_000

/** The live quotes that are asked for most, for people to look at. */
export function listQuotes(
  kept: Iterable<KeptQuote>,
  { nowMs, most }: { nowMs: number; most: number },
): ListedQuote[] {
  const live: KeptQuote[] = []
  let lookedAt = 0
  for (const one of kept) {
    if (one.quote.expiresAtMs > nowMs) live.push(one)
    lookedAt += 1
    if (lookedAt >= lookedAtMost) break
  }
  live.sort((left, right) => right.hits - left.hits)
  return live.slice(0, most).flatMap((one) => {
    const written = read(one.quote)
    return written === undefined ? [] : [listed(one, written, nowMs)]
  })
}

/** From one quote to the next for the same key. */
export interface PriceMove {
  readonly pair: string
  /** What the next gives more, as a share of what the one before it gave; NaN when one of them is no quote. */
  readonly share: number
}

export function priceMove(before: StoredQuote, next: StoredQuote): PriceMove {
  const written = read(next)
  return { pair: written?.pairId ?? '', share: priceOf(written) / priceOf(read(before)) - 1 }
}

/** What one unit brings. A double does: it is for people and statistics. */
function priceOf(written: Written | undefined): number {
  return written === undefined
    ? Number.NaN
    : Number(written.toAmount.value) / Number(written.fromAmount.value)
}

function listed({ quote, hits, drift }: KeptQuote, written: Written, nowMs: number): ListedQuote {
  return {
    id: quote.id,
    pair: written.pairId,
    amount: written.fromAmount.value,
    toAmount: written.toAmount.value,
    toAsset: written.toAmount.assetId,
    hits,
    drift: drift === undefined || Number.isNaN(drift) ? null : drift,
    leftMs: quote.expiresAtMs - nowMs,
    lifeMs: Math.max(1, quote.lifeMs),
  }
}

const beyondAscii = /[\x80-\xff]/

function read({ body }: StoredQuote): Written | undefined {
  try {
    // Nearly every body is ASCII, and then the text already.
    const text = beyondAscii.test(body) ? Buffer.from(body, 'latin1').toString('utf8') : body
    const json = JSON.parse(text) as Partial<Written> | null
    return json?.fromAmount && json.toAmount ? (json as Written) : undefined
  } catch {
    return undefined
  }
}
