import { describe, expect, it } from 'vitest'
import { completeClock } from '../../src/clock.ts'
import { Ledger } from '../../src/memory/ledger.ts'
import { FloatOrder } from '../../src/orders/guard.ts'
import { readOrder } from '../../src/orders/order-terms.ts'
import type { Note } from '../../src/quotes/note.ts'
import { createTestClock, endAt } from '../support/clients/quotes.ts'
import { keptLog, levels } from '../support/observing/log-lines.ts'

/** What the ledger keeps, and for how long. The guard's model (test/property) and test/promises say which quote decides. */
const expiry = 1_763_651_841_481
const noted = expiry - 30_000
const retentionMs = 86_400_000

const quote = {
  id: 'q1',
  pairId: 'ETH_USDC',
  fromValue: '0.1',
  toValue: '289.645',
  hasNumbers: false,
  requestedAmount: '0.1',
  application: 'wallet',
  partition: 'own',
  expiresAtMs: expiry,
  cacheKey: 'key 1',
}
/** Of an answer that agreed with our clock: its two ends are its expiry. */
type Given = Partial<Note>

/** A ledger whose clock shows what each call says. */
function ledgerOf(quotes: readonly Given[], entries = 200_000) {
  let nowMs = noted
  const ledger = new Ledger({
    entries,
    clock: completeClock({ nowMs: () => nowMs }),
  })
  const note = (given: Given, atMs = nowMs) => {
    nowMs = atMs
    const whole = { ...quote, notedAtMs: nowMs, ...given }
    return ledger.note({ refusedFromMs: whole.expiresAtMs, wallAheadMs: 0, ...whole })
  }
  for (const given of quotes) note(given)
  return {
    ledger,
    note,
    noteUnreadable(atMs: number) {
      nowMs = atMs
      const { pairId, application, partition, requestedAmount } = quote
      ledger.note(ledger.unreadable({ pairId, application, partition, requestedAmount }))
    },
    /** What is decided of an order with these members, and by which quote. */
    judge(members: string, atMs: number, application = 'wallet') {
      nowMs = atMs
      const { order } = readOrder(Buffer.from(`{${members}}`), {
        quoteIdFields: ['quoteId'],
      })
      if (order === undefined) throw new Error('not an order')
      const asked = {
        application,
        partition: 'own',
        isAddress: true,
        othersKnown: true,
        marginMs: 0,
      }
      const { verdict } = new FloatOrder(order, asked, ledger)
      return `${verdict.state} by ${verdict.rule}${'quote' in verdict ? `: ${verdict.quote.id}` : ''}`
    },
  }
}

const many = (count: number, given: (index: number) => Given) =>
  Array.from({ length: count }, (_, index) => given(index))
const named = '"quoteId":"q1"'
const open = '"pairId":"ETH_USDC","fromAmount":0.1'
const priced = `${open},"toAmount":289.645`

it('terms do not merge with their neighbours', () => {
  const ledger = ledgerOf([{ pairId: 'A', application: 'B 1' }])
  expect(ledger.judge('"pairId":"A B","fromAmount":0.1', noted, '1')).toBe(
    'unknown by none',
  )
})

describe('amounts with one nearest double', () => {
  const amountOf = (index: number) => `0.1${'0'.repeat(20)}${index + 1}1`
  const exactly = (index: number) =>
    `"pairId":"ETH_USDC","fromAmount":"${amountOf(index)}"`
  const shared = (count: number, given: Given = {}) =>
    many(count, (index) => {
      const amount = { fromValue: amountOf(index), requestedAmount: amountOf(index) }
      return { id: `s${index}`, ...amount, expiresAtMs: expiry + index, ...given }
    })

  it('are each found by their own decimal, and the last of all by the number', () => {
    const ledger = ledgerOf(shared(1_100))
    expect(ledger.judge(open, expiry)).toBe('live by pays: s1099')
    for (const index of [1, 99, 100])
      expect(ledger.judge(exactly(index), expiry)).toBe(`live by pays: s${index}`)
  })

  // A live order was refused, and late ones were sent, once a provider had answered one amount with 65 others.
  it('or that are answers to one amount are found by it', () => {
    const from = (index: number) => ({
      fromValue: `0.100${index + 1_000}`,
      requestedAmount: '0.1',
      partition: `${index}`,
    })
    const { judge, note } = ledgerOf(
      many(1_100, (index) => ({
        id: `f${index}`,
        ...from(index),
        toValue: `14.${1_000 + index}55`,
      })),
    )
    const stating = (toAmount: string) =>
      `"pairId":"ETH_USDC","fromAmount":"0.1","toAmount":"${toAmount}"`
    expect(judge(stating('14.110055'), expiry)).toBe('expired by exact: f100')
    expect(judge(stating('14.109955'), expiry)).toBe('expired by exact: f99')
    note({ id: 'again', ...from(0), toValue: '15.123456', expiresAtMs: expiry + 60_000 })
    expect(judge(stating('15.123456'), expiry)).toBe('live by exact: again')
  })

  it('do not hide the quotes of the usual one, which is quoted all day, nor are they pushed out by these', () => {
    const usual = many(200, (index) => ({ id: `u${index}` }))
    const ledger = ledgerOf([
      ...usual.slice(0, 1),
      ...shared(1, { toValue: '289' }),
      ...usual.slice(1),
    ])
    expect(ledger.judge(exactly(0), noted)).toBe('live by pays: s0')
    for (const given of shared(1_200, { toValue: '289', partition: 'another' }))
      ledger.note(given)
    for (const order of [
      priced,
      '"pairId":"ETH_USDC","fromAmount":"0.1","toAmount":"289.645"',
    ]) {
      expect(ledger.judge(order, noted)).toMatch('live by exact')
      expect(ledger.judge(order, expiry)).toMatch('expired by exact')
    }
  })
})

it('a quote that is noted again is one entry of the first time, and with a later expiry another quote', () => {
  const { ledger, note } = ledgerOf([{}, { notedAtMs: noted + 5 }])
  expect(ledger.size).toBe(1)
  expect(ledger.findById('q1')?.notedAtMs).toBe(noted)
  note({ expiresAtMs: expiry + 10, cacheKey: 'key 2' })
  expect(ledger.size).toBe(2)
  expect(ledger.findById('q1')).toMatchObject({
    expiresAtMs: expiry + 10,
    cacheKey: 'key 2',
  })
})

it('a quote that a full ledger has dropped does not come back when another one of its price gets a sooner end', () => {
  const { judge, note } = ledgerOf(
    [{ id: 'long', expiresAtMs: expiry + 60_000 }, { id: 'q2' }, { id: 'q3' }],
    2,
  )
  note({ id: 'q3', refusedFromMs: expiry - 5_000 })
  expect(
    judge('"pairId":"ETH_USDC","fromAmount":"0.1","toAmount":"289.645"', expiry + 1),
  ).toBe('expired by exact: q2')
})

it('a live quote decides though a full ledger has dropped one of its price and user that ended after it', () => {
  const ends = [100_000, 90_000, 10_000].map((ms) => noted + ms)
  const { judge } = ledgerOf(
    ends.map((expiresAtMs, index) => ({
      id: `q${index}`,
      expiresAtMs,
      toValue: index < 2 ? '14.5' : '14.6',
    })),
    2,
  )
  const stating = '"pairId":"ETH_USDC","fromAmount":"0.1","toAmount":"14.5"'
  expect(judge(stating, noted + 50_000)).toBe('live by exact: q1')
})

it('a quote that comes again with a sooner end costs no more among many live quotes than a look at each', () => {
  const { note } = ledgerOf(
    many(20_000, (index) => ({
      id: `q${index}`,
      partition: `${index}`,
      toValue: `${2_000 + (index % 1_000)}`,
    })),
  )
  const cpuUs = (work: () => void) => {
    const before = process.cpuUsage()
    work()
    return process.cpuUsage(before).user
  }
  note({ id: 'again' })
  const notingUs = cpuUs(() => {
    for (let index = 0; index < 20_000; index += 1)
      note({ id: `r${index}`, partition: `${index}` })
  })
  const againUs = cpuUs(() => note({ id: 'again', refusedFromMs: expiry - 1 }))
  expect(againUs).toBeLessThan(notingUs / 2)
})

it('an unreadable quote lives as long as the longest-lived of the last 100 quotes that lived when they came', () => {
  const ledger = ledgerOf([{ id: 'over', pairId: 'A_B', expiresAtMs: noted - 1 }])
  ledger.noteUnreadable(noted)
  expect(ledger.judge(priced, noted + 299_999)).toBe('unknown by unreadable')
  expect(ledger.judge(priced, noted + 300_000)).toBe('unknown by none')
  const later = noted + 300_000
  ledger.note({ id: 'long', pairId: 'A_B', expiresAtMs: later + 90_000 })
  for (const given of many(100, (index) => ({
    id: `n${index}`,
    pairId: 'A_B',
    expiresAtMs: later + 30_000,
  }))) {
    ledger.noteUnreadable(later)
    expect(ledger.judge(priced, later + 89_999)).toBe('unknown by unreadable')
    ledger.note(given, later)
  }
  ledger.noteUnreadable(later + 90_000)
  expect(ledger.judge(priced, later + 119_999)).toBe('unknown by unreadable')
  expect(ledger.judge(priced, later + 120_000)).toBe('unknown by none')
})

describe('the bounds', () => {
  it('hold, and drop what was noted first, out of every index', () => {
    const { ledger, judge } = ledgerOf(
      [
        {},
        ...many(50, (index) => ({
          id: `n${index}`,
          pairId: 'A_B',
          expiresAtMs: expiry + ((index * 37) % 50),
        })),
      ],
      10,
    )
    expect(ledger.size).toBe(10)
    const kept = many(50, (index) => ledger.findById(`n${index}`) ?? {}).map(
      ({ id }) => id,
    )
    expect(kept.filter((id) => id !== undefined)).toEqual(
      many(10, (index) => ({ id: `n${index + 40}` })).map(({ id }) => id),
    )
    expect([named, priced, open].map((order) => judge(order, noted))).toEqual([
      'unknown by id',
      'unknown by none',
      'unknown by none',
    ])
  })

  it('drop entries past their retention, a few at a time', () => {
    const { ledger, note } = ledgerOf(
      many(40, (index) => ({ id: `n${index}`, expiresAtMs: expiry + index })),
    )
    const nowMs = expiry + retentionMs + 40
    for (let notes = 0; notes < 10; notes += 1)
      note({ id: `late${notes}`, expiresAtMs: nowMs + 1 }, nowMs)
    expect(ledger.size).toBe(10)
    expect(ledger.findById('n39')).toBeUndefined()
  })

  it('drop the cache keys of a quote once it has expired, but keep the quote', () => {
    const { ledger, note, judge } = ledgerOf(
      many(5, (index) => ({ cacheKey: `client ${index}`, partition: `${index}` })),
    )
    expect(ledger.cacheKeysOf('q1')).toHaveLength(5)
    note({ id: 'q2', expiresAtMs: expiry + 900_001 }, expiry + 900_000)
    expect(ledger.cacheKeysOf('q1')).toEqual([])
    expect(judge(named, expiry + 900_000)).toBe('expired by id: q1')
  })

  it('count every cache key of a quote with several users as an entry of its own', () => {
    const { ledger, note } = ledgerOf([], 100)
    const give = (id: string, clients: number) => {
      for (let client = 0; client < clients; client += 1)
        note({ id, fromValue: id, cacheKey: `client ${client} ${clients}` })
      return ['1', '2', '3', '4', '5'].map((each) => ledger.cacheKeysOf(each).length)
    }
    for (const id of ['1', '2']) give(id, 30)
    expect(give('3', 30)).toEqual([30, 30, 30, 0, 0])
    give('1', 5)
    expect(give('4', 20)).toEqual([20, 30, 30, 20, 0])
    expect(give('5', 500)).toEqual([0, 0, 0, 0, 100])
  })
})

describe('of one pair and amount', () => {
  const price = (index: number) => `${1_000 + index}.5678`
  const prices = many(1_600, (index) => ({
    id: `p${index}`,
    partition: 'another',
    toValue: price(index),
  }))
  const first = `${open},"toAmount":${price(0)}`

  it('the last 1,000 prices are looked through, and all are found by their amount or id', () => {
    const ledger = ledgerOf(prices)
    const rounded = (index: number) => `${open},"toAmount":${price(index).slice(0, -1)}`
    expect(ledger.judge(rounded(600), expiry)).toBe('expired by none: p600')
    expect(ledger.judge(rounded(599), expiry)).toBe('unknown by none')
    expect(ledger.judge(first, expiry)).toBe('expired by exact: p0')
    expect(ledger.judge('"quoteId":"p0"', expiry)).toBe('expired by id: p0')
  })

  it('a live quote counts behind 1,000 other prices, and then no price has fallen', () => {
    const own = { id: 'own', toValue: '900.123' }
    const ledger = ledgerOf([own, ...prices.slice(0, 1)])
    const stated = `${open},"toAmount":900.12`
    expect(ledger.judge(stated, expiry)).toBe('expired by fallen: own')
    ledger.note({ ...prices[1], toValue: '890', expiresAtMs: expiry + 60_000 }, noted)
    expect(ledger.judge(stated, expiry)).toBe('expired by fallen: own')
    for (const given of prices.slice(2, 1_100))
      ledger.note({ ...given, expiresAtMs: expiry + 1_000 }, noted)
    expect(ledger.judge(`${open},"toAmount":9000`, expiry + 1_000)).toBe(
      'live by any: p1',
    )
    expect(ledger.judge(stated, expiry + 1_000)).toBe('live by any: p1')
    expect(ledger.judge(stated, expiry + 60_000)).toBe('expired by fallen: own')
  })

  it('what a full ledger drops refuses nothing, also a price that was not among the last 1,000', () => {
    const ledger = ledgerOf(prices.slice(0, 1_500), 1_500)
    expect(ledger.judge(first, expiry + 1)).toBe('expired by exact: p0')
    for (const given of prices.slice(1_500)) ledger.note(given, expiry)
    expect(ledger.judge(first, expiry + 1)).toBe('unknown by none')
  })
})

describe('a flood of others’ quotes', () => {
  const own = { id: 'own', toValue: '289.645' }
  const floods: Record<string, (index: number) => Given> = {
    prices: (index) => ({ toValue: `${300 + index}.5` }),
    'their addresses': (index) => ({ partition: `c${index}` }),
    applications: (index) => ({ application: `app ${index}` }),
    'applications of its own address': (index) => ({
      application: `app ${index}`,
      partition: 'own',
      toValue: `${300 + index}.5`,
    }),
    amounts: (index) => ({
      fromValue: `0.1000000000000000${index}`,
      requestedAmount: `0.1000000000000000${index}`,
    }),
    'answers to its amount': (index) => ({ fromValue: `0.100${index}` }),
  }

  it.each(Object.entries(floods))(
    'by %s hides nothing of its own',
    (_what, differing) => {
      const flood = many(2_000, (index) => ({
        id: `f${index}`,
        partition: 'another',
        toValue: '289.645',
        expiresAtMs: expiry - 1_000,
        ...differing(index),
      }))
      const { judge, note } = ledgerOf([own, ...flood])
      expect(judge(priced, noted)).toBe('live by exact: own')
      expect(judge(`${open},"toAmount":280`, expiry - 1)).toBe('live by pays: own')
      expect(judge(priced, expiry)).toBe('expired by exact: own')
      note({ id: 'low', toValue: '280', partition: 'b', expiresAtMs: expiry + 60_000 })
      expect(judge(`${open},"toAmount":289.64`, expiry)).toBe('expired by fallen: own')
      expect(judge(`${open},"toAmount":7000`, expiry + 60_000)).toBe(
        'expired by none: own',
      )
    },
  )

  it('by prices of its own leaves it what it was given last', () => {
    const flood = many(2_000, (index) => ({
      id: `f${index}`,
      toValue: `${300 + index}.25`,
    }))
    const { judge } = ledgerOf([own, ...flood])
    expect(judge(`${open},"toAmount":2299.25`, expiry)).toBe('expired by exact: f1999')
    expect(judge(`${open},"toAmount":7`, expiry)).toBe('expired by none: f1800')
  })
})

it('a user’s own quote of another application is named before another user’s of the same', () => {
  const { judge } = ledgerOf([
    { id: 'own', application: 'shop' },
    { id: 'other', partition: 'another', expiresAtMs: expiry + 1_000 },
    {
      id: 'shop',
      partition: 'another',
      application: 'shop',
      expiresAtMs: expiry + 2_000,
    },
  ])
  expect(judge(priced, noted)).toBe('live by exact: own')
  expect(judge(open, noted)).toBe('live by pays: own')
  expect(judge(priced, expiry)).toBe('live by exact: other')
  expect(judge(open, expiry + 1_000)).toBe('live by pays: shop')
  expect(judge(open, expiry + 2_000)).toBe('expired by none: other')
})

it('the ledger reaches back to the start, until it drops a quote before its time, and then to the end of that', async () => {
  const clock = createTestClock()
  const { logger, lines } = await keptLog()
  const ledger = new Ledger({ entries: 1, clock, log: logger })
  const note = (id: string, endsInMs: number) => {
    const expiresAtMs = clock.nowMs() + endsInMs
    ledger.note({
      ...quote,
      id,
      expiresAtMs,
      ...endAt(expiresAtMs),
      notedAtMs: clock.nowMs(),
    })
  }
  expect(ledger.reachMs).toBe(0)
  note('first', 1_000_000)
  clock.advance(2_000_000)
  expect(ledger.reachMs).toBe(2_000_000)
  note('second', -1_000)
  expect(ledger.reachMs).toBe(1_000_000)
  clock.advance(700)
  expect(ledger.reachMs).toBe(1_000_700)
  expect(lines(levels.warn)).toEqual([])
  // Less than the 15 minutes that the rules look back; said once.
  note('third', -1_700)
  note('fourth', 0)
  expect(ledger.reachMs).toBe(1_700)
  expect(lines(levels.warn)).toEqual([
    expect.objectContaining({ expiredForMs: 1_700, entries: 1 }),
  ])
})
