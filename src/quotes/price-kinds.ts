import { foldPair } from '../http/fold-path.ts'
import type { AmountReading, QuotePath, TargetReading } from '../http/target.ts'
import type { RequestKind } from '../upstream/breakers.ts'
import type { QuoteHolds, QuoteNotes } from './ports.ts'
import type { ProviderLimit } from './provider-limit.ts'
import { readQuote, readRates } from './quote.ts'

/** What a route asks the provider for. */
export interface PriceKind {
  /** Undefined: the target asks for something else. */
  in(reading: TargetReading): (QuotePath & AmountReading) | undefined
  readonly needsAppName: boolean
  readonly readBody: typeof readQuote
  /** The kind of its calls, for breakers and queues. */
  kindOf(pair: string): RequestKind
}

export const quotes: PriceKind = {
  in: (reading) => ('quote' in reading ? reading.quote : undefined),
  needsAppName: true,
  readBody: readQuote,
  kindOf: (pair) => ({ quoteOf: foldPair(pair) }),
}

/** Shared like quotes. For all else, rates are part of the rest of the swap API, as without SHARE_RATES. */
export const rates: PriceKind = {
  in: (reading) => ('rates' in reading ? reading.rates : undefined),
  needsAppName: false,
  readBody: readRates,
  kindOf: () => 'other',
}

/** No order is judged by rates. */
export const unnoted: QuoteNotes = {
  note() {},
  async noteUnreadable() {},
  noteFound() {},
  wasUsed: () => false,
}

/** Operators hold quotes and orders, not rates. */
export const unheld: QuoteHolds = {
  refuse() {},
  whenHeld: () => () => {},
}

/** A 429 to rates says nothing of quotes. */
export const unlimited: Pick<ProviderLimit, 'leftMs' | 'check' | 'begin' | 'endWhole'> = {
  leftMs: () => 0,
  check() {},
  begin() {},
  endWhole() {},
}
