import { describe, expect, it } from 'vitest'
import { lookAt, systemClock } from '../../src/clock.ts'
import { Events } from '../../src/events.ts'
import { QuoteCache } from '../../src/quotes/cache.ts'
import { storedQuote } from '../support/stores/stored-quote.ts'

function cacheOf({ cacheEntries = 1_000, cacheBytes = 1_000_000 } = {}) {
  const dropped: string[] = []
  const cache = new QuoteCache({
    config: { quotes: { cacheEntries, cacheBytes, minValidityMs: 0, refreshAheadMs: 0 } },
    events: new Events([{ quotesDropped: (reason, quotes) => void dropped.push(`${quotes} ${reason}`) }]),
  })
  return { cache, dropped }
}

const at = lookAt(systemClock)

const everyByte = String.fromCharCode(...Array.from({ length: 256 }, (_, byte) => byte))
/** As the bytes of a body, one character a byte. */
const everyCharacter = Buffer.from(JSON.stringify(everyByte)).toString('latin1')

describe('the quotes in memory', () => {
  it('stand under their keys alone', () => {
    expect(cacheOf().cache.get('key')).toBeUndefined()
  })

  it('are given back with every byte and header', () => {
    const { cache } = cacheOf()
    const body = storedQuote().body.replace('{', `\r\n{\t "note": ${everyCharacter}, `)
    const quote = storedQuote({ body, headers: ['X-Latin', everyByte.slice(160), 'a', ''] })
    cache.keep('key', quote, at)
    expect(cache.get('key')).toEqual(quote)
  })

  it.each([
    ['key', 'Key'],
    ['key', 'key '],
    ['a\nb', 'a\n\nb'],
    ['caf\xe9', 'caf\xc3\xa9'],
    ['', ' '],
    ['__proto__', 'constructor'],
    ['k'.repeat(9_000), 'k'.repeat(9_001)],
  ])('are kept apart under the keys %j and %j', (one, other) => {
    const { cache } = cacheOf()
    cache.keep(one, storedQuote({ id: 'one' }), at)
    expect(cache.get(other)).toBeUndefined()
    cache.keep(other, storedQuote({ id: 'other' }), at)
    expect([cache.get(one)?.id, cache.get(other)?.id]).toEqual(['one', 'other'])
  })

  it('are replaced under their key', () => {
    const { cache } = cacheOf()
    cache.keep('key', storedQuote({ id: 'old' }), at)
    cache.keep('key', storedQuote({ id: 'new' }), at)
    expect(cache.get('key')?.id).toBe('new')
  })

  it('stay when they have just expired', () => {
    const { cache } = cacheOf()
    cache.keep('key', storedQuote({ expiresAtMs: Date.now() - 1 }), at)
    expect(cache.get('key')).toBeDefined()
  })

  it('are forgotten by key and id, and that is reported', () => {
    const { cache } = cacheOf()
    cache.keep('key', storedQuote({ id: 'used' }), at)
    expect(cache.forget('key', 'used')).toBe(true)
    expect(cache.get('key')).toBeUndefined()
    expect(cache.forget('key', 'used')).toBe(false)
  })

  it('stay if they are newer than the one to forget, or under another key', () => {
    const { cache } = cacheOf()
    cache.keep('key', storedQuote({ id: 'newer' }), at)
    expect([cache.forget('key', 'older'), cache.forget('other', 'newer')]).toEqual([false, false])
    expect(cache.get('key')?.id).toBe('newer')
  })
})

describe('the bounds of the memory', () => {
  it('never hold more entries than they may, and drop what was used least recently', () => {
    const { cache } = cacheOf({ cacheEntries: 3 })
    for (const key of ['a', 'b', 'c']) cache.keep(key, storedQuote(), at)
    cache.get('a')
    cache.keep('d', storedQuote(), at)
    expect(cache.entries).toBe(3)
    expect(cache.get('b')).toBeUndefined()
    expect(cache.get('a')).toBeDefined()
  })

  it.each([
    ['bodies', (index: number) => [`${index}`, { body: 'x'.repeat(5_000) }] as const],
    ['keys', (index: number) => [`${index}`.padEnd(5_000, 'k'), {}] as const],
    ['headers', (index: number) => [`${index}`, { headers: ['X-Large', 'x'.repeat(5_000)] }] as const],
    ['ids', (index: number) => [`${index}`, { id: 'x'.repeat(5_000) }] as const],
  ])('count the bytes of %s, and never hold more than they may', (_what, entry) => {
    const { cache } = cacheOf({ cacheBytes: 50_000 })
    for (let index = 0; index < 100; index += 1) {
      const [key, changes] = entry(index)
      cache.keep(key, storedQuote(changes), at)
      expect(cache.bytes).toBeLessThanOrEqual(50_000)
    }
    expect(cache.entries).toBeGreaterThan(1)
    expect(cache.entries).toBeLessThanOrEqual(10)
  })

  it('keep no quote larger than the whole cache, and drop the older quote under its key', () => {
    const { cache } = cacheOf({ cacheBytes: 10_000 })
    cache.keep('key', storedQuote({ id: 'older' }), at)
    cache.keep('other', storedQuote(), at)
    expect(cache.keep('key', storedQuote({ body: 'x'.repeat(20_000) }), at)).toBe(false)
    expect(cache.get('key')).toBeUndefined()
    expect(cache.get('other')).toBeDefined()
    expect(cache.entries).toBe(1)
  })

  it('report the quotes that were dropped for lack of room, and no others', () => {
    const { cache, dropped } = cacheOf({ cacheEntries: 2 })
    cache.keep('a', storedQuote(), at)
    cache.keep('a', storedQuote(), at)
    cache.keep('b', storedQuote(), at)
    cache.forget('b', 'quote-1')
    expect(dropped).toEqual([])
    cache.keep('c', storedQuote(), at)
    cache.keep('d', storedQuote(), at)
    expect(dropped).toEqual(['1 capacity'])
  })
})
