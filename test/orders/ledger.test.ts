import { describe, expect, it } from 'vitest'
import { completeClock } from '../../src/clock.ts'
import type { NotedQuote } from '../../src/journal/journal.ts'
import { type Asked, decide } from '../../src/orders/guard.ts'
import { Ledger } from '../../src/orders/ledger.ts'
import { type OrderTerms, readOrder } from '../../src/orders/order-terms.ts'

/** What the ledger keeps, and for how long. The guard's model (test/property) and test/promises say which quote decides. */
const EXPIRY = 1_763_651_841_481
const NOTED = EXPIRY - 30_000
const RETENTION = 86_400_000
const LONG = 900_000

/** Of an answer that agreed with our clock: its two ends are its expiry. */
type Given = Omit<NotedQuote, 'refusedFromMs' | 'wallAheadMs'>

const quote: Given = {
  id: 'q1',
  pairId: 'ETH_USDC',
  fromValue: '0.1',
  toValue: '289.645',
  requestedAmount: '0.1',
  application: 'wallet',
  partition: 'own',
  expiresAtMs: EXPIRY,
  cacheKey: 'key 1',
  notedAtMs: NOTED,
}

interface At extends Asked {
  nowMs: number
}

/** A ledger whose clock shows what each call says. */
function ledgerOf(quotes: readonly Given[], entries = 1_000) {
  let nowMs = NOTED
  const ledger = new Ledger({ entries, retentionMs: RETENTION, clock: completeClock({ nowMs: () => nowMs }) })
  const note = (given: Given) => ledger.note({ ...given, refusedFromMs: given.expiresAtMs, wallAheadMs: 0 })
  for (const given of quotes) note(given)
  return {
    ledger,
    findById: (id: string) => ledger.findById(id),
    note(given: Given, atMs: number) {
      nowMs = atMs
      note(given)
    },
    noteUnreadable(atMs: number) {
      nowMs = atMs
      const { pairId, application, partition, requestedAmount } = quote
      ledger.note(ledger.unreadable({ pairId, application, partition, requestedAmount }))
    },
    verdict(terms: OrderTerms, at: At) {
      nowMs = at.nowMs
      return decide(ledger, terms, at, ledger.now())
    },
  }
}

function order(json: object | string): OrderTerms {
  const text = typeof json === 'string' ? json : JSON.stringify(json)
  const reading = readOrder(Buffer.from(text), { quoteIdFields: ['quoteId', 'quote.id', 'id'] })
  if (reading.order === undefined) throw new Error(reading.problem)
  return reading.order
}

const at = (nowMs: number, marginMs = 0): At => ({
  application: 'wallet',
  partition: 'own',
  isAddress: true,
  othersKnown: true,
  nowMs,
  marginMs,
})
const byId = order({ quoteId: 'q1' })
const byTerms = order({ pairId: 'ETH_USDC', fromAmount: 0.1, toAmount: 289.645 })
const openTerms = order({ pairId: 'ETH_USDC', fromAmount: 0.1 })

describe('the terms', () => {
  it('do not merge with their neighbours', () => {
    const odd = { ...quote, pairId: 'A', application: 'B 1' }
    const asked = order({ pairId: 'A B', fromAmount: 0.1, toAmount: 289.645 })
    expect(ledgerOf([odd]).verdict(asked, { ...at(NOTED), application: '1' }).state).toBe('unknown')
  })

  it('distinguish amounts that share a double, if the order does', () => {
    const even = '9007199254740992'
    const odd = '9007199254740993'
    const ledger = ledgerOf([
      { ...quote, id: 'even', fromValue: even, requestedAmount: even },
      { ...quote, id: 'odd', fromValue: odd, requestedAmount: odd, expiresAtMs: EXPIRY + 1 },
    ])
    const verdictOn = (amount: string) =>
      ledger.verdict(order(`{"pairId":"ETH_USDC","fromAmount":${amount}}`), at(EXPIRY))
    expect(verdictOn(`"${even}"`)).toMatchObject({ state: 'expired', quote: { id: 'even' } })
    expect(verdictOn(odd)).toMatchObject({ state: 'live', quote: { id: 'odd' } })
    expect(verdictOn(even)).toMatchObject({ state: 'live', quote: { id: 'odd' } })
  })

  it.each(['toValue', 'requestedAmount'] as const)('distinguish two of %s that share a double', (field) => {
    const even = '9007199254740992'
    const odd = '9007199254740993'
    const ledger = ledgerOf([
      { ...quote, id: 'even', [field]: even },
      { ...quote, id: 'odd', [field]: odd, expiresAtMs: EXPIRY + 1 },
    ])
    const named = field === 'toValue' ? 'toAmount' : 'fromAmount'
    const verdictOn = (amount: string) =>
      ledger.verdict(order({ pairId: 'ETH_USDC', fromAmount: 0.1, [named]: amount }), at(EXPIRY))
    expect(verdictOn(even)).toMatchObject({ state: 'expired', quote: { id: 'even' } })
    expect(verdictOn(odd)).toMatchObject({ state: 'live', quote: { id: 'odd' } })
  })

  it('that share a double are bounded: the last 64 amounts are found', () => {
    const shared = Array.from({ length: 1_000 }, (_, index) => {
      const fromValue = `0.1${'0'.repeat(20)}${index + 1}1`
      return { ...quote, id: `s${index}`, fromValue, requestedAmount: fromValue, expiresAtMs: EXPIRY + index }
    })
    const ledger = ledgerOf(shared)
    const exactly = (index: number) =>
      order({ pairId: 'ETH_USDC', fromAmount: `0.1${'0'.repeat(20)}${index + 1}1` })
    expect(ledger.verdict(openTerms, at(EXPIRY))).toMatchObject({ state: 'live', quote: { id: 's999' } })
    expect(ledger.verdict(exactly(936), at(EXPIRY)).state).toBe('live')
    expect(ledger.verdict(exactly(935), at(EXPIRY)).state).toBe('unknown')
  })

  it('that share a double with an amount that is quoted all day are not pushed out by its quotes', () => {
    const rare = { ...quote, id: 'rare', fromValue: '0.1000000000000000000001', expiresAtMs: EXPIRY - 1 }
    const often = Array.from({ length: 200 }, (_, index) => ({ ...quote, id: `o${index}` }))
    const exactly = order({ pairId: 'ETH_USDC', fromAmount: rare.fromValue })
    expect(ledgerOf([rare, ...often]).verdict(exactly, at(NOTED))).toMatchObject({ quote: { id: 'rare' } })
  })
})

describe('a quote that is noted again', () => {
  it('is one entry, and with a later expiry another quote', () => {
    const ledger = ledgerOf([quote, quote])
    expect(ledger.ledger.size).toBe(1)
    ledger.note({ ...quote, expiresAtMs: EXPIRY + 10, cacheKey: 'key 2' }, NOTED)
    expect(ledger.ledger.size).toBe(2)
    expect(ledger.findById('q1')).toMatchObject({ expiresAtMs: EXPIRY + 10, cacheKey: 'key 2' })
    expect(ledger.verdict(byTerms, at(EXPIRY + 9)).state).toBe('live')
  })

  it('keeps the time when it was first noted', () => {
    const ledger = ledgerOf([
      { ...quote, notedAtMs: NOTED },
      { ...quote, notedAtMs: NOTED + 5 },
    ])
    expect(ledger.verdict(byId, at(NOTED + 5))).toMatchObject({ quote: { notedAtMs: NOTED } })
  })

  it('with other terms under its old id is found by both', () => {
    const ledger = ledgerOf([quote, { ...quote, toValue: '300', expiresAtMs: EXPIRY + 5 }])
    const others = order({ pairId: 'ETH_USDC', fromAmount: 0.1, toAmount: 300 })
    expect(ledger.verdict(byTerms, at(EXPIRY)).state).toBe('expired')
    expect(ledger.verdict(others, at(EXPIRY)).state).toBe('live')
    expect(ledger.verdict(byId, at(EXPIRY)).state).toBe('live')
  })
})

it('a quote that had expired when it came says nothing of how long an unreadable one lives', () => {
  const ledger = ledgerOf([{ ...quote, expiresAtMs: NOTED - 1 }])
  ledger.noteUnreadable(NOTED + 1)
  expect(ledger.verdict(byTerms, at(NOTED + 300_000))).toEqual({ state: 'unknown', rule: 'unreadable' })
  expect(ledger.verdict(byTerms, at(NOTED + 300_001))).toMatchObject({ state: 'expired' })
})

it('an unreadable quote lives as long as the longest-lived of the last 100 quotes', () => {
  const ledger = ledgerOf([{ ...quote, id: 'long', pairId: 'A_B', expiresAtMs: NOTED + 90_000 }, quote])
  ledger.noteUnreadable(NOTED)
  expect(ledger.verdict(byTerms, at(NOTED + 89_999)).rule).toBe('unreadable')
  expect(ledger.verdict(byTerms, at(NOTED + 90_000)).rule).toBe('exact')
  for (let index = 0; index < 100; index += 1)
    ledger.note({ ...quote, id: `n${index}`, pairId: 'A_B' }, NOTED + 90_000)
  ledger.noteUnreadable(NOTED + 90_000)
  expect(ledger.verdict(byTerms, at(NOTED + 119_999)).rule).toBe('unreadable')
  expect(ledger.verdict(byTerms, at(NOTED + 120_000)).rule).toBe('exact')
})

// Of quotes with equal amounts the one that ends last stands for all, so it once depended on which one that was.
it.each([1_000, -1_000])(
  'a quote that another client was given after an unreadable one, and that ended %i ms later, refuses no order',
  (laterMs) => {
    const ledger = ledgerOf([quote])
    ledger.noteUnreadable(EXPIRY - 2_000)
    const others = { id: 'q2', partition: 'another', expiresAtMs: EXPIRY + laterMs }
    ledger.note({ ...quote, ...others, notedAtMs: EXPIRY - 1_999 }, EXPIRY - 1_999)
    expect(ledger.verdict(byTerms, at(EXPIRY + 1_000))).toEqual({ state: 'unknown', rule: 'unreadable' })
  },
)

describe('the bounds', () => {
  const numbered = (count: number, expiresAtMs: (index: number) => number) =>
    Array.from({ length: count }, (_, index) => ({
      ...quote,
      id: `n${index}`,
      expiresAtMs: expiresAtMs(index),
    }))

  it('hold, and drop what was noted first', () => {
    const ledger = ledgerOf(
      numbered(50, (index) => EXPIRY + ((index * 37) % 50)),
      10,
    )
    expect(ledger.ledger.size).toBe(10)
    for (let index = 0; index < 50; index += 1)
      expect(ledger.findById(`n${index}`) !== undefined).toBe(index >= 40)
  })

  it('remove dropped quotes from every index', () => {
    const ledger = ledgerOf([quote, { ...quote, id: 'q2', pairId: 'A_B', expiresAtMs: EXPIRY + 1 }], 1)
    for (const gone of [byId, byTerms, openTerms])
      expect(ledger.verdict(gone, at(NOTED)).state).toBe('unknown')
  })

  it('drop entries past their retention, a few at a time', () => {
    const ledger = ledgerOf(numbered(40, (index) => EXPIRY + index))
    const nowMs = EXPIRY + RETENTION + 40
    for (let notes = 0; notes < 10; notes += 1) {
      ledger.note({ ...quote, id: `late${notes}`, expiresAtMs: nowMs + 1 }, nowMs)
    }
    expect(ledger.ledger.size).toBe(10)
    expect(ledger.findById('n39')).toBeUndefined()
  })

  it('drop the cache key once the quote has expired, but keep the quote', () => {
    const ledger = ledgerOf([quote])
    ledger.note({ ...quote, id: 'q2', expiresAtMs: EXPIRY + LONG + 1 }, EXPIRY + LONG)
    expect(ledger.findById('q1')).toMatchObject({ id: 'q1', cacheKey: '' })
    expect(ledger.verdict(byId, at(EXPIRY + LONG))).toMatchObject({ state: 'expired', expiredForMs: LONG })
  })
})

it('the cache key of a quote is forgotten when the quote has expired', () => {
  const ledger = ledgerOf([], 100)
  const note = (id: string, cacheKey: string, expiresAtMs: number, nowMs: number) =>
    ledger.note(
      {
        id,
        pairId: 'A_B',
        fromValue: '1',
        requestedAmount: '1',
        toValue: '2',
        application: 'a',
        partition: 'own',
        expiresAtMs,
        cacheKey,
        notedAtMs: nowMs,
      },
      nowMs,
    )
  for (let client = 0; client < 5; client += 1) note('one for all', `client ${client}`, 30_000, 0)
  note('later', 'client', 2_000_000, 1_970_000)
  expect(ledger.findById('one for all')).toBeDefined()
  expect(ledger.ledger.cacheKeysOf('one for all')).toEqual([])
})

it('of a quote with several clients every cache key is remembered, as an entry of its own', () => {
  const ledger = ledgerOf([], 100)
  const placesOf = (id: string) => ledger.ledger.cacheKeysOf(id).length
  const give = (id: string, clients: number) => {
    for (let client = 0; client < clients; client += 1)
      ledger.note({ ...quote, id, fromValue: id, cacheKey: `client ${client} ${clients}` }, NOTED)
  }
  for (const id of ['1', '2', '3']) give(id, 30)
  expect(['1', '2', '3'].map(placesOf)).toEqual([30, 30, 30])
  give('1', 5)
  give('4', 20)
  expect(['1', '2', '3', '4'].map(placesOf)).toEqual([20, 30, 30, 20])
  give('5', 500)
  expect(['1', '2', '3', '4', '5'].map(placesOf)).toEqual([0, 0, 0, 0, 100])
})

const priced = (toAmount: number) => order({ pairId: 'ETH_USDC', fromAmount: 0.1, toAmount })

it('of one terms the last 1,000 prices count, and all are found by their amount or id', () => {
  const prices = Array.from({ length: 1_001 }, (_, index) => ({
    ...quote,
    id: `p${index}`,
    partition: 'another',
    toValue: `${1_000 + index}.5678`,
    expiresAtMs: EXPIRY + (index === 0 ? 60_000 : 0),
  }))
  const ledger = ledgerOf(prices.slice(0, 1_000), 2_000)
  expect(ledger.verdict(openTerms, at(EXPIRY)).rule).toBe('pays')
  ledger.note(prices[1_000] ?? quote, EXPIRY)
  // The first, which is live, is not among the last 1,000 any more.
  expect(ledger.verdict(openTerms, at(EXPIRY))).toMatchObject({ state: 'expired', rule: 'none' })
  expect(ledger.verdict(order({ quoteId: 'p0' }), at(EXPIRY)).state).toBe('live')
  expect(ledger.verdict(priced(1_000.5678), at(EXPIRY))).toMatchObject({ state: 'live', rule: 'exact' })
})

it('what a full ledger drops refuses nothing, also a price that was not among the last 1,000', () => {
  const prices = Array.from({ length: 1_600 }, (_, index) => ({
    ...quote,
    id: `p${index}`,
    partition: 'another',
    toValue: `${1_000 + index}.5678`,
  }))
  const ledger = ledgerOf(prices.slice(0, 1_500), 1_500)
  const first = () => ledger.verdict(priced(1_000.5678), at(EXPIRY + 1)).state
  expect(first()).toBe('expired')
  for (const given of prices.slice(1_500)) ledger.note(given, EXPIRY)
  expect(first()).toBe('unknown')
})
