import { type Quote, readQuote } from '../../../src/quotes/quote.ts'

/** A quote whose expiry nothing contradicts. It has the terms of its body, if that is one of a quote. */
export function aQuote(changes: Partial<Quote> = {}): Quote {
  const { id = 'quote-1', expiresAtMs = Date.now() + 30_000 } = changes
  const wallAheadMs = Date.now() - performance.now()
  const {
    body = JSON.stringify({
      id,
      pairId: 'ETH_USDC',
      fromAmount: { assetId: 'ETH', value: '0.1' },
      toAmount: { assetId: 'USDC', value: '289.645' },
      expiry: expiresAtMs,
    }),
  } = changes
  const stated = readQuote(Buffer.from(body, 'latin1'))
  const terms = {
    pairId: 'ETH_USDC',
    fromValue: '0.1',
    toValue: '289.645',
    hasNumbers: false,
    toAsset: 'USDC',
  }
  return {
    ...terms,
    ...(typeof stated === 'string' ? {} : stated),
    id,
    expiresAtMs,
    body,
    headers: ['Content-Type', 'application/json', 'X-Twice', '1', 'x-twice', '2'],
    lifeMs: 30_000,
    end: { servedUntilMs: expiresAtMs, refusedFromMs: expiresAtMs, wallAheadMs },
    ...changes,
  }
}
