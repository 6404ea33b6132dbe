import { expect, test } from 'vitest'
import { lookAt } from '../../src/clock.ts'
import { Events } from '../../src/events.ts'
import { QuoteCache } from '../../src/quotes/cache.ts'
import type { StoredQuote } from '../../src/quotes/quote.ts'
import { createTestClock, endAt } from '../support/clients/quotes.ts'

function quote(fromValue: string, toValue: string): StoredQuote {
  const body = JSON.stringify({
    id: `${fromValue}-${toValue}`,
    pairId: 'ETH_USDC',
    fromAmount: { assetId: 'ETH', value: fromValue },
    toAmount: { assetId: 'USDC', value: toValue },
    expiry: 1_700_000_000_000,
  })
  return { id: 'q', body, headers: [], lifeMs: 30_000, expiresAtMs: 31_000, end: endAt(31_000) }
}

const at = lookAt(createTestClock())

function observed() {
  const moves: [string, number][] = []
  let kept = 0
  const cache = new QuoteCache({
    config: { quotes: { cacheEntries: 10, cacheBytes: 100_000, minValidityMs: 0, refreshAheadMs: 0 } },
    events: new Events([
      {
        quoteKept(_leftMs, pair, moved) {
          kept += 1
          if (moved !== undefined) moves.push([pair, Math.round(moved * 1e9) / 1e9])
        },
      },
    ]),
  })
  return { cache, moves, kept: () => kept }
}

test('reports how much more or less the next quote for the same key gives', () => {
  const { cache, moves } = observed()
  cache.keep('a', quote('0.1', '200'), at)
  cache.keep('a', quote('0.1', '202'), at)
  cache.keep('a', quote('0.1', '101'), at)
  expect(moves).toEqual([
    ['ETH_USDC', 0.01],
    ['ETH_USDC', -0.5],
  ])
})

test('compares prices, in case the provider rounds the amount that is swapped', () => {
  const { cache, moves } = observed()
  cache.keep('a', quote('0.1', '200'), at)
  cache.keep('a', quote('0.2', '400'), at)
  expect(moves).toEqual([['ETH_USDC', 0]])
})

test('reads a body as UTF-8', () => {
  const { cache, moves } = observed()
  for (const toValue of ['200', '300']) {
    const { body, ...rest } = quote('0.1', toValue)
    const named = body.replace('ETH_USDC', 'ETH_€')
    cache.keep('a', { ...rest, body: Buffer.from(named, 'utf8').toString('latin1') }, at)
  }
  expect(moves).toEqual([['ETH_€', 0.5]])
})

test('reports every quote, but no drift between two keys, or from a forgotten quote', () => {
  const { cache, moves, kept } = observed()
  cache.keep('a', quote('0.1', '200'), at)
  cache.keep('b', quote('0.1', '300'), at)
  cache.forget('a', 'q')
  cache.keep('a', quote('0.1', '400'), at)
  expect(moves).toEqual([])
  expect(kept()).toBe(3)
  expect(cache.entries).toBe(2)
})
