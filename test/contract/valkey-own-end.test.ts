import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { silentLogger } from '../../src/process/logger.ts'
import { createProviderClock } from '../../src/quotes/provider-clock.ts'
import { createSharedQuotes } from '../../src/replicas/shared-quotes.ts'
import { createValkeyQuoteStore, type QuoteOrLock } from '../../src/replicas/valkey/quote-store.ts'
import { pause } from '../support/gateways/between.ts'
import { startValkey, storeAt, type ValkeyServer } from '../support/stores/valkey.ts'
import { storedQuote } from './quote-store.ts'

const keyPrefix = 'test:'
const storeKey = `${keyPrefix}quote:key`
const token = 'a'
const wanted = { expiresAfterMs: 0, minLeftMs: -1e15, token, lockMs: 10_000 }

describe('the interval in which a quote ends, in the shared store', { tags: ['redis-server'] }, () => {
  let server: ValkeyServer

  beforeAll(async () => {
    server = await startValkey()
    return () => server.end()
  })

  /** A replica whose clocks show what they like; the steady one shows `steadyAheadMs` more than that of this process. */
  async function replica({ wallAheadMs = 0, steadyAheadMs = 0 } = {}) {
    const time = { wallAheadMs }
    const clock = {
      nowMs: () => Date.now() + time.wallAheadMs,
      steadyMs: () => performance.now() + steadyAheadMs,
    }
    const store = createValkeyQuoteStore({
      sharedStore: await storeAt(server.url, { keyPrefix }),
      clock,
      providerClock: createProviderClock({ clock, log: silentLogger() }),
    })
    return { store, clock, time }
  }

  const lifeMs = 20_000
  const expiresAtMs = Date.now() + 60_000
  /** A quote that ends between 19 and 20 s from now, by the clocks of its replica. */
  function dated({ nowMs, steadyMs }: { nowMs(): number; steadyMs(): number }) {
    const ownEnd = { fromMs: Math.floor(steadyMs() + 19_000), untilMs: Math.ceil(steadyMs() + lifeMs) }
    return storedQuote({ expiresAtMs: nowMs() + lifeMs, ownEnd })
  }

  it.each([
    ['whose clocks agree', 0],
    ['an hour behind', -3_600_000],
    ['an hour ahead', 3_600_000],
  ])(
    'is never narrower at another replica, %s, and wider by what the calls took',
    async (_whose, apartMs) => {
      await server.ask('FLUSHALL')
      const here = await replica({ steadyAheadMs: 5_000 })
      const there = await replica({ wallAheadMs: apartMs, steadyAheadMs: 900_000 })
      const quote = dated(here.clock)
      const beganMs = performance.now()
      await here.store.put('key', quote)
      await pause(50)
      const { ownEnd } = (await there.store.getOrLock('key', wanted))?.quote ?? {}
      const tookMs = performance.now() - beganMs + 10
      const [fromMs, untilMs] = [quote.ownEnd?.fromMs, quote.ownEnd?.untilMs].map((ms = 0) => ms + 895_000)
      expect(ownEnd?.fromMs).toBeLessThanOrEqual(fromMs ?? 0)
      expect(ownEnd?.fromMs).toBeGreaterThanOrEqual((fromMs ?? 0) - tookMs)
      expect(ownEnd?.untilMs).toBeGreaterThanOrEqual(untilMs ?? 0)
      expect(ownEnd?.untilMs).toBeLessThanOrEqual((untilMs ?? 0) + tookMs)
    },
  )

  it.each([60_000, -60_000])(
    'does not begin later because our wall clock was set by %d ms before the quote was written',
    async (byMs) => {
      await server.ask('FLUSHALL')
      const here = await replica()
      const asked = await here.store.getOrLock('key', wanted)
      const quote = dated(here.clock)
      here.time.wallAheadMs += byMs
      await here.store.put('key', quote, { token, storeAheadMs: asked?.storeAheadMs })
      const { ownEnd } = (await here.store.getOrLock('key', wanted))?.quote ?? {}
      expect(ownEnd?.fromMs).toBeLessThanOrEqual(quote.ownEnd?.fromMs ?? 0)
      expect(ownEnd?.untilMs).toBeGreaterThanOrEqual(quote.ownEnd?.untilMs ?? 0)
    },
  )

  it('does not begin later because the store took its time with the write', async () => {
    await server.ask('FLUSHALL')
    const { store, clock } = await replica()
    const asked = await store.getOrLock('key', wanted)
    const quote = dated(clock)
    await server.ask('CLIENT', 'PAUSE', '200')
    await store.put('key', quote, { token, storeAheadMs: asked?.storeAheadMs })
    const { ownEnd } = (await store.getOrLock('key', wanted))?.quote ?? {}
    expect(ownEnd?.fromMs).toBeLessThanOrEqual(quote.ownEnd?.fromMs ?? 0)
    expect(ownEnd?.untilMs).toBeGreaterThanOrEqual(quote.ownEnd?.untilMs ?? 0)
  })

  it('does not exist if the answer had no Date, or if the quote is evicted', async () => {
    await server.ask('FLUSHALL')
    const { store, clock } = await replica()
    await store.put('key', dated(clock))
    await store.put('key', storedQuote({ id: 'undated' }))
    const { quote } = (await store.getOrLock('key', wanted)) ?? {}
    expect([quote?.id, quote?.ownEnd]).toEqual(['undated', undefined])
    await store.put('key', dated(clock))
    await store.forget('key', 'quote-1')
    expect(await server.ask('HGET', storeKey, 'ends')).toBeNull()
  })

  it.each([
    ['another id', { id: 'other', expiresAtMs }],
    ['another expiry', { id: 'ours', expiresAtMs: expiresAtMs + 1 }],
  ])('is not applied to a quote with %s that version 1.0.0 wrote over the entry', async (_what, old) => {
    await server.ask('FLUSHALL')
    const { store, clock } = await replica()
    await store.put('key', storedQuote(old))
    const fields = ['quote', 'expires', 'deadline']
    const written = await server.ask('HMGET', storeKey, ...fields)
    const { ownEnd } = dated(clock)
    await store.put('key', storedQuote({ id: 'ours', expiresAtMs, ownEnd }))
    expect((await store.getOrLock('key', wanted))?.quote?.ownEnd).toBeDefined()
    const both = fields.flatMap((field, index) => [field, String((written as unknown[])[index])])
    await server.ask('HSET', storeKey, ...both)
    const { quote } = (await store.getOrLock('key', wanted)) ?? {}
    expect([quote?.id, quote?.expiresAtMs, quote?.ownEnd]).toEqual([old.id, expect.any(Number), undefined])
  })

  it('leaves the entry as version 1.0.0 reads it', async () => {
    await server.ask('FLUSHALL')
    const { store, clock } = await replica()
    const quote = dated(clock)
    await store.put('key', quote)
    const [id = '', head = '', body] = String(await server.ask('HGET', storeKey, 'quote')).split('\n')
    expect([JSON.parse(id), JSON.parse(head), body]).toEqual([
      quote.id,
      [quote.lifeMs, quote.expiresAtMs, ...quote.headers],
      quote.body,
    ])
    const deadline = Number(await server.ask('HGET', storeKey, 'deadline'))
    expect(deadline).toBeLessThanOrEqual(quote.expiresAtMs)
  })
})

it('a quote in the store whose interval is over is not used, but fetched', async () => {
  const clock = { nowMs: () => Date.now(), steadyMs: () => 100_000 }
  const over = storedQuote({ id: 'over', ownEnd: { fromMs: 98_000, untilMs: 99_500 } })
  const excluded: (string | undefined)[] = []
  const found: QuoteOrLock = { quote: over, storeAheadMs: 0 }
  const share = createSharedQuotes({
    store: {
      async getOrLock(_key: string, options: { excludeId?: string | undefined; token: string }) {
        excluded.push(options.excludeId)
        return options.excludeId === 'over' ? { lockHolder: options.token, storeAheadMs: 0 } : found
      },
      put: async () => true,
      unlock: async () => {},
    } as unknown as Parameters<typeof createSharedQuotes>[0]['store'],
    evictions: {
      announcePending: async () => true,
      watch: () => ({ evicted: false, end() {} }),
      evictedElsewhere() {},
      isUsed: () => false,
      evict() {},
    },
    providerClock: createProviderClock({ clock, log: silentLogger() }),
    minValidityMs: 0,
    lockWaitMs: 1_000,
    pause,
    observer: { shared() {} },
  })
  const fetched = {
    status: 200,
    reason: 'OK',
    headers: [],
    body: Buffer.from(''),
    quote: undefined,
    stored: storedQuote({ id: 'fetched' }),
    notKept: undefined,
    shared: true,
  }
  const call = share('key', () => ({ answer: Promise.resolve(fetched), abort() {} }), undefined)
  onTestFinished(() => call.abort())
  expect((await call.answer).stored?.id).toBe('fetched')
  expect(excluded).toEqual([undefined, 'over'])
})
