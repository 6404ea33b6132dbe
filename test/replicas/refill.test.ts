import { afterEach, expect, it, vi } from 'vitest'
import { Ledger } from '../../src/orders/ledger.ts'
import type { NotedQuote } from '../../src/orders/noted-quote.ts'
import { readOrder } from '../../src/orders/order-terms.ts'
import { createSharedLedger } from '../../src/replicas/shared-ledger.ts'
import type { SharedStore } from '../../src/replicas/store.ts'
import { pause } from '../support/gateways/between.ts'

const startMs = 1_763_651_841_481
const given = { application: 'wallet', partition: 'own' }
const orderer = { ...given, isAddress: true }

/** A replica on a store that only remembers what is written to it, and answers when the test lets it. */
function replica() {
  let nowMs = startMs
  let up = () => {}
  const writes: { id: string; answer: () => void; refuse: () => void }[] = []
  let holds = false
  const client = {
    callBuffer(_command: string, _digest: string, _keys: number, _key: string, _field: string, note: string) {
      return new Promise((resolve, reject) => {
        const answer = () => resolve([])
        if (holds)
          writes.push({ id: JSON.parse(note)[0], answer, refuse: () => reject(new Error('WRONGTYPE')) })
        else answer()
      })
    },
  }
  const mark = { set: 0, isThere: false, looks: 0 }
  const marks = {
    async set() {
      mark.set += 1
    },
    async exists() {
      mark.looks += 1
      return Number(mark.isThere)
    },
  }
  const sharedStore = {
    keyPrefix: 'test:',
    salt: '',
    onUp: (callback: () => void) => {
      up = callback
    },
    run(operation: string, commands: (client: never) => Promise<unknown>) {
      if (operation === 'ledger-recall') return Promise.resolve([nowMs, []])
      return commands((operation === 'ledger-refill' ? marks : client) as never).catch(() => undefined)
    },
  } as unknown as SharedStore
  const clock = { nowMs: () => nowMs }
  const retentionMs = 86_400_000
  const ledger = new Ledger({ entries: 20_000, retentionMs, clock })
  const shared = createSharedLedger({ sharedStore, ledger, clock, retentionMs, settleMs: 0 })
  let count = 0
  const give = async (lifeMs: number): Promise<string> => {
    count += 1
    const expiresAtMs = nowMs + lifeMs
    const quote: NotedQuote = {
      ...{ id: `q${count}`, pairId: 'A_B', fromValue: `${count}`, requestedAmount: `${count}`, toValue: '2' },
      ...given,
      ...{ expiresAtMs, refusedFromMs: expiresAtMs, wallAheadMs: 0, cacheKey: '', notedAtMs: nowMs },
    }
    await shared.note(quote)
    return quote.id
  }
  return {
    shared,
    mark,
    give,
    writes,
    advance: (ms: number) => {
      nowMs += ms
    },
    loseEverything() {
      holds = true
      up()
    },
  }
}

const fieldsOfAQuote = 4
const order = orderOf('{"pairId":"A_B","fromAmount":1}')

function orderOf(text: string) {
  const { order } = readOrder(Buffer.from(text), { quoteIdFields: [] })
  if (order === undefined) throw new Error('no order')
  return order
}

afterEach(() => void vi.useRealTimers())

it('fills a store that came back empty, live quotes first, then the newest, sixteen at a time', async () => {
  const { shared, give, writes, advance, loseEverything } = replica()
  const long = await give(60_000)
  const over: string[] = []
  for (let index = 0; index < 40; index += 1) over.push(await give(1_000))
  const last = await give(60_000)
  advance(1_000)
  expect(await shared.recall(order, orderer)).toBe(true)

  loseEverything()
  const written: string[] = []
  const expected = [last, long, ...over.reverse()]
  while (written.length < expected.length) {
    await pause(0)
    // Until all of it is there, nothing is refused by its terms.
    expect(await shared.recall(order, orderer)).toBe(false)
    const batch = writes.splice(0)
    expect(batch.length).toBeLessThanOrEqual(16 * fieldsOfAQuote)
    written.push(...new Set(batch.map(({ id }) => id)))
    for (const { answer } of batch) answer()
  }
  expect(written).toEqual(expected)
  await pause(0)
  expect(await shared.recall(order, orderer)).toBe(true)
})

it('continues after a write that the store refused, and tries that write once more', async () => {
  const { shared, give, writes, loseEverything } = replica()
  for (let index = 0; index < 20; index += 1) await give(60_000)
  loseEverything()
  const written: string[] = []
  let refused = false
  const goOn = async () => {
    await pause(0)
    for (const { id, answer, refuse } of writes.splice(0)) {
      if (id === 'q10' && !refused) {
        refused = true
        refuse()
      } else {
        written.push(id)
        answer()
      }
    }
  }
  while (written.length < 20 * fieldsOfAQuote + fieldsOfAQuote - 1) {
    expect(await shared.recall(order, orderer)).toBe(false)
    await goOn()
  }
  await pause(0)
  expect(await shared.recall(order, orderer)).toBe(true)
  expect(new Set(written).size).toBe(20)
})

it('writes again the last 10,000 quotes that it gave out', async () => {
  const { give, writes, loseEverything } = replica()
  for (let index = 0; index < 10_005; index += 1) await give(1_000)
  loseEverything()
  const ids = new Set<string>()
  for (let turn = 0; turn < 700; turn += 1) {
    for (const { id, answer } of writes.splice(0)) {
      ids.add(id)
      answer()
    }
    await pause(0)
  }
  expect(ids.size).toBe(10_000)
  expect(['q5', 'q6', 'q10005'].map((id) => ids.has(id))).toEqual([false, true, true])
})

it('is over when no replica has its mark in the store any more, and the mark is not looked for again', async () => {
  const { shared, give, writes, mark, loseEverything } = replica()
  await give(60_000)
  expect([await shared.recall(order, orderer), mark.set]).toEqual([true, 0])
  mark.isThere = true
  loseEverything()
  expect(mark.set).toBe(1)
  for (const { answer } of writes.splice(0)) answer()
  await pause(0)
  for (let turn = 0; turn < 3; turn += 1) expect(await shared.recall(order, orderer)).toBe(false)
  mark.isThere = false
  expect(await shared.recall(order, orderer)).toBe(true)
  const { looks } = mark
  mark.isThere = true
  expect([await shared.recall(order, orderer), mark.looks]).toEqual([true, looks])
})

it('may be in progress when a replica starts, which has nothing to write', async () => {
  const { shared, mark, loseEverything } = replica()
  mark.isThere = true
  expect(await shared.recall(order, orderer)).toBe(false)
  loseEverything()
  expect([await shared.recall(order, orderer), mark.set]).toEqual([false, 0])
  mark.isThere = false
  expect(await shared.recall(order, orderer)).toBe(true)
})

it('sets its mark again and again until all is written, however long that takes', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  const { give, writes, mark, loseEverything } = replica()
  await give(60_000)
  loseEverything()
  vi.advanceTimersByTime(60_000)
  expect(mark.set).toBe(61)
  // The store was lost again, so the first pass ends and a second one goes on.
  loseEverything()
  for (const { answer } of writes.splice(0)) answer()
  await pause(0)
  expect([mark.set, vi.getTimerCount()]).toEqual([62, 0])
})
