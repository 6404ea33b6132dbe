import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { type Clock, lookAt, systemClock } from '../../src/clock.ts'
import { Events } from '../../src/events.ts'
import { type End, serveLeftMs } from '../../src/quotes/ends.ts'
import type { StoredQuote } from '../../src/quotes/quote.ts'
import { QuoteCopies } from '../../src/replicas/quote-copies.ts'
import { QuotesOfAll } from '../../src/replicas/quotes.ts'
import { until } from '../support/gateways/between.ts'
import { storedQuote } from '../support/stores/stored-quote.ts'
import { startValkey, storeAt, type ValkeyServer, valkeyCluster } from '../support/stores/valkey.ts'

const keyPrefix = 'test:'
const storeKey = `${keyPrefix}cache:key`
const token = 'a'
const wanted = (changes = {}) => ({ expiresAfterMs: 0, minLeftMs: 0, token, lockMs: 10_000, ...changes })
const lifeMs = 20_000

/** The instants of the steady clock. */
const bySteadyClock = ({ servedUntilMs, refusedFromMs, wallAheadMs }: End) => ({
  servedUntilMs: servedUntilMs - wallAheadMs,
  refusedFromMs: refusedFromMs - wallAheadMs,
})

/** A quote that is over between 19 and 20 s from now, by the clocks of its replica. */
function dated(clock: Clock, more: Partial<StoredQuote> = {}): StoredQuote {
  const { nowMs, steadyMs } = lookAt(clock)
  const ends = { servedUntilMs: nowMs + lifeMs - 1_000, refusedFromMs: nowMs + lifeMs }
  return storedQuote({
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
    const copies = new QuoteCopies(await storeAt(server.url, { keyPrefix }), clock)
    async function put(quote: StoredQuote, holder = token) {
      const asked = await copies.getOrLock('key', wanted({ expiresAfterMs: quote.expiresAtMs }))
      return copies.put('key', quote, { token: holder, storeAheadMs: asked?.storeAheadMs ?? Number.NaN })
    }
    const idThere = async () => (await copies.getOrLock('key', wanted({ lockMs: 0 })))?.quote?.id
    return { copies, clock, time, put, idThere }
  }

  it.each([
    ['whose clocks agree', 0],
    ['an hour behind', -3_600_000],
    ['an hour ahead', 3_600_000],
  ])('is never served longer by another replica, %s, nor refused earlier', async (_whose, apartMs) => {
    const here = await replica({ steadyAheadMs: 5_000 })
    const there = await replica({ wallAheadMs: apartMs, steadyAheadMs: 900_000, isFirst: false })
    const quote = dated(here.clock)
    const beganMs = performance.now()
    expect(await here.put(quote)).toBe(true)
    const { end } = (await there.copies.getOrLock('key', wanted()))?.quote ?? {}
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
  })

  it.each([60_000, -60_000])(
    'is not later because our wall clock was set by %d ms before it was put',
    async (byMs) => {
      const { copies, clock, time } = await replica()
      const asked = await copies.getOrLock('key', wanted())
      const quote = dated(clock)
      const trueEnd = bySteadyClock(quote.end)
      time.wallAheadMs += byMs
      const isPut = await copies.put('key', quote, { token, storeAheadMs: asked?.storeAheadMs ?? 0 })
      // A minute later by the wall clock, it is over.
      expect(isPut).toBe(byMs < 0)
      if (!isPut) return
      const { end } = (await copies.getOrLock('key', wanted()))?.quote ?? {}
      const read = end && bySteadyClock(end)
      expect(read?.servedUntilMs).toBeLessThanOrEqual(trueEnd.servedUntilMs)
      expect(read?.refusedFromMs).toBeGreaterThanOrEqual(trueEnd.refusedFromMs)
    },
  )

  it('is not later because the store took its time with the put', async () => {
    const { copies, clock } = await replica()
    const asked = await copies.getOrLock('key', wanted())
    const quote = dated(clock)
    await server.ask('CLIENT', 'PAUSE', '400')
    await copies.put('key', quote, { token, storeAheadMs: asked?.storeAheadMs ?? 0 })
    const { end } = (await copies.getOrLock('key', wanted()))?.quote ?? {}
    expect(end?.servedUntilMs).toBeLessThanOrEqual(quote.end.servedUntilMs)
    expect(end?.refusedFromMs).toBeGreaterThanOrEqual(quote.end.refusedFromMs)
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
    const { copies, put, clock, idThere } = await replica()
    await put(dated(clock, { id: 'used' }))
    for (const other of ['use', 'x"used', 'next']) await copies.forget('key', other)
    expect(await idThere()).toBe('used')
    await put(dated(clock, { id: 'next' }))
    // As from a replica that was slow to say it.
    await copies.forget('key', 'used')
    expect(await idThere()).toBe('next')
    await copies.forget('key', 'next')
    expect(await idThere()).toBe(undefined)
  })

  it.each([
    ['is the one that the asker has', (quote: StoredQuote) => ({ expiresAfterMs: quote.expiresAtMs })],
    ['has too little left', () => ({ minLeftMs: lifeMs })],
  ])('is not returned if it %s', async (_what, changes) => {
    const { copies, put, clock } = await replica()
    const quote = dated(clock)
    await put(quote)
    expect(await copies.getOrLock('key', wanted())).toMatchObject({ quote: { id: quote.id } })
    expect(await copies.getOrLock('key', wanted(changes(quote)))).toMatchObject({ lockHolder: token })
  })

  it('is put under a lock that one caller has until it is returned, with the quote or without', async () => {
    const { copies, put, clock } = await replica()
    const never = Number.MAX_SAFE_INTEGER
    const holder = async (asker: string, more = {}) =>
      (await copies.getOrLock('key', wanted({ token: asker, ...more })))?.lockHolder
    expect(await holder('a')).toBe('a')
    copies.unlock('key', 'b')
    expect(await holder('b')).toBe('a')
    await put(dated(clock, { id: 'slow' }), 'other')
    expect(await holder('b', { expiresAfterMs: never })).toBe('a')
    await put(dated(clock, { id: 'mine' }))
    expect(await holder('b', { expiresAfterMs: never, lockMs: 30 })).toBe('b')
    let latest: string | undefined
    await until(() => {
      void holder('c', { expiresAfterMs: never }).then((held) => {
        latest = held
      })
      return latest === 'c'
    }, 'the lock to be over')
    copies.unlock('key', 'c')
    expect(await holder('d', { expiresAfterMs: never })).toBe('d')
  })

  it.each([
    ['a body that is cut short', { body: storedQuote().body.slice(0, -20) }],
    ['the body of another quote', { body: storedQuote({ id: 'quote-2' }).body }],
    ['another expiry than its body', { expiresAtMs: Date.now() + 99_000, body: storedQuote().body }],
    ['a line break in a header', { headers: ['X-A', 'a\r\nX-B: b'] }],
  ])('is not used with %s, and is removed', async (_damage, changes) => {
    const { copies, put, clock } = await replica()
    await put(dated(clock, changes))
    expect(await copies.getOrLock('key', wanted())).toBeUndefined()
    await until(() => true, 'a turn')
    expect(await copies.getOrLock('key', wanted())).toMatchObject({ lockHolder: token })
  })

  it.each(['from the future', 'from\nthe future', ''])(
    'is not used if it is %j, and is removed',
    async (text) => {
      const { copies, put, clock } = await replica()
      await put(dated(clock))
      await server.ask('HSET', storeKey, 'quote', text)
      expect(await copies.getOrLock('key', wanted())).toBeUndefined()
      expect(await copies.getOrLock('key', wanted())).toMatchObject({ lockHolder: token })
    },
  )

  it("loses the headers of another version's copy that would be wrong in a later answer", async () => {
    const { copies, put, clock } = await replica()
    await put(dated(clock, { headers: ['Content-Length', '3', 'X-A', 'a'] }))
    expect(await copies.getOrLock('key', wanted())).toMatchObject({ quote: { headers: ['X-A', 'a'] } })
  })

  it('is not asked for twice in one call, if it is over by its end', async () => {
    const here = await replica()
    await here.put(dated(here.clock, { id: 'over' }))
    // It has gone past the end while the answer was on its way.
    const clock = { ...systemClock, steadyMs: () => performance.now() + later }
    let later = 0
    const sharedStore = await storeAt(server.url, { keyPrefix })
    const shared = new QuotesOfAll({
      sharedStore: {
        ...{ keyPrefix, up: true, post: () => {} },
        run: async (...parameters) => {
          const answer = await sharedStore.run(...parameters)
          later += lifeMs
          return answer
        },
      },
      clock,
      minValidityMs: 0,
      lockWaitMs: 1_000,
      isUsed: () => false,
      events: new Events(),
    })
    const { signal } = new AbortController()
    const look = await shared.quoteOrLock('key', { signal, waits: true, known: undefined })
    expect(look.quote).toBeUndefined()
  })

  it('fails no call once the server is gone', async () => {
    const own = await startValkey()
    onTestFinished(() => own.end())
    const copies = new QuoteCopies(await storeAt(own.url), systemClock)
    await own.kill()
    expect(await copies.getOrLock('key', wanted())).toBeUndefined()
    expect(await copies.put('key', dated(systemClock), { token, storeAheadMs: 0 })).toBe(false)
    await copies.forget('key', 'quote-1')
  })
})

it('the copies of quotes are spread over all servers of a Cluster', { tags: ['redis-server'] }, async () => {
  const { url, servers } = await valkeyCluster()
  const [here, there] = [
    new QuoteCopies(await storeAt(url), systemClock),
    new QuoteCopies(await storeAt(url), systemClock),
  ]
  for (let index = 0; index < 50; index += 1) {
    const key = `key ${index}`
    const asked = await here.getOrLock(key, wanted())
    const lock = { token, storeAheadMs: asked?.storeAheadMs ?? 0 }
    expect(await here.put(key, dated(systemClock, { id: key }), lock)).toBe(true)
    const { quote } = (await there.getOrLock(key, wanted())) ?? {}
    expect(quote?.id).toBe(key)
    expect(quote && serveLeftMs(quote.end, lookAt(systemClock))).toBeGreaterThan(0)
  }
  for (const server of servers) expect(Number(await server.ask('DBSIZE'))).toBeGreaterThan(5)
})
