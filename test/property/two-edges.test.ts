import { describe, expect, it, onTestFinished } from 'vitest'
import { post } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import { asking, createTestClock, giveQuote, quoteBody } from '../support/clients/quotes.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { playTwoEdges } from '../support/clients/two-edges.ts'
import { recordingUpstream } from '../support/gateways/between.ts'
import { startGateway } from '../support/gateways/gateway.ts'

const ordinary = { lifeMs: 6_000, legMs: 50, lagMs: 250, steps: 300, seed: 11 }
/** A `Date` is cut to whole seconds, and believed to 250 ms on either side. */
const widthMs = 1_500

describe('a provider of two edges that answer in no order', () => {
  it.each([
    [0, 1_500],
    [0, -5_000],
    [-750, 750],
  ] as const)(
    'whose clocks are %d and %d ms ahead: no expired quote is served, no live order refused, and none sent later than their difference and 1.5 s',
    async (one, other) => {
      const outcome = await playTwoEdges({ ...ordinary, offsetsMs: [one, other] })
      expect(outcome).toMatchObject({ served: 300, servedLate: 0, liveRefused: 0 })
      expect(outcome.sentLateMs).toBeLessThanOrEqual(Math.abs(one - other) + widthMs)
      // The cache was at work, and orders were judged on both sides of the end.
      expect(Math.min(outcome.hits, outcome.liveOrders, outcome.expiredOrders)).toBeGreaterThan(80)
      expect(outcome.expiredSent).toBeLessThan(outcome.expiredOrders / 2)
    },
  )

  it.each([1_500, 5_000])(
    'that are slow, and whose clocks are %d ms apart: no expired quote is served and no live order refused',
    async (apartMs) => {
      const outcome = await playTwoEdges({ ...ordinary, legMs: 800, offsetsMs: [0, apartMs] })
      expect(outcome).toMatchObject({ servedLate: 0, liveRefused: 0 })
      expect(outcome.hits).toBeGreaterThan(30)
    },
  )

  // Too near to be distinguished: a Date may lag by as much.
  it.each([200, -200])('whose clocks are %d ms apart is judged with that uncertainty', async (apartMs) => {
    const outcome = await playTwoEdges({ ...ordinary, offsetsMs: [0, apartMs] })
    expect(outcome.servedLateMs).toBeLessThanOrEqual(200)
    expect(outcome.refusedEarlyMs).toBeLessThanOrEqual(200)
    expect(outcome.sentLateMs).toBeLessThanOrEqual(200 + widthMs)
  })

  it('whose clocks are ours is judged to the millisecond', async () => {
    const outcome = await playTwoEdges({ ...ordinary, offsetsMs: [0, 0] })
    expect(outcome).toMatchObject({ servedLate: 0, liveRefused: 0, expiredSent: 0 })
  })
})

/** Two edges 5 s apart, of which the test says which answers next. The first is ours. */
async function twoEdges() {
  const clock = createTestClock()
  const provider = { aheadMs: 0 }
  const upstream = await recordingUpstream((request, response) => {
    const nowMs = clock.nowMs() + provider.aheadMs
    const date = ['Date', new Date(nowMs).toUTCString()]
    if (request.method === 'GET') giveQuote(response, quoteBody({ expiry: nowMs + 6_000 }), date)
    else response.writeHead(201, date).end('{}')
  })
  const gateway = await startGateway({ SWAP_BASE_URL: upstream.url }, { clock })
  onTestFinished(() => gateway.close())
  const quote = async (amount: string) => {
    const { body, headers } = await asking(gateway.url, amount)
    return { ...JSON.parse(body), how: String(headers['cache-status']) }
  }
  const order = (quoteId: string) => rawExchange(gateway.url, post(JSON.stringify({ quoteId })))
  return { clock, provider, quote, order }
}

it('a quote of the edge that is ahead is not served for longer because the other edge answered since', async () => {
  const { clock, provider, quote } = await twoEdges()
  provider.aheadMs = 5_000
  const first = await quote('1')
  provider.aheadMs = 0
  await quote('2')
  let servedForMs = 0
  for (let passedMs = 0; passedMs < 12_000; passedMs += 250, clock.advance(250)) {
    const { id } = await quote('1')
    if (id !== first.id) break
    servedForMs = passedMs
  }
  expect(servedForMs).toBeGreaterThanOrEqual(4_500)
  expect(servedForMs).toBeLessThan(6_000)
})

it('a live order for a quote of the edge that agrees with us is sent though the other edge answered since', async () => {
  const { clock, provider, quote, order } = await twoEdges()
  const first = await quote('1')
  provider.aheadMs = 5_000
  await quote('2')
  clock.advance(5_999)
  expect((await order(first.id)).status).toBe(201)
})

it('a quote of the edge that agrees with us ends to the millisecond once the other has not answered for 50 answers and a minute', async () => {
  const { clock, provider, quote, order } = await twoEdges()
  provider.aheadMs = 5_000
  await quote('2')
  provider.aheadMs = 0
  const first = await quote('1')
  clock.advance(4_749)
  expect(await quote('1')).toMatchObject({ id: first.id, how: 'quotegate; hit; ttl=0' })
  clock.advance(1)
  expect((await quote('1')).id).not.toBe(first.id)
  clock.advance(1_249)
  expect((await order(first.id)).status).toBe(201)
  clock.advance(1)
  expectProblem(await order(first.id), 409, 'quote-expired')

  for (let amount = 3; amount < 52; amount += 1) await quote(String(amount))
  clock.advance(60_000)
  const later = await quote('1')
  clock.advance(5_999)
  expect(await quote('1')).toMatchObject({ id: later.id, how: 'quotegate; hit; ttl=0' })
  clock.advance(1)
  expectProblem(await order(later.id), 409, 'quote-expired')
  expect((await quote('1')).id).not.toBe(later.id)
})
