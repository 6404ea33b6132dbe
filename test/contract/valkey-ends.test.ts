import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { type Clock, lookAt } from '../../src/clock.ts'
import type { End } from '../../src/quotes/ends.ts'
import type { StoredQuote } from '../../src/quotes/quote-store.ts'
import { createSharedQuotes } from '../../src/replicas/shared-quotes.ts'
import { createValkeyQuoteStore, type QuoteOrLock } from '../../src/replicas/valkey/quote-store.ts'
import { pause } from '../support/gateways/between.ts'
import { startValkey, storeAt, type ValkeyServer } from '../support/stores/valkey.ts'
import { storedQuote } from './quote-store.ts'

const keyPrefix = 'test:'
const storeKey = `${keyPrefix}quote:key`
const token = 'a'
const wanted = { expiresAfterMs: 0, minLeftMs: -1e15, token, lockMs: 10_000 }

/** The instants of the steady clock. */
const bySteadyClock = ({ servedUntilMs, refusedFromMs, wallAheadMs }: End) => ({
  servedUntilMs: servedUntilMs - wallAheadMs,
  refusedFromMs: refusedFromMs - wallAheadMs,
})

describe('the end of a quote in the shared store', { tags: ['redis-server'] }, () => {
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
    })
    return { store, clock, time }
  }

  const lifeMs = 20_000
  const expiresAtMs = Date.now() + 60_000
  /** A quote that ends between 19 and 20 s from now, by the clocks of its replica. */
  function dated(clock: Clock, more: Partial<StoredQuote> = {}) {
    const { nowMs, steadyMs } = lookAt(clock)
    const ends = { servedUntilMs: nowMs + lifeMs - 1_000, refusedFromMs: nowMs + lifeMs }
    const end: End = { ...ends, wallAheadMs: nowMs - steadyMs }
    return storedQuote({ expiresAtMs: nowMs + lifeMs, end, ...more })
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
      const { end } = (await there.store.getOrLock('key', wanted))?.quote ?? {}
      const tookMs = performance.now() - beganMs + 10
      const servedUntilMs = quote.end.servedUntilMs + apartMs
      const refusedFromMs = quote.end.refusedFromMs + apartMs
      expect(end?.servedUntilMs).toBeLessThanOrEqual(servedUntilMs)
      expect(end?.servedUntilMs).toBeGreaterThanOrEqual(servedUntilMs - tookMs)
      expect(end?.refusedFromMs).toBeGreaterThanOrEqual(refusedFromMs)
      expect(end?.refusedFromMs).toBeLessThanOrEqual(refusedFromMs + tookMs)
      // By the steady clock too, which a step of the wall clock does not change.
      const { nowMs, steadyMs } = lookAt(there.clock)
      expect(Math.abs((end?.wallAheadMs ?? 0) - (nowMs - steadyMs))).toBeLessThanOrEqual(2)
    },
  )

  it.each([60_000, -60_000])(
    'does not begin later because our wall clock was set by %d ms before the quote was written',
    async (byMs) => {
      await server.ask('FLUSHALL')
      const here = await replica()
      const asked = await here.store.getOrLock('key', wanted)
      const quote = dated(here.clock)
      const trueEnd = bySteadyClock(quote.end)
      here.time.wallAheadMs += byMs
      await here.store.put('key', quote, { token, storeAheadMs: asked?.storeAheadMs })
      const { end } = (await here.store.getOrLock('key', wanted))?.quote ?? {}
      const read = end && bySteadyClock(end)
      expect(read?.servedUntilMs).toBeLessThanOrEqual(trueEnd.servedUntilMs)
      expect(read?.refusedFromMs).toBeGreaterThanOrEqual(trueEnd.refusedFromMs)
    },
  )

  it('does not begin later because the store took its time with the write', async () => {
    await server.ask('FLUSHALL')
    const { store, clock } = await replica()
    const asked = await store.getOrLock('key', wanted)
    const quote = dated(clock)
    await server.ask('CLIENT', 'PAUSE', '200')
    await store.put('key', quote, { token, storeAheadMs: asked?.storeAheadMs })
    const { end } = (await store.getOrLock('key', wanted))?.quote ?? {}
    expect(end?.servedUntilMs).toBeLessThanOrEqual(quote.end.servedUntilMs)
    expect(end?.refusedFromMs).toBeGreaterThanOrEqual(quote.end.refusedFromMs)
  })

  it('is that of the quote which is there, and is removed with it', async () => {
    await server.ask('FLUSHALL')
    const { store, clock } = await replica()
    await store.put('key', dated(clock))
    const next = storedQuote({ id: 'next' })
    await store.put('key', next)
    const { quote } = (await store.getOrLock('key', wanted)) ?? {}
    expect(quote?.id).toBe('next')
    expect(quote?.end.refusedFromMs).toBeGreaterThanOrEqual(next.end.refusedFromMs)
    expect(await store.forget('key', 'next')).toBe(true)
    expect(await server.ask('HGET', storeKey, 'ends')).toBeNull()
  })

  it.each([
    ['another id', { id: 'other', expiresAtMs }],
    ['another expiry', { id: 'ours', expiresAtMs: expiresAtMs + 1 }],
  ])(
    'is not applied to a quote with %s that version 1.0.0 wrote over the entry: that is not used, and replaced',
    async (_what, old) => {
      await server.ask('FLUSHALL')
      const { store } = await replica()
      await store.put('key', storedQuote(old))
      const fields = ['quote', 'expires', 'deadline']
      const written = await server.ask('HMGET', storeKey, ...fields)
      const ours = storedQuote({ id: 'ours', expiresAtMs })
      await store.put('key', ours)
      expect((await store.getOrLock('key', wanted))?.quote?.id).toBe('ours')
      const both = fields.flatMap((field, index) => [field, String((written as unknown[])[index])])
      await server.ask('HSET', storeKey, ...both)
      expect(await store.getOrLock('key', wanted)).toBeUndefined()
      await store.put('key', ours)
      expect((await store.getOrLock('key', wanted))?.quote?.id).toBe('ours')
    },
  )

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

it('a quote in the store that is over by its end is not used, but fetched', async () => {
  const nowMs = 1_763_651_841_481
  const clock = { nowMs: () => nowMs, steadyMs: () => 100_000 }
  const end = { servedUntilMs: nowMs - 2_000, refusedFromMs: nowMs - 500, wallAheadMs: nowMs - 100_000 }
  const over = storedQuote({ id: 'over', expiresAtMs: nowMs + 30_000, end })
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
    clock,
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
    end: undefined,
    stored: storedQuote({ id: 'fetched' }),
    notKept: undefined,
    shared: true,
  }
  const call = share('key', () => ({ answer: Promise.resolve(fetched), abort() {} }), undefined)
  onTestFinished(() => call.abort())
  expect((await call.answer).stored?.id).toBe('fetched')
  expect(excluded).toEqual([undefined, 'over'])
})
