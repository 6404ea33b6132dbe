import fc from 'fast-check'
import { expect, test } from 'vitest'
import { OrdersByApplication } from '../../src/operations/orders-by-application.ts'
import type { FloatOrderDecision } from '../../src/orders/guard.ts'
import { giveQuote, quoteBody } from '../support/clients/quotes.ts'
import { gatewayWith, recordingUpstream } from '../support/gateways/between.ts'
import { floatOrder, quote, statusOf } from './support.ts'

/** A gateway that refuses every order for a quote that it has given, as if the quote had just expired. */
const refusing = (settings = {}) =>
  gatewayWith({ ORDER_EXPIRY_MARGIN_MS: 60_000, ...settings })

/** One whose provider pays more for each quote. */
async function refusingAll() {
  let paid = 289.64511
  const upstream = await recordingUpstream((_request, response) => {
    paid += 0.00001
    giveQuote(
      response,
      quoteBody({ toAmount: { assetId: 'USDC', value: paid.toFixed(5) } }),
    )
  })
  return refusing({ SWAP_BASE_URL: upstream.url, QUOTE_MIN_VALIDITY_MS: 60_000 })
}

test('a refused order has its terms, the rule that decided, and the quotes that were considered', async () => {
  const gateway = await refusingAll()
  const first = await quote(gateway, { application: 'web' })
  const second = await quote(gateway, { application: 'web' })
  expect(
    await floatOrder(gateway, { application: 'web', terms: { toAmount: '289.64512' } }),
  ).toBe(409)
  const [refused] = (await statusOf(gateway)).lastRefusals
  expect(refused).toMatchObject({
    reason: 'expired',
    rule: 'exact',
    why: expect.stringContaining('states the toAmount of a quote'),
    pair: 'ETH_USDC',
    amount: '0.1',
    toAmount: '289.64512',
    quoteIds: [],
    application: 'web',
    client: '127.0.0.x',
    quoteId: first.id,
    quoteAgeMs: expect.any(Number),
    expiredForMs: 0,
    quotesConsidered: 2,
  })
  const considered = { amount: '0.1', isOwn: true, lateMs: expect.any(Number) }
  expect(refused.quotes).toEqual([
    { ...considered, id: first.id, toAmount: '289.64512', decided: true },
    { ...considered, id: second.id, toAmount: '289.64513', decided: false },
  ])
  // Within the margin, so the quote had time left.
  expect(refused.quotes[0].lateMs).toBeLessThan(0)
})

test('a refused order names the quotes that it asks for, known or not', async () => {
  const gateway = await refusing({ ORDER_UNKNOWN_QUOTE: 'refuse' })
  const { id } = await quote(gateway, { application: 'web' })
  for (const quoteId of [id, 'never-seen'])
    await floatOrder(gateway, { terms: { quoteId } })
  const [unknown, known] = (await statusOf(gateway)).lastRefusals
  expect(known).toMatchObject({
    rule: 'id',
    quoteIds: [id],
    quotes: [{ id, decided: true }],
  })
  expect(unknown).toMatchObject({
    reason: 'unknown',
    rule: 'id',
    quoteIds: ['never-seen'],
    quoteId: null,
    expiredForMs: null,
    quotes: [],
    quotesConsidered: 0,
  })
})

test('a quote that was given to another user is marked as such', async () => {
  const gateway = await refusing({ TRUST_PROXY: 'loopback' })
  const from = (address: string) => ({ headers: { Forwarded: `for=${address}` } })
  const { id } = await quote(gateway, from('192.0.2.1'))
  expect(await floatOrder(gateway, from('192.0.2.2'))).toBe(409)
  const [refused] = (await statusOf(gateway)).lastRefusals
  expect(refused).toMatchObject({
    client: '192.0.2.x',
    quotes: [{ id, isOwn: false, decided: true }],
  })
})

test('at most five of the quotes are listed, with the number that was considered', async () => {
  const gateway = await refusingAll()
  for (let asked = 0; asked < 8; asked += 1) await quote(gateway, { application: 'web' })
  await floatOrder(gateway, { application: 'web' })
  const [refused] = (await statusOf(gateway)).lastRefusals
  expect(refused.quotesConsidered).toBe(8)
  expect(refused.quotes).toHaveLength(5)
  expect(refused.quotes[0]).toMatchObject({ id: refused.quoteId, decided: true })
})

test('keeps the last fifty refusals, the newest first, and counts them all', async () => {
  const gateway = await gatewayWith({ ORDER_UNKNOWN_QUOTE: 'refuse' })
  for (let number = 1; number <= 53; number += 1)
    await floatOrder(gateway, { amount: String(number) })
  const { lastRefusals, ordersRefused } = await statusOf(gateway)
  expect([ordersRefused, lastRefusals.length]).toEqual([53, 50])
  expect(lastRefusals[0]).toMatchObject({ reason: 'unknown', amount: '53' })
})

test('refused orders are summed by application: how many of all orders of the last hour, and how late', async () => {
  let [nowMs, steadyMs] = [Date.UTC(2025, 10, 20, 15, 17, 21), 1_000_000]
  const clock = { nowMs: () => nowMs, steadyMs: () => steadyMs }
  const pass = (ms: number) => {
    nowMs += ms
    steadyMs += ms
  }
  const date = () => new Date(clock.nowMs()).toUTCString()
  const upstream = await recordingUpstream((request, response) => {
    if (request.method === 'POST') response.writeHead(201).end('{}')
    else
      giveQuote(response, quoteBody({ expiry: clock.nowMs() + 10_000 }), ['Date', date()])
  })
  const gateway = await gatewayWith({ SWAP_BASE_URL: upstream.url }, { clock })
  for (const lateMs of [30_000, undefined, 44_000]) {
    await quote(gateway, { application: 'web' })
    if (lateMs !== undefined) pass(10_000 + lateMs)
    await floatOrder(gateway, { application: 'web' })
  }
  await floatOrder(gateway, { application: 'ios', pair: 'BTC_USDC' })
  const sums = async () => (await statusOf(gateway)).refusedByApplication
  const expected = [
    {
      application: 'web',
      orders: 3,
      expired: 2,
      unknown: 0,
      reported: 0,
      leastLateMs: expect.closeTo(30_000, -3.5),
      mostLateMs: expect.closeTo(44_000, -3.5),
    },
  ]
  // However the wall clock is set.
  for (const step of [0, 7_200_000, -14_400_000]) {
    nowMs += step
    expect(await sums()).toEqual(expected)
  }
  pass(3_600_000)
  expect(await sums()).toEqual([])
})

const anOrder: fc.Arbitrary<{ decision: FloatOrderDecision; lateMs?: number }> = fc.oneof(
  fc.record({
    decision: fc.constantFrom('forwarded-live', 'forwarded-unknown', 'refused-unknown'),
  }),
  fc.record({
    decision: fc.constantFrom('refused-expired', 'reported-expired'),
    lateMs: fc.nat(100_000),
  }),
)

test('the sums of the last hour are those of its orders, for any history', () => {
  const counted = fc.array(
    fc.tuple(fc.constantFrom('web', 'ios', 'android'), anOrder, fc.nat(7_199_999)),
  )
  fc.assert(
    fc.property(counted, (orders) => {
      const sums = new OrdersByApplication()
      const startMs = 1_700_000_000_000 - (1_700_000_000_000 % 60_000)
      const inOrder = orders.toSorted(([, , left], [, , right]) => left - right)
      for (const [application, { decision, lateMs }, afterMs] of inOrder)
        sums.count(application, decision, lateMs ?? null, startMs + afterMs)
      const lastMinute = 119
      const lastMs = startMs + lastMinute * 60_000
      const kept = inOrder.filter(
        ([, , afterMs]) =>
          afterMs >= (lastMinute - 59) * 60_000 && afterMs < lastMs + 60_000 - startMs,
      )
      for (const { application, ...sum } of sums.refused(lastMs)) {
        const its = kept.filter(([name]) => name === application).map(([, one]) => one)
        const late = its.flatMap(({ lateMs }) => lateMs ?? [])
        expect(sum).toEqual({
          orders: its.length,
          expired: its.filter(({ decision }) => decision === 'refused-expired').length,
          reported: its.filter(({ decision }) => decision === 'reported-expired').length,
          unknown: its.filter(({ decision }) => decision === 'refused-unknown').length,
          leastLateMs: late.length > 0 ? Math.min(...late) : null,
          mostLateMs: late.length > 0 ? Math.max(...late) : null,
        })
      }
      const refusing = kept
        .filter(([, { decision }]) => !decision.startsWith('forwarded'))
        .map(([name]) => name)
      expect(new Set(sums.refused(lastMs).map(({ application }) => application))).toEqual(
        new Set(refusing),
      )
    }),
  )
})

test('invented applications take no more memory than their bound, and each refused order is in one of the sums', () => {
  const sums = new OrdersByApplication()
  const nowMs = Date.now()
  for (let number = 1; number <= 1_000; number += 1) {
    const orders = number <= 30 ? number : 1
    for (let order = 1; order <= orders; order += 1)
      sums.count(`application-${number}`, 'refused-expired', number, nowMs)
  }
  const refused = sums.refused(nowMs)
  expect(refused).toHaveLength(21)
  expect(refused.slice(0, 2).map(({ application }) => application)).toEqual([
    'application-30',
    'application-29',
  ])
  // The ten that are refused least, and all that came after the first fifty.
  const others = { application: null, orders: 55 + 970, expired: 55 + 970 }
  expect(refused.at(-1)).toMatchObject({ ...others, leastLateMs: 1, mostLateMs: 1_000 })
})
