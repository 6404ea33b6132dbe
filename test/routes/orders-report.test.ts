import type { ServerResponse } from 'node:http'
import { expect, it } from 'vitest'
import { act, statusOf } from '../operations/support.ts'
import {
  type GivenQuote,
  type OrderStage,
  orderStage,
  termsOf,
} from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import { counted } from '../support/clients/quotes.ts'
import { pause, until } from '../support/gateways/between.ts'
import { keptLog } from '../support/observing/log-lines.ts'

const report = { ORDER_EXPIRED_QUOTE: 'report' }

/** How many orders were forwarded, reported and refused, and why. */
async function countsOf({ gateway }: OrderStage): Promise<Record<string, number>> {
  const page = await gateway.metrics()
  const form =
    /^quotegate_float_orders_total{decision="(\w+)",reason="(\w+)"} ([1-9]\d*)$/gm
  const found = [...page.matchAll(form)]
  return Object.fromEntries(
    found.map(([, decision, reason, count]) => [`${decision} ${reason}`, Number(count)]),
  )
}

it.each<[string, (quote: GivenQuote) => object]>([
  ['id', ({ id }) => ({ quoteId: id })],
  ['exact', termsOf],
])(
  'an order for an expired quote, found by %s, is sent as it came, once',
  async (rule, bodyFor) => {
    const stage = await orderStage(report)
    const { arrived, clock, gateway, order, quote } = stage
    const given = await quote()
    clock.set(given.expiry)
    const text = ` ${JSON.stringify(bodyFor(given))}\n`
    const answer = await order(text)
    expect([answer.status, answer.body.toString()]).toEqual([201, '{"id":"order-1"}'])
    expect(arrived().map((sent) => sent.body.toString())).toEqual([text])
    expect(await countsOf(stage)).toEqual({ 'reported expired': 1 })
    const matched = `quotegate_float_order_matches_total{decision="expired",rule="${rule}"}`
    expect(await counted(gateway, matched)).toBe(1)
    expect(await counted(gateway, 'quotegate_float_order_quote_age_seconds_count')).toBe(
      1,
    )
  },
)

it('report: and a list sends late orders of these applications, and refuses those of all others', async () => {
  // Of its bytes a header has twice as many as this name has letters.
  const long = 'ä'.repeat(150)
  const stage = await orderStage({
    ORDER_EXPIRED_QUOTE: `report: shop , wallet, Läden, ${long}`,
  })
  const statusOfLate = async (application: string) => {
    const given = await stage.quote('0.1', { headers: ['App-Name', application] })
    stage.clock.set(given.expiry)
    const headers = [`App-Name: ${application}`]
    return (await stage.order({ quoteId: given.id }, { headers })).status
  }
  const statuses: number[] = []
  for (const application of ['wallet', 'shop', 'Shop', 'page'])
    statuses.push(await statusOfLate(application))
  for (const application of ['Läden', long, 'Lä'])
    statuses.push(await statusOfLate(Buffer.from(application).toString('latin1')))
  expect(statuses).toEqual([201, 201, 409, 409, 201, 201, 409])
  expect(await countsOf(stage)).toEqual({ 'reported expired': 4, 'refused expired': 3 })
})

it('an order for a live quote or an unknown one is judged as without report', async () => {
  const stage = await orderStage({ ...report, ORDER_UNKNOWN_QUOTE: 'refuse' })
  const given = await stage.quote()
  expect((await stage.order(termsOf(given))).status).toBe(201)
  expectProblem(
    await stage.order({ ...termsOf(given), quoteId: 'unknown' }),
    409,
    'quote-unknown',
  )
  expect(await countsOf(stage)).toEqual({ 'forwarded live': 1, 'refused unknown': 1 })
  expect(await statusOf(stage.gateway)).toMatchObject({
    ordersRefused: 1,
    ordersReported: 0,
  })
})

it('a fixed order for an expired quote is refused, and one that fails before it is sent is not counted', async () => {
  const stage = await orderStage(report)
  const given = await stage.quote()
  stage.clock.set(given.expiry)
  const fixed = await stage.order({ quoteId: given.id }, { path: '/v3/orders' })
  expectProblem(fixed, 409, 'float-order-required')
  await stage.upstream.close()
  expectProblem(await stage.order(termsOf(given)), 502, 'upstream-unreachable')
  expect(stage.arrived()).toHaveLength(0)
  expect(await countsOf(stage)).toEqual({})
})

it.each([
  ['expires while the order waits for a connection', -1],
  ['had expired before the order came', 0],
])(
  'an order whose quote %s is sent when its turn comes, and counted once',
  async (_when, beforeMs) => {
    const busy = { UPSTREAM_CONNECTIONS: 1, UPSTREAM_TOTAL_TIMEOUT_MS: 600_000 }
    const stage = await orderStage({ ...report, ...busy })
    const { arrived, clock, order, provider } = stage
    const given = await stage.quote()
    const held: ServerResponse[] = []
    provider.takeOrder = (_request, response) => void held.push(response)
    const first = order('{}', { method: 'PATCH', path: '/v3/orders/1' })
    await until(() => held.length === 1, 'the first request to hold the one connection')
    clock.set(given.expiry + beforeMs)
    const waiting = order(termsOf(given))
    // Nothing outside shows that an order has joined the queue, nor that it was judged there.
    await pause(150)
    clock.set(given.expiry + 2)
    await pause(1_200)
    expect(await countsOf(stage)).toEqual({})
    provider.takeOrder = (_request, response) => response.writeHead(201).end()
    held[0]?.writeHead(201).end()
    expect([(await first).status, (await waiting).status]).toEqual([201, 201])
    expect(arrived()).toHaveLength(2)
    expect(await countsOf(stage)).toEqual({ 'reported expired': 1 })
    expect(await statusOf(stage.gateway)).toMatchObject({
      ordersReported: 1,
      ordersRefused: 0,
    })
  },
)

it('an order that is reported uses its quote up', async () => {
  // Within the margin a quote is too old for an order, and is still served.
  const { order, quote } = await orderStage({ ...report, ORDER_EXPIRY_MARGIN_MS: 60_000 })
  const given = await quote()
  expect((await quote()).id).toBe(given.id)
  expect((await order(termsOf(given))).status).toBe(201)
  expect((await quote()).id).not.toBe(given.id)
})

it('an order that is reported has its line in the order log, and stands apart in /status, with its quotes', async () => {
  const log = await keptLog()
  const settings = { ...report, ORDER_UNKNOWN_QUOTE: 'refuse', ACCESS_LOG: 'orders' }
  const stage = await orderStage(settings, { logger: log.logger })
  const { clock, order, quote } = stage
  const given = await quote()
  clock.set(given.expiry + 7)
  expect((await order(termsOf(given))).status).toBe(201)
  expect(log.lines().filter((line) => line.log === 'orders')).toMatchObject([
    {
      msg: 'reported-expired',
      rule: 'exact',
      application: 'wallet',
      quoteId: given.id,
      lateMs: 7,
    },
  ])
  expectProblem(await order({ quoteId: 'unknown' }), 409, 'quote-unknown')
  const { lastRefusals, ...status } = await statusOf(stage.gateway)
  expect(status).toMatchObject({ ordersRefused: 1, ordersReported: 1 })
  expect(lastRefusals).toMatchObject([
    { reason: 'unknown', sent: false, quoteId: null },
    {
      reason: 'expired',
      sent: true,
      rule: 'exact',
      quoteId: given.id,
      expiredForMs: 7,
      quotes: [{ id: given.id, decided: true, lateMs: 7 }],
    },
  ])
  const late = { leastLateMs: 7, mostLateMs: 7 }
  expect(status.refusedByApplication).toEqual([
    { application: 'wallet', orders: 2, expired: 0, unknown: 1, reported: 1, ...late },
  ])
})

it('the check of an order foretells whether it is reported or refused', async () => {
  for (const [settings, decision] of [
    [report, 'reported-expired'],
    [{}, 'refused-expired'],
  ] as const) {
    const { clock, gateway, quote } = await orderStage(settings)
    const given = await quote()
    clock.set(given.expiry)
    const body = JSON.stringify(termsOf(given))
    const explained = await act(gateway, 'explain', { body, application: 'wallet' })
    expect(JSON.parse(explained.body)).toMatchObject({ decision, quoteId: given.id })
  }
})
