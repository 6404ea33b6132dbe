import { describe, expect, it } from 'vitest'
import type { Lookup } from '../../src/events.ts'
import type { Turn } from '../../src/quotes/ports.ts'
import type { Quote } from '../../src/quotes/quote.ts'
import { QuoteStage, type StageOptions } from '../support/clients/quote-stage.ts'
import { createTestClock, deferred, endAt, quoteBody } from '../support/clients/quotes.ts'
import { aQuote } from '../support/stores/a-quote.ts'

const lifeMs = 30_000

/** The route with calls that the test answers. Who shares which call, leaves it or fails with it: test/property/further-call. */
function setUp(options: Omit<StageOptions, 'clock'> = {}) {
  const clock = createTestClock()
  const looked: Lookup[] = []
  const notKept: string[] = []
  const refreshes: string[] = []
  const stage = new QuoteStage({
    clock,
    ...options,
    listener: {
      quoteLookedUp: (result) => void looked.push(result),
      quoteServed: (_pair, _leftMs, _nowMs, found) =>
        void (found !== undefined && looked.push(found)),
      quoteNotKept: (reason) => void notKept.push(reason),
      quoteRefreshed: (outcome) => void refreshes.push(outcome),
    },
  })
  const quote = (id: string) =>
    quoteBody({
      id,
      expiry: clock.nowMs() + lifeMs,
      fromAmount: { assetId: 'ETH', value: '1' },
    })
  const get = (amount = '1') => stage.ask({ amount })
  /** The id of the quote that is answered, and how. */
  async function told({ answer }: ReturnType<typeof get>) {
    const { how, body } = await answer
    return [how, JSON.parse(body).id]
  }
  /** A caller asks, and its call is answered. */
  async function fetched(id: string) {
    const asked = get()
    stage.calls.at(-1)?.answer(quote(id))
    await asked.answer
  }
  return {
    stage,
    calls: stage.calls,
    clock,
    quote,
    get,
    fetched,
    told,
    looked,
    notKept,
    refreshes,
  }
}

const mine = { headers: ['Vary', '*'] }
const turn = () => new Promise((resolve) => setImmediate(resolve))

describe('a call', () => {
  it('that a request makes again for itself keeps what may be kept after all', async () => {
    const { calls, quote, get, told } = setUp()
    const [first, second] = [get(), get()]
    calls[0]?.answer(quote('mine'), mine)
    await first.answer
    calls[1]?.answer(quote('kept'))
    await second.answer
    expect(await told(get())).toEqual(['hit', 'kept'])
  })

  it('for a user who shares with no other joins no call, is joined by no other, and keeps nothing', async () => {
    const { stage, calls, quote, looked, told } = setUp({
      partitionOf: ({ address }) => address,
    })
    const alone = stage.ask()
    const other = stage.ask({ address: '203.0.113.7' })
    expect(calls).toHaveLength(2)
    calls[0]?.answer(quote('alone'))
    expect(await told(alone)).toEqual(['bypass', 'alone'])
    calls[1]?.answer(quote('other'))
    await other.answer
    expect(await told(stage.ask({ address: '203.0.113.7' }))).toEqual(['hit', 'other'])
    const leaving = stage.ask()
    leaving.leave()
    expect(calls[2]?.isGivenUp).toBe(true)
    await expect(leaving.answer).rejects.toThrow('waits no longer')
    expect(looked).toEqual(['bypass', 'miss', 'hit', 'bypass'])
  })

  it('has its answer noted before any caller has it, and keeps no quote that an order used meanwhile', async () => {
    const noted = deferred<void>()
    let isUsed = false
    const { calls, quote, get, told, notKept } = setUp({
      notes: { note: () => noted.promise, wasUsed: () => isUsed },
    })
    const asked = get()
    let isAnswered = false
    void asked.answer.then(() => {
      isAnswered = true
    })
    calls[0]?.answer(quote('one'))
    await turn()
    expect(isAnswered).toBe(false)
    isUsed = true
    noted.resolve()
    expect(await told(asked)).toEqual(['bypass', 'one'])
    expect(notKept).toEqual(['used'])
    get()
    expect(calls).toHaveLength(2)
  })

  it.each([
    [lifeMs - 1, 'one'],
    [lifeMs, 'two'],
  ])(
    'whose quote is %i ms old once it is noted is answered with quote %s',
    async (ageMs, id) => {
      const noted = deferred<void>()
      const { clock, calls, quote, get, told } = setUp({
        notes: { note: () => noted.promise },
      })
      const asked = get()
      calls[0]?.answer(quote('one'))
      await turn()
      clock.advance(ageMs)
      noted.resolve()
      await turn()
      calls[1]?.answer(quote('two'))
      expect((await told(asked))[1]).toBe(id)
    },
  )

  it('that ends while its body comes is asked for again, by all who wait', async () => {
    const { clock, calls, quote, get, told } = setUp()
    const both = [get(), get()]
    calls[0]?.answer(quote('one'), { meanwhile: () => clock.advance(lifeMs) })
    await turn()
    calls[1]?.answer(quote('two'))
    for (const asked of both) expect((await told(asked))[1]).toBe('two')
    expect(calls).toHaveLength(2)
  })

  it('that is given up takes its successor from no request', async () => {
    const { calls, get } = setUp()
    const first = get()
    first.leave()
    get()
    await expect(first.answer).rejects.toThrow('waits no longer')
    await turn()
    get()
    expect(calls).toHaveLength(2)
  })
})

it('an expired quote is not a miss in the counts, and an error is counted by its reason', async () => {
  const { clock, calls, get, fetched, looked, notKept } = setUp()
  await fetched('one')
  clock.advance(lifeMs)
  const second = get()
  calls[1]?.answer('{}', { status: 500 })
  await second.answer
  expect(looked).toEqual(['miss', 'expired'])
  expect(notKept).toEqual(['status'])
})

describe('a refresh', () => {
  it('that all callers left continues, and its quote is kept', async () => {
    const { clock, calls, quote, get, fetched, told, refreshes } = setUp({
      quotes: { refreshAheadMs: 10_000 },
    })
    await fetched('one')
    clock.advance(lifeMs - 5_000)
    expect(await told(get())).toEqual(['hit', 'one'])
    clock.advance(5_000)
    const joined = get()
    joined.leave()
    await expect(joined.answer).rejects.toThrow('waits no longer')
    expect(calls[1]?.isGivenUp).toBe(false)
    calls[1]?.answer(quote('two'))
    await turn()
    expect(refreshes).toEqual(['stored'])
    expect(await told(get())).toEqual(['hit', 'two'])
  })

  it('that failed is not tried again for the same quote, but for the next', async () => {
    const { clock, calls, get, fetched, told, refreshes } = setUp({
      quotes: { refreshAheadMs: 10_000 },
    })
    await fetched('one')
    clock.advance(lifeMs - 5_000)
    get()
    calls[1]?.fail(new Error('down'))
    await turn()
    expect(await told(get())).toEqual(['hit', 'one'])
    expect(calls).toHaveLength(2)
    clock.advance(5_000)
    await fetched('two')
    clock.advance(lifeMs - 5_000)
    get()
    expect(calls).toHaveLength(4)
    expect(refreshes).toEqual(['failed'])
  })

  it('follows a refresh by half a life, at least', async () => {
    const { clock, calls, quote, get, fetched } = setUp({
      quotes: { refreshAheadMs: 2 * lifeMs },
    })
    await fetched('one')
    get()
    calls[1]?.answer(quote('two'))
    await turn()
    clock.advance(lifeMs / 2)
    get()
    expect(calls).toHaveLength(2)
    clock.advance(1)
    get()
    expect(calls).toHaveLength(3)
  })
})

describe('a quote that another replica has fetched', () => {
  it('is kept, noted once, and served as a hit to all who wait, and counted apart', async () => {
    const { promise, resolve } = deferred<Quote>()
    const noted: string[] = []
    const { clock, calls, get, told, looked } = setUp({
      sharedQuotes: {
        look: async () => ({ kind: 'found', quote: await promise }),
        forget: async () => {},
      },
      notes: { noteFound: ({ id }) => void noted.push(id) },
    })
    const both = [get(), get()]
    const expiresAtMs = clock.nowMs() + lifeMs
    resolve(aQuote({ id: 'found', expiresAtMs, end: endAt(expiresAtMs) }))
    for (const asked of both) expect(await told(asked)).toEqual(['hit', 'found'])
    expect(await told(get())).toEqual(['hit', 'found'])
    expect([looked, noted, calls.length]).toEqual([
      ['collapsed', 'shared', 'hit'],
      ['found'],
      0,
    ])
  })

  /** Of this one: the store has no quote. */
  function noted() {
    const did: string[] = []
    const turn: Turn = {
      kind: 'turn',
      spare: undefined,
      waited: false,
      put: () => did.push('put'),
      release: () => did.push('release'),
    }
    const look = async () => {
      did.push('look')
      return turn
    }
    return { did, sharedQuotes: { look, forget: async () => {} } }
  }

  it('is not looked for where a user shares with no other', async () => {
    const { did, sharedQuotes } = noted()
    const { stage, calls } = setUp({
      partitionOf: ({ address }) => address,
      sharedQuotes,
    })
    stage.ask()
    expect([calls.length, did]).toEqual([1, []])
    stage.ask({ address: '203.0.113.7' })
    await turn()
    expect([calls.length, did]).toEqual([2, ['look']])
  })

  it.each([
    ['a quote is put', 'quote', ['look', 'put', 'release']],
    ['any other answer is not', 'error', ['look', 'release']],
    ['nothing is after a failure', 'failure', ['look', 'release']],
  ])(
    'or that this one fetches under the lock: %s, and the lock is given back',
    async (_what, how, done) => {
      const { did, sharedQuotes } = noted()
      const { calls, quote, get } = setUp({ sharedQuotes })
      const asked = get()
      await turn()
      if (how === 'quote') calls[0]?.answer(quote('one'))
      else if (how === 'error') calls[0]?.answer('{}', { status: 500 })
      else calls[0]?.fail(new Error('down'))
      await asked.answer.catch(() => {})
      expect(did).toEqual(done)
    },
  )
})
