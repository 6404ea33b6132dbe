import { describe, expect, it } from 'vitest'
import { lookAt } from '../../src/clock.ts'
import { Events, type Lookup } from '../../src/events.ts'
import { createMemoryQuoteStore } from '../../src/quotes/memory-quote-store.ts'
import type { QuoteAnswer } from '../../src/quotes/quote-answer.ts'
import { createQuoteCache, type QuoteCacheOptions } from '../../src/quotes/quote-cache.ts'
import type { StoredQuote } from '../../src/quotes/quote-store.ts'
import { createTestClock, deferred, endAt, sourceOf } from '../support/clients/quotes.ts'

const lifeMs = 30_000

/** The real cache, store and clock, with calls that the test answers. */
function setUp(options: Partial<Pick<QuoteCacheOptions, 'minValidityMs' | 'refreshAheadMs' | 'share'>> = {}) {
  const clock = createTestClock()
  const looked: Lookup[] = []
  const notKept: string[] = []
  const refreshes: string[] = []
  const events = new Events([
    {
      quoteLookedUp: (result) => void looked.push(result),
      quoteNotKept: (reason) => void notKept.push(reason),
      quoteRefreshed: (outcome) => void refreshes.push(outcome),
    },
  ])
  const cache = createQuoteCache({
    store: createMemoryQuoteStore({ maxEntries: 100, maxBytes: 100_000, clock, events }),
    clock,
    minValidityMs: 0,
    refreshAheadMs: 0,
    ...options,
    events,
  })
  const calls: { resolve(answer: QuoteAnswer): void; reject(error: Error): void; aborted: boolean }[] = []
  function call(signal?: AbortSignal) {
    const { promise, resolve, reject } = deferred<QuoteAnswer>()
    const made = { resolve, reject, aborted: false }
    calls.push(made)
    signal?.addEventListener('abort', () => {
      made.aborted = true
      reject(new Error('given up'))
    })
    return promise
  }
  function answer(id: string, changes: Partial<QuoteAnswer> = {}): QuoteAnswer {
    const expiresAtMs = clock.nowMs() + lifeMs
    return {
      status: 200,
      reason: 'OK',
      headers: [],
      body: Buffer.from(id),
      end: endAt(expiresAtMs),
      stored: { id, body: id, headers: [], lifeMs, expiresAtMs, end: endAt(expiresAtMs) },
      notKept: undefined,
      shared: true,
      ...changes,
    }
  }
  const source = sourceOf(call)
  const get = (key = 'key') => cache.getOrFetch(key, source)
  /** As the route looks into memory. */
  function live(key: string) {
    const quote = cache.live(key, lookAt(clock))
    if (quote !== undefined && cache.isRefreshDue(key, quote)) cache.refresh(key, quote, source)
    return quote
  }
  return { cache, clock, calls, source, live, answer, get, looked, notKept, refreshes }
}

const alone = (reason: 'vary' | 'status') => ({
  stored: undefined,
  notKept: reason,
  shared: reason === 'status',
})

describe('a quote in the cache', () => {
  it.each([
    [0, lifeMs - 1, lifeMs],
    [5_000, lifeMs - 5_001, lifeMs - 4_999],
  ])(
    'with %d ms of least validity is served after %d ms, and no more after %d ms',
    async (minValidityMs, last, over) => {
      const { clock, calls, live, answer, get } = setUp({ minValidityMs })
      const startMs = clock.nowMs()
      const asking = get()
      calls[0]?.resolve(answer('one'))
      await asking.served
      clock.set(startMs + last)
      expect(live('key')?.id).toBe('one')
      expect((await get().served).how).toBe('hit')
      clock.set(startMs + over)
      expect(live('key')).toBeUndefined()
      expect(calls).toHaveLength(1)
    },
  )

  it('is found under its own key alone', async () => {
    const { calls, answer, get } = setUp()
    const [one, other] = [get('one'), get('other')]
    expect(calls).toHaveLength(2)
    calls[1]?.resolve(answer('for other'))
    calls[0]?.resolve(answer('for one'))
    await Promise.all([one.served, other.served])
    expect(await get('one').served).toMatchObject({ how: 'hit', quote: { id: 'for one' } })
    expect(await get('other').served).toMatchObject({ how: 'hit', quote: { id: 'for other' } })
  })
})

describe('a call', () => {
  it('is removed from the table at once when the last waiting client leaves', async () => {
    const { calls, answer, get } = setUp()
    const [first, second] = [get(), get()]
    first.leave()
    expect(calls[0]?.aborted).toBe(false)
    second.leave()
    expect(calls[0]?.aborted).toBe(true)
    // In the same tick: the call has been given up, but has not yet failed.
    const newcomer = get()
    expect(calls).toHaveLength(2)
    await expect(first.served).rejects.toThrow('given up')
    const joined = get()
    calls[1]?.resolve(answer('new'))
    expect(await newcomer.served).toMatchObject({ how: 'fetched' })
    // The end of the old call has not taken the new one out of the table.
    expect(await joined.served).toMatchObject({ how: 'collapsed' })
    expect(calls).toHaveLength(2)
    await expect(second.served).rejects.toThrow('given up')
  })

  it('is not given up if one caller leaves twice', () => {
    const { calls, get } = setUp()
    const [first] = [get(), get()]
    first?.leave()
    first?.leave()
    expect(calls[0]?.aborted).toBe(false)
  })

  it('that has been answered is not given up any more', async () => {
    const { calls, answer, get } = setUp()
    const asking = get()
    calls[0]?.resolve(answer('one'))
    await asking.served
    asking.leave()
    expect(calls[0]?.aborted).toBe(false)
  })

  it('that fails, fails for all who wait, is not kept, and does not block the next call', async () => {
    const { calls, answer, get } = setUp()
    const all = [get(), get(), get()]
    calls[0]?.reject(new Error('down'))
    for (const { served } of all) await expect(served).rejects.toThrow('down')
    const next = get()
    calls[1]?.resolve(answer('up'))
    expect(await next.served).toMatchObject({ how: 'fetched', answer: { body: Buffer.from('up') } })
  })

  it('whose answer must not be shared gives it to the first waiting client; the others call again', async () => {
    const { calls, answer, get, looked, notKept } = setUp()
    const [leaver, first, second] = [get(), get(), get()]
    leaver.leave()
    calls[0]?.resolve(answer('mine', alone('vary')))
    expect(await first.served).toMatchObject({ how: 'fetched', answer: { body: Buffer.from('mine') } })
    expect(calls).toHaveLength(2)
    calls[1]?.resolve(answer('own', alone('vary')))
    expect(await second.served).toMatchObject({ how: 'fetched', answer: { body: Buffer.from('own') } })
    expect(notKept).toEqual(['vary', 'vary'])
    // One count a request.
    expect(looked).toEqual(['miss', 'collapsed', 'collapsed'])
  })

  it('that a client makes again for itself keeps what may be kept after all', async () => {
    const { calls, answer, get } = setUp()
    const [first, second] = [get(), get()]
    calls[0]?.resolve(answer('mine', alone('vary')))
    await first.served
    calls[1]?.resolve(answer('kept'))
    await second.served
    expect(await get().served).toMatchObject({ how: 'hit', quote: { id: 'kept' } })
  })

  it('for a client that shares with no other joins no call, is joined by no other, and keeps nothing', async () => {
    const { cache, calls, source, answer, get, looked } = setUp()
    const alone = cache.fetchAlone(source)
    const other = get()
    expect(calls).toHaveLength(2)
    calls[0]?.resolve(answer('alone'))
    await alone.served
    calls[1]?.resolve(answer('other'))
    await other.served
    expect(await get().served).toMatchObject({ quote: { id: 'other' } })
    const leaving = cache.fetchAlone(source)
    leaving.leave()
    expect(calls[2]?.aborted).toBe(true)
    await expect(leaving.served).rejects.toThrow('given up')
    expect(looked).toEqual(['bypass', 'miss', 'hit', 'bypass'])
  })
})

it('an expired quote is not a miss in the counts, and an error is counted by its reason', async () => {
  const { clock, calls, answer, get, looked, notKept } = setUp()
  const first = get()
  calls[0]?.resolve(answer('one'))
  await first.served
  clock.advance(lifeMs)
  const second = get()
  calls[1]?.resolve(answer('no', alone('status')))
  await second.served
  expect(looked).toEqual(['miss', 'expired'])
  expect(notKept).toEqual(['status'])
})

it('a background fetch that all clients left continues, and its quote is kept', async () => {
  const { clock, calls, live, answer, get, refreshes } = setUp({ refreshAheadMs: 10_000 })
  const first = get()
  calls[0]?.resolve(answer('one'))
  await first.served
  clock.advance(lifeMs - 5_000)
  expect(live('key')?.id).toBe('one')
  clock.advance(5_000)
  const joined = get()
  joined.leave()
  expect(calls[1]?.aborted).toBe(false)
  calls[1]?.resolve(answer('two'))
  await joined.served
  expect(refreshes).toEqual(['stored'])
  expect(await get().served).toMatchObject({ how: 'hit', quote: { id: 'two' } })
})

it('a background fetch that failed is not tried again for the same quote, but for the next', async () => {
  const { clock, calls, live, answer, get, refreshes } = setUp({ refreshAheadMs: 10_000 })
  const first = get()
  calls[0]?.resolve(answer('one'))
  await first.served
  clock.advance(lifeMs - 5_000)
  live('key')
  calls[1]?.reject(new Error('down'))
  await new Promise((resolve) => setImmediate(resolve))
  expect(live('key')?.id).toBe('one')
  expect(calls).toHaveLength(2)
  clock.advance(5_000)
  const second = get()
  calls[2]?.resolve(answer('two'))
  await second.served
  clock.advance(lifeMs - 5_000)
  live('key')
  expect(calls).toHaveLength(4)
  expect(refreshes).toEqual(['failed'])
})

describe('a quote that another replica has fetched', () => {
  const found = (expiresAtMs: number) => ({
    id: 'found',
    body: '{}',
    headers: [],
    lifeMs: 0,
    expiresAtMs,
    end: endAt(expiresAtMs),
  })

  it('is kept and served as a hit to all who wait, counted apart, and each request that asked is notified', async () => {
    const { promise, resolve } = deferred<{ found: true; stored: StoredQuote; notKept: undefined }>()
    const { cache, clock, calls, source, live, looked } = setUp({
      share: () => promise,
    })
    const told: string[] = []
    const telling = { ...source, found: ({ id }: StoredQuote) => told.push(id) }
    const both = [cache.getOrFetch('key', telling), cache.getOrFetch('key', telling)]
    resolve({ found: true, stored: found(clock.nowMs() + lifeMs), notKept: undefined })
    for (const { served } of both) expect(await served).toMatchObject({ how: 'hit', quote: { id: 'found' } })
    expect(live('key')?.id).toBe('found')
    expect([looked, told, calls.length]).toEqual([['collapsed', 'shared', 'hit'], ['found'], 0])
  })

  it('is not looked for where a client shares with no other', () => {
    let shares = 0
    const { cache, calls, source } = setUp({
      share: (_key, make) => {
        shares += 1
        return make()
      },
    })
    void cache.fetchAlone(source)
    expect([calls.length, shares]).toEqual([1, 0])
    void cache.getOrFetch('key', source)
    expect([calls.length, shares]).toEqual([2, 1])
  })
})
