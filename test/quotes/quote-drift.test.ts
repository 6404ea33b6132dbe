import { expect, test } from 'vitest'
import { Events } from '../../src/events.ts'
import { createMemoryQuoteStore } from '../../src/quotes/memory-quote-store.ts'
import type { StoredQuote } from '../../src/quotes/quote-store.ts'
import { createTestClock, endAt } from '../support/clients/quotes.ts'

function quote(fromValue: string, toValue: string): StoredQuote {
  const body = JSON.stringify({
    id: `${fromValue}-${toValue}`,
    pairId: 'ETH_USDC',
    fromAmount: { assetId: 'ETH', value: fromValue },
    toAmount: { assetId: 'USDC', value: toValue },
  })
  return { id: 'q', body, headers: [], lifeMs: 30_000, expiresAtMs: 31_000, end: endAt(31_000) }
}

function observed() {
  const moves: [string, number][] = []
  let kept = 0
  const store = createMemoryQuoteStore({
    maxEntries: 10,
    maxBytes: 100_000,
    clock: createTestClock(),
    events: new Events([
      {
        quoteKept(_leftMs, pair, moved) {
          kept += 1
          if (moved !== undefined) moves.push([pair, Math.round(moved * 1e9) / 1e9])
        },
      },
    ]),
  })
  return { store, moves, kept: () => kept }
}

test('reports how much more or less the next quote for the same key gives', () => {
  const { store, moves } = observed()
  store.set('a', quote('0.1', '200'))
  store.set('a', quote('0.1', '202'))
  store.set('a', quote('0.1', '101'))
  expect(moves).toEqual([
    ['ETH_USDC', 0.01],
    ['ETH_USDC', -0.5],
  ])
})

test('compares prices, in case the provider rounds the amount that is swapped', () => {
  const { store, moves } = observed()
  store.set('a', quote('0.1', '200'))
  store.set('a', quote('0.2', '400'))
  expect(moves).toEqual([['ETH_USDC', 0]])
})

test('reads a body as UTF-8', () => {
  const { store, moves } = observed()
  for (const toValue of ['200', '300']) {
    const { body, ...rest } = quote('0.1', toValue)
    const named = body.replace('ETH_USDC', 'ETH_€')
    store.set('a', { ...rest, body: Buffer.from(named, 'utf8').toString('latin1') })
  }
  expect(moves).toEqual([['ETH_€', 0.5]])
})

test('reports every quote, but no drift between two keys, or from a forgotten quote', () => {
  const { store, moves, kept } = observed()
  store.set('a', quote('0.1', '200'))
  store.set('b', quote('0.1', '300'))
  store.forget('a', 'q')
  store.set('a', quote('0.1', '400'))
  expect(moves).toEqual([])
  expect(kept()).toBe(3)
  expect(store.entries).toBe(2)
})
