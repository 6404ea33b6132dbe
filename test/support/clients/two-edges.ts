import { onTestFinished } from 'vitest'
import { recordingUpstream } from '../gateways/between.ts'
import { startGateway } from '../gateways/gateway.ts'
import { post } from './orders.ts'
import { ask, createTestClock, giveQuote, quoteBody } from './quotes.ts'
import { rawExchange } from './raw-connection.ts'

export interface TwoEdges {
  /** How far the clock of each edge is ahead of ours. */
  offsetsMs: readonly [number, number]
  lifeMs: number
  /** A call takes twice a random time up to this. */
  legMs: number
  /** How old the `Date` of an edge may be, besides being cut to whole seconds. */
  lagMs: number
  steps: number
  seed: number
}

/** What went wrong, by the true end of each quote, which only the test knows. */
export interface Outcome {
  served: number
  hits: number
  /** How long past its end a quote was served, at the worst; -Infinity: none was. */
  servedLateMs: number
  servedLate: number
  liveOrders: number
  liveRefused: number
  /** How long before its end an order was refused, at the worst. */
  refusedEarlyMs: number
  expiredOrders: number
  expiredSent: number
  /** How long past the end of its quote an order was sent, at the worst. */
  sentLateMs: number
}

const amounts = ['0.1', '0.2', '0.3', '0.4']

/** A gateway and a provider of two edges that answer in no order, all on a clock that only goes on when a step says so. */
export async function playTwoEdges(options: TwoEdges): Promise<Outcome> {
  const { offsetsMs, lifeMs, legMs, lagMs, steps } = options
  const random = createRandom(options.seed)
  const clock = createTestClock()
  const endsAtMs = new Map<string, number>()
  const upstream = await recordingUpstream((request, response) => {
    const offsetMs = offsetsMs[random(2)] ?? 0
    clock.advance(random(legMs + 1))
    const nowMs = clock.nowMs() + offsetMs
    const date = new Date(nowMs - random(lagMs + 1)).toUTCString()
    if (request.method === 'GET') {
      const body = quoteBody({ expiry: nowMs + lifeMs })
      endsAtMs.set(JSON.parse(body).id, clock.nowMs() + lifeMs)
      clock.advance(random(legMs + 1))
      giveQuote(response, body, ['Date', date])
      return
    }
    clock.advance(random(legMs + 1))
    response.sendDate = false
    response.writeHead(201, { Date: date }).end('{}')
  })
  const steadyFromMs = clock.nowMs() - 5_000
  const gateway = await startGateway(
    { SWAP_BASE_URL: upstream.url },
    { clock: { nowMs: clock.nowMs, steadyMs: () => clock.nowMs() - steadyFromMs } },
  )
  onTestFinished(() => gateway.close())

  const outcome: Outcome = {
    served: 0,
    hits: 0,
    servedLateMs: Number.NEGATIVE_INFINITY,
    servedLate: 0,
    liveOrders: 0,
    liveRefused: 0,
    refusedEarlyMs: 0,
    expiredOrders: 0,
    expiredSent: 0,
    sentLateMs: 0,
  }
  const given: string[] = []

  async function quote(): Promise<void> {
    const { body, headers } = await ask(gateway.url, {
      path: `/v3/pairs/ETH_USDC/quotes?amount=${amounts[random(amounts.length)]}`,
    })
    const { id } = JSON.parse(body)
    const lateMs = clock.nowMs() - (endsAtMs.get(id) ?? 0)
    outcome.served += 1
    if (String(headers['cache-status']).includes('hit')) outcome.hits += 1
    outcome.servedLateMs = Math.max(outcome.servedLateMs, lateMs)
    if (lateMs >= 0) outcome.servedLate += 1
    if (given.at(-1) !== id) given.push(id)
  }

  async function order(): Promise<void> {
    const id = given.at(-1 - random(Math.min(given.length, 8))) ?? ''
    const lateMs = clock.nowMs() - (endsAtMs.get(id) ?? 0)
    const { status } = await rawExchange(gateway.url, post(JSON.stringify({ quoteId: id })))
    const wasSent = status === 201
    if (lateMs < 0) {
      outcome.liveOrders += 1
      if (wasSent) return
      outcome.liveRefused += 1
      outcome.refusedEarlyMs = Math.max(outcome.refusedEarlyMs, -lateMs)
      return
    }
    outcome.expiredOrders += 1
    if (!wasSent) return
    outcome.expiredSent += 1
    outcome.sentLateMs = Math.max(outcome.sentLateMs, lateMs)
  }

  // Until a Date contradicts our clock, that decides alone: of the first quotes an order may be refused early by what the
  // clocks differ.
  for (let before = 0; before < 8; before += 1) {
    await quote()
    clock.advance(2 * lifeMs)
  }
  given.length = 0
  Object.assign(outcome, { served: 0, hits: 0, servedLateMs: Number.NEGATIVE_INFINITY, servedLate: 0 })

  for (let step = 0; step < steps; step += 1) {
    await quote()
    clock.advance(random(900))
    await order()
    clock.advance(random(900))
  }
  await gateway.close()
  await upstream.close()
  return outcome
}

function createRandom(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}
