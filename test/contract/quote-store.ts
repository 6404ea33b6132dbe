import { describe, expect, it, onTestFinished } from 'vitest'
import type { End } from '../../src/quotes/ends.ts'
import type { QuoteStore, StoredQuote } from '../../src/quotes/quote-store.ts'

export interface StoreUnderTest {
  store: QuoteStore
  close?(): Promise<void>
}

export interface StoreOptions {
  maxEntries: number
  maxBytes: number
}

const roomy: StoreOptions = { maxEntries: 1_000, maxBytes: 1_000_000 }

export function storedQuote(changes: Partial<StoredQuote> = {}): StoredQuote {
  const { id = 'quote-1', expiresAtMs = Date.now() + 30_000 } = changes
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
    end: endAt(expiresAtMs),
    ...changes,
  }
}

/** Of a quote whose expiry nothing contradicts. */
export function endAt(expiresAtMs: number): End {
  const wallAheadMs = Date.now() - performance.now()
  return { servedUntilMs: expiresAtMs, refusedFromMs: expiresAtMs, wallAheadMs }
}

const everyByte = String.fromCharCode(...Array.from({ length: 256 }, (_, byte) => byte))
/** As the bytes of a body, one character a byte. */
const everyCharacter = Buffer.from(JSON.stringify(everyByte)).toString('latin1')

/** What every quote store has to do, in memory or behind a network. Each test gets an empty one. */
export function describeQuoteStore(
  name: string,
  create: (options: StoreOptions) => StoreUnderTest | Promise<StoreUnderTest>,
): void {
  async function storeWith(options: StoreOptions = roomy): Promise<QuoteStore> {
    const { store, close } = await create(options)
    onTestFinished(async () => close?.())
    return store
  }

  describe(`${name} as a quote store`, () => {
    it('has nothing under a key that was never set', async () => {
      const store = await storeWith()
      expect(await store.get('key')).toBeUndefined()
    })

    it('gives back every byte and header that it was given, and an end that is not narrower', async () => {
      const store = await storeWith()
      const body = storedQuote().body.replace('{', `\r\n{\t "note": ${everyCharacter}, `)
      const quote = storedQuote({ body, headers: ['X-Latin', everyByte.slice(160), 'a', ''] })
      await store.set('key', quote)
      const found = await store.get('key')
      expect(found).toEqual({ ...quote, end: found?.end })
      expect(found?.end.servedUntilMs).toBeLessThanOrEqual(quote.end.servedUntilMs)
      expect(found?.end.refusedFromMs).toBeGreaterThanOrEqual(quote.end.refusedFromMs)
    })

    it.each([
      ['key', 'Key'],
      ['key', 'key '],
      ['a\nb', 'a\n\nb'],
      ['caf\xe9', 'caf\xc3\xa9'],
      ['', ' '],
      ['__proto__', 'constructor'],
      ['k'.repeat(9_000), 'k'.repeat(9_001)],
    ])('keeps the keys %j and %j apart', async (one, other) => {
      const store = await storeWith()
      await store.set(one, storedQuote({ id: 'one' }))
      expect(await store.get(other)).toBeUndefined()
      await store.set(other, storedQuote({ id: 'other' }))
      expect((await store.get(one))?.id).toBe('one')
      expect((await store.get(other))?.id).toBe('other')
    })

    it('replaces the quote under the key', async () => {
      const store = await storeWith()
      await store.set('key', storedQuote({ id: 'old' }))
      await store.set('key', storedQuote({ id: 'new' }))
      expect((await store.get('key'))?.id).toBe('new')
    })

    it('does not judge time: it returns a quote that has just expired', async () => {
      const store = await storeWith()
      await store.set('key', storedQuote({ expiresAtMs: Date.now() - 1 }))
      expect(await store.get('key')).toBeDefined()
    })

    it('forgets a quote by its key and id, and reports that', async () => {
      const store = await storeWith()
      await store.set('key', storedQuote({ id: 'used' }))
      expect(await store.forget('key', 'used')).toBe(true)
      expect(await store.get('key')).toBeUndefined()
      expect(await store.forget('key', 'used')).toBe(false)
    })

    it('keeps a newer quote if an older one is evicted', async () => {
      const store = await storeWith()
      await store.set('key', storedQuote({ id: 'newer' }))
      expect(await store.forget('key', 'older')).toBe(false)
      expect((await store.get('key'))?.id).toBe('newer')
    })

    it('forgets nothing under another key', async () => {
      const store = await storeWith()
      await store.set('key', storedQuote())
      expect(await store.forget('other', 'quote-1')).toBe(false)
      expect(await store.get('key')).toBeDefined()
    })
  })
}

/** For stores that bound themselves. */
export function describeBounds(
  name: string,
  create: (options: StoreOptions) => StoreUnderTest & { sizes(): { entries: number; bytes: number } },
): void {
  describe(`${name} within its bounds`, () => {
    it('never holds more entries than it may, and drops what was used least recently', async () => {
      const { store, sizes } = create({ ...roomy, maxEntries: 3 })
      for (const key of ['a', 'b', 'c']) await store.set(key, storedQuote())
      await store.get('a')
      await store.set('d', storedQuote())
      expect(sizes().entries).toBe(3)
      expect(await store.get('b')).toBeUndefined()
      expect(await store.get('a')).toBeDefined()
    })

    it.each([
      ['bodies', (index: number) => [`${index}`, { body: 'x'.repeat(5_000) }] as const],
      ['keys', (index: number) => [`${index}`.padEnd(5_000, 'k'), {}] as const],
      ['headers', (index: number) => [`${index}`, { headers: ['X-Large', 'x'.repeat(5_000)] }] as const],
      ['ids', (index: number) => [`${index}`, { id: 'x'.repeat(5_000) }] as const],
    ])('counts the bytes of %s, and never holds more than it may', async (_what, entry) => {
      const { store, sizes } = create({ ...roomy, maxBytes: 50_000 })
      for (let index = 0; index < 100; index += 1) {
        const [key, changes] = entry(index)
        await store.set(key, storedQuote(changes))
        expect(sizes().bytes).toBeLessThanOrEqual(50_000)
      }
      expect(sizes().entries).toBeGreaterThan(1)
      expect(sizes().entries).toBeLessThanOrEqual(10)
    })

    it('does not keep a quote larger than the whole cache, and drops the older quote under its key', async () => {
      const { store, sizes } = create({ ...roomy, maxBytes: 10_000 })
      await store.set('key', storedQuote({ id: 'older' }))
      await store.set('other', storedQuote())
      await store.set('key', storedQuote({ body: 'x'.repeat(20_000) }))
      expect(await store.get('key')).toBeUndefined()
      expect(await store.get('other')).toBeDefined()
      expect(sizes().entries).toBe(1)
    })
  })
}
