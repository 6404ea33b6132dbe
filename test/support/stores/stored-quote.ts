import type { StoredQuote } from '../../../src/quotes/quote.ts'

/** A quote whose expiry nothing contradicts. */
export function storedQuote(changes: Partial<StoredQuote> = {}): StoredQuote {
  const { id = 'quote-1', expiresAtMs = Date.now() + 30_000 } = changes
  const wallAheadMs = Date.now() - performance.now()
  return {
    id,
    body: JSON.stringify({
      id,
      pairId: 'ETH_USDC',
      fromAmount: { assetId: 'ETH', value: '0.1' },
      toAmount: { assetId: 'USDC', value: '289.645' },
      expiry: expiresAtMs,
    }),
    headers: ['Content-Type', 'application/json', 'X-Twice', '1', 'x-twice', '2'],
    lifeMs: 30_000,
    expiresAtMs,
    end: { servedUntilMs: expiresAtMs, refusedFromMs: expiresAtMs, wallAheadMs },
    ...changes,
  }
}
