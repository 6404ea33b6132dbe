import { expect, it } from 'vitest'
import { lookAt, systemClock } from '../../src/clock.ts'
import { Events } from '../../src/events.ts'
import { QuoteCache } from '../../src/quotes/cache.ts'
import { aQuote } from '../support/stores/a-quote.ts'

const at = lookAt(systemClock)

function cacheOf({ cacheEntries = 1_000, cacheBytes = 1_000_000 } = {}) {
  const dropped: string[] = []
  const cache = new QuoteCache({
    config: { quotes: { cacheEntries, cacheBytes, minValidityMs: 0, refreshAheadMs: 0 } },
    events: new Events([
      {
        quotesDropped: (reason, quotes) => void dropped.push(`${quotes} ${reason}`),
      },
    ]),
  })
  const keep = (key: string, changes: Parameters<typeof aQuote>[0] = {}) =>
    cache.keep(key, aQuote(changes), at)
  return { cache, keep, dropped }
}

it('a quote is given back with every byte and header', () => {
  const { cache } = cacheOf()
  const everyByte = String.fromCharCode(...Array.from({ length: 256 }, (_, byte) => byte))
  const note = Buffer.from(JSON.stringify(everyByte)).toString('latin1')
  const body = aQuote().body.replace('{', `\r\n{\t "note": ${note}, `)
  const quote = aQuote({ body, headers: ['X-Latin', everyByte.slice(160), 'a', ''] })
  cache.keep('key', quote, at)
  expect(cache.get('key')).toEqual(quote)
})

it.each([
  ['caf\xe9', 'caf\xc3\xa9'],
  ['__proto__', 'constructor'],
  ['k'.repeat(9_000), 'k'.repeat(9_001)],
])('quotes are kept apart under the keys %j and %j', (one, other) => {
  const { cache, keep } = cacheOf()
  keep(one, { id: 'one' })
  expect(cache.get(other)).toBeUndefined()
  keep(other, { id: 'other' })
  expect([cache.get(one)?.id, cache.get(other)?.id]).toEqual(['one', 'other'])
})

it('a quote stays when it has just expired, until the next one of its key', () => {
  const { cache, keep } = cacheOf()
  keep('key', { id: 'old', expiresAtMs: Date.now() - 1 })
  expect(cache.get('key')?.id).toBe('old')
  keep('key', { id: 'new' })
  expect(cache.get('key')?.id).toBe('new')
})

it('a quote is forgotten by key and id, and that is reported; a newer one stays, and one of another key', () => {
  const { cache, keep } = cacheOf()
  keep('key', { id: 'used' })
  expect([cache.forgetAll(['key'], 'older'), cache.forgetAll(['other'], 'used')]).toEqual(
    [0, 0],
  )
  expect(cache.get('key')?.id).toBe('used')
  expect([
    cache.forgetAll(['key', 'other'], 'used'),
    cache.forgetAll(['key'], 'used'),
  ]).toEqual([1, 0])
  expect(cache.get('key')).toBeUndefined()
})

it('no more entries are kept than may be: what was used least recently goes, which alone is reported', () => {
  const { cache, keep, dropped } = cacheOf({ cacheEntries: 3 })
  for (const key of ['a', 'b', 'c', 'c']) keep(key)
  cache.forgetAll(['c'], 'quote-1')
  keep('d')
  expect(dropped).toEqual([])
  cache.get('a')
  keep('e')
  expect(dropped).toEqual(['1 capacity'])
  expect([cache.entries, cache.get('a') !== undefined, cache.get('b')]).toEqual([
    3,
    true,
    undefined,
  ])
})

it.each([
  ['bodies', (index: number) => [`${index}`, { body: 'x'.repeat(5_000) }] as const],
  ['keys', (index: number) => [`${index}`.padEnd(5_000, 'k'), {}] as const],
  [
    'headers',
    (index: number) => [`${index}`, { headers: ['X-Large', 'x'.repeat(5_000)] }] as const,
  ],
  ['ids', (index: number) => [`${index}`, { id: 'x'.repeat(5_000) }] as const],
])('the bytes of %s count, and no more are held than may be', (_what, entry) => {
  const { cache, keep } = cacheOf({ cacheBytes: 50_000 })
  for (let index = 0; index < 100; index += 1) {
    keep(...entry(index))
    expect(cache.bytes).toBeLessThanOrEqual(50_000)
  }
  expect(cache.entries).toBeGreaterThan(1)
  expect(cache.entries).toBeLessThanOrEqual(10)
})

it('no quote is kept that is larger than the whole cache, and the older quote under its key is dropped', () => {
  const { cache, keep } = cacheOf({ cacheBytes: 10_000 })
  keep('key', { id: 'older' })
  keep('other')
  expect(keep('key', { body: 'x'.repeat(20_000) })).toBe(false)
  expect([cache.get('key'), cache.get('other')?.id, cache.entries]).toEqual([
    undefined,
    'quote-1',
    1,
  ])
})

it('how much more or less the next quote of a key gives for an amount is shown, and nothing of two keys', () => {
  const { cache, keep } = cacheOf()
  const priced = (from: string, to: string, pair = 'ETH_USDC') => {
    const body = { id: 'quote-1', pairId: pair, expiry: 1_700_000_000_000 }
    const amounts = {
      fromAmount: { assetId: 'A', value: from },
      toAmount: { assetId: 'B', value: to },
    }
    return {
      body: Buffer.from(JSON.stringify({ ...body, ...amounts })).toString('latin1'),
    }
  }
  const moves: unknown[] = []
  const keepPriced = (key: string, ...price: Parameters<typeof priced>) => {
    keep(key, priced(...price))
    const shown = cache.mostHit(2, at).find(({ toAmount }) => toAmount === price[1])
    if (shown === undefined) throw new Error('the quote is not shown')
    moves.push(shown.drift && Math.round(shown.drift * 1e9) / 1e9)
  }
  keepPriced('a', '0.1', '200')
  keepPriced('a', '0.1', '202')
  // The provider rounds the amount that is swapped.
  keepPriced('a', '0.2', '202', 'ETH_€')
  keepPriced('b', '0.1', '300')
  cache.forgetAll(['a'], 'quote-1')
  keepPriced('a', '0.1', '400')
  expect(moves).toEqual([undefined, 0.01, -0.5, undefined, undefined])
})
