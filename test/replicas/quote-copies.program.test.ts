import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { type Clock, lookAt, systemClock } from '../../src/clock.ts'
import { QuotesOfAll } from '../../src/memory/shared-quotes.ts'
import type { End } from '../../src/quotes/ends.ts'
import type { Quote } from '../../src/quotes/quote.ts'
import { aQuote } from '../support/stores/a-quote.ts'
import { copyOf } from '../support/stores/copy-of.ts'
import { startValkey, storeAt, type ValkeyServer } from '../support/stores/valkey.ts'

const keyPrefix = 'test:'
const storeKey = `${keyPrefix}cache:key`
const token = 'a'
const lifeMs = 20_000

/** The instants of the steady clock of this process. */
function bySteadyClock(end: End | undefined, steadyAheadMs: number) {
  const { servedUntilMs, refusedFromMs, wallAheadMs } = end ?? noEnd
  const aheadMs = wallAheadMs + steadyAheadMs
  return {
    servedUntilMs: servedUntilMs - aheadMs,
    refusedFromMs: refusedFromMs - aheadMs,
  }
}
const noEnd: End = {
  servedUntilMs: Number.NaN,
  refusedFromMs: Number.NaN,
  wallAheadMs: Number.NaN,
}

/** A quote that is over between 19 and 20 s from now, by the clocks of its replica. */
function dated(clock: Clock, more: Partial<Quote> = {}): Quote {
  const { nowMs, steadyMs } = lookAt(clock)
  const ends = { servedUntilMs: nowMs + lifeMs - 1_000, refusedFromMs: nowMs + lifeMs }
  return aQuote({
    expiresAtMs: Math.round(nowMs) + lifeMs,
    end: { ...ends, wallAheadMs: nowMs - steadyMs },
    ...more,
  })
}

describe('the copy of a quote in the shared store', { tags: ['redis-server'] }, () => {
  let server: ValkeyServer

  beforeAll(async () => {
    server = await startValkey()
    return () => server.end()
  })

  /** A replica whose clocks show what they like; the steady one shows `steadyAheadMs` more than that of this process. */
  async function replica({ wallAheadMs = 0, steadyAheadMs = 0, isFirst = true } = {}) {
    if (isFirst) await server.ask('FLUSHALL')
    const time = { wallAheadMs }
    const clock = {
      ...systemClock,
      nowMs: () => Date.now() + time.wallAheadMs,
      steadyMs: () => performance.now() + steadyAheadMs,
    }
    const store = await storeAt(server.url, { keyPrefix })
    const copy = (asker = token) => copyOf({ store, clock, token: asker })
    const look = (changes = {}, asker = token) => copy(asker).look(changes)
    const put = (quote: Quote, holder = token) => copy(holder).put(quote)
    const quoteThere = async (changes = {}) => {
      const seen = await look(changes)
      return seen?.kind === 'quote' ? seen.quote : undefined
    }
    const idThere = async () => (await quoteThere({ lockMs: 0 }))?.id
    const { forget } = copy()
    return { copy, look, quoteThere, forget, clock, time, put, idThere }
  }

  it.each([
    ['whose clock is an hour behind', { apartMs: -3_600_000 }],
    ['whose clock is a second ahead', { apartMs: 900 }],
    ['if the wall clock was set back before it was put', { stepMs: -60_000 }],
    ['if the store took its time with the put', { storePausesMs: 400 }],
  ])(
    'is never served longer, nor refused earlier, by another replica, %s',
    async (_how, given) => {
      const { apartMs, stepMs, storePausesMs } = {
        apartMs: 0,
        stepMs: 0,
        storePausesMs: 0,
        ...given,
      }
      const here = await replica({ steadyAheadMs: 5_000 })
      const there = await replica({
        wallAheadMs: apartMs,
        steadyAheadMs: 900_000,
        isFirst: false,
      })
      const beganMs = performance.now()
      const { copies, key } = here.copy()
      const lock = await here.look()
      const quote = dated(here.clock)
      here.time.wallAheadMs += stepMs
      if (storePausesMs > 0) await server.ask('CLIENT', 'PAUSE', storePausesMs)
      const storeAheadMs = lock?.kind === 'lock' ? lock.storeAheadMs : Number.NaN
      expect(await copies.put(key, token, { quote, storeAheadMs })).toBe(true)
      const { end } = (await there.quoteThere()) ?? {}
      const tookMs = performance.now() - beganMs + 10
      const [read, its] = [bySteadyClock(end, 900_000), bySteadyClock(quote.end, 5_000)]
      expect(read.servedUntilMs).toBeLessThanOrEqual(its.servedUntilMs)
      expect(read.servedUntilMs).toBeGreaterThanOrEqual(its.servedUntilMs - tookMs)
      expect(read.refusedFromMs).toBeGreaterThanOrEqual(its.refusedFromMs)
      expect(read.refusedFromMs).toBeLessThanOrEqual(its.refusedFromMs + tookMs - stepMs)
      // By the wall clock too.
      const { nowMs, steadyMs } = lookAt(there.clock)
      expect(Math.abs((end?.wallAheadMs ?? 0) - (nowMs - steadyMs))).toBeLessThan(100)
    },
  )

  it('is not served by a replica by whose clock it is over, whatever that of the store says', async () => {
    const { put, clock, time, quoteThere, idThere } = await replica()
    const quote = dated(clock)
    expect(await put(quote)).toBe(true)
    // As if the store's clock had been set back by an hour.
    await server.ask('HINCRBY', storeKey, 'servedUntil', '3600000')
    expect((await quoteThere())?.end.servedUntilMs).toBe(quote.expiresAtMs)
    time.wallAheadMs += lifeMs
    expect(await idThere()).toBe(undefined)
  })

  it('stays where a call that lost the lock puts an older one', async () => {
    const { copy, clock, put, idThere } = await replica()
    const { copies, key, look } = copy('slow')
    const lock = await look()
    const expiresAtMs = Math.round(clock.nowMs()) + lifeMs + 5_000
    await put(dated(clock, { id: 'newer', expiresAtMs }))
    const storeAheadMs = lock?.kind === 'lock' ? lock.storeAheadMs : Number.NaN
    await copies.put(key, 'slow', { quote: dated(clock, { id: 'older' }), storeAheadMs })
    expect(await idThere()).toBe('newer')
  })

  it('is not put where it is over by our wall clock, which was set', async () => {
    const { put, clock, time, idThere } = await replica()
    const quote = dated(clock)
    time.wallAheadMs += 60_000
    expect(await put(quote)).toBe(false)
    expect(await idThere()).toBe(undefined)
  })

  it('is gone from the store once it may not be served', async () => {
    const { put, clock } = await replica()
    await put(dated(clock))
    expect(await server.ask('KEYS', '*cache*')).toEqual([storeKey])
    const leftMs = Number(await server.ask('PTTL', storeKey))
    expect(leftMs).toBeGreaterThan(1_000)
    expect(leftMs).toBeLessThanOrEqual(lifeMs)
  })

  it('is removed by its id alone', async () => {
    const { forget, put, clock, idThere } = await replica()
    await put(dated(clock, { id: 'used' }))
    for (const other of ['use', 'x"used', 'next']) await forget(other)
    expect(await idThere()).toBe('used')
    await put(dated(clock, { id: 'next' }))
    // As from a replica that was slow to say it.
    await forget('used')
    expect(await idThere()).toBe('next')
    await forget('next')
    expect(await idThere()).toBe(undefined)
  })

  it('is not returned if it is the one that the asker has', async () => {
    const { look, put, clock } = await replica()
    const quote = dated(clock)
    await put(quote)
    expect(await look()).toMatchObject({ quote: { id: quote.id } })
    const changes = { expiresAfterMs: quote.expiresAtMs }
    expect(await look(changes)).toMatchObject({ kind: 'lock', holder: token })
  })

  it('is put under a lock that one caller has until it is returned, with the quote or without', async () => {
    const { copy, look, put, clock } = await replica()
    const never = Number.MAX_SAFE_INTEGER
    const holder = async (asker: string, more = {}) => {
      const seen = await look(more, asker)
      return seen?.kind === 'lock' ? seen.holder : undefined
    }
    /** As the one that has the lock, whether it has or not. */
    const unlock = (asker: string) => copy(asker).unlock()
    expect(await holder('a')).toBe('a')
    unlock('b')
    expect(await holder('b')).toBe('a')
    await put(dated(clock, { id: 'slow' }), 'other')
    expect(await holder('b', { expiresAfterMs: never })).toBe('a')
    await put(dated(clock, { id: 'mine' }))
    expect(await holder('b', { expiresAfterMs: never, lockMs: 30 })).toBe('b')
    await expect
      .poll(() => holder('c', { expiresAfterMs: never }), { timeout: 10_000 })
      .toBe('c')
    unlock('c')
    expect(await holder('d', { expiresAfterMs: never })).toBe('d')
  })

  it.each([
    ['a body that is cut short', { body: aQuote().body.slice(0, -20) }],
    ['the body of another quote', { body: aQuote({ id: 'quote-2' }).body }],
    [
      'another expiry than its body',
      { expiresAtMs: Date.now() + 99_000, body: aQuote().body },
    ],
    ['a line break in a header', { headers: ['X-A', 'a\r\nX-B: b'] }],
    ['nothing that is a copy', 'from the future'],
  ])('is not used with %s, and is removed', async (_damage, changes) => {
    const { look, put, clock } = await replica()
    await put(dated(clock, typeof changes === 'string' ? {} : changes))
    if (typeof changes === 'string') await server.ask('HSET', storeKey, 'quote', changes)
    expect(await look()).toBeUndefined()
    expect(await look()).toMatchObject({ kind: 'lock', holder: token })
  })

  it("loses the headers of another version's copy that would be wrong in a later answer", async () => {
    const { look, put, clock } = await replica()
    await put(dated(clock, { headers: ['Content-Length', '3', 'X-A', 'a'] }))
    expect(await look()).toMatchObject({ quote: { headers: ['X-A', 'a'] } })
  })

  it('is not asked for twice in one call, if it is over by its end', async () => {
    const here = await replica()
    await here.put(dated(here.clock, { id: 'over' }))
    // It has gone past the end while the answer was on its way.
    const clock = { ...systemClock, steadyMs: () => performance.now() + later }
    let later = 0
    const store = await storeAt(server.url, { keyPrefix })
    const run: typeof store.run = async (...parameters) => {
      const answer = await store.run(...parameters)
      later += lifeMs
      return answer
    }
    const shared = new QuotesOfAll({
      sharedStore: { keyPrefix, up: true, run, insist: run },
      clock,
      minValidityMs: 0,
      lockWaitMs: 1_000,
      isUsed: () => false,
    })
    const look = { flight: { left: undefined }, waits: true, known: undefined }
    expect(await shared.look('key', look)).toMatchObject({ kind: 'turn' })
  })

  it('fails no call once the server is gone', async () => {
    const own = await startValkey()
    onTestFinished(() => own.end())
    const store = await storeAt(own.url)
    const { copies, key, look, forget } = copyOf({ store, clock: systemClock })
    await look()
    await own.kill()
    const quote = dated(systemClock)
    expect(await copies.put(key, token, { quote, storeAheadMs: 0 })).toBe(false)
    expect(await look()).toBeUndefined()
    await forget('quote-1')
  })
})
