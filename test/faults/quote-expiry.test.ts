import { expect, it, onTestFinished } from 'vitest'
import { startSandbox } from '../../src/sandbox/sandbox.ts'
import {
  ask,
  counted,
  giveQuote,
  keepAliveAgent,
  lookups,
  quoteBody,
  untilCounted,
} from '../support/clients/quotes.ts'
import { gatewayTo, recordingUpstream } from '../support/gateways/between.ts'
import { startGateway } from '../support/gateways/gateway.ts'

const clients = 40
const seconds = 3

interface Tally {
  answers: number
  tooLate: number
}

/** Clients that ask without a pause. Wrong is an answer whose quote was over before its client even asked. */
async function hammer(url: string, amounts: readonly string[]): Promise<Tally> {
  const agent = keepAliveAgent(clients)
  const untilMs = performance.now() + seconds * 1_000
  const tally = { answers: 0, tooLate: 0 }
  async function client(index: number): Promise<void> {
    const amount = amounts[index % amounts.length]
    while (performance.now() < untilMs) {
      const { status, body, sentAtMs } = await ask(url, {
        path: `/v3/pairs/ETH_USDC/quotes?amount=${amount}`,
        agent,
      })
      expect(status).toBe(200)
      tally.answers += 1
      if (JSON.parse(body).expiry <= sentAtMs) tally.tooLate += 1
    }
  }
  await Promise.all(Array.from({ length: clients }, (_, index) => client(index)))
  return tally
}

it.each([
  ['alone', {}],
  ['with refresh-ahead', { QUOTE_REFRESH_AHEAD_MS: '100' }],
  ['with a least validity', { QUOTE_MIN_VALIDITY_MS: '50' }],
])('under load not one answer is served past its expiry (%s)', async (_how, settings) => {
  const sandbox = await startSandbox({ quoteLifetimeMs: 300 })
  onTestFinished(() => sandbox.close())
  const gateway = await gatewayTo(sandbox.url, settings)
  const { answers, tooLate } = await hammer(gateway.url, ['0.1', '0.2', '0.3'])
  expect(tooLate).toBe(0)
  // The cache was at work, or this shows nothing.
  expect(await counted(gateway, lookups('hit'))).toBeGreaterThan(answers / 2)
  expect(sandbox.requests.length).toBeGreaterThan(9)
})

it('a quote that expires each time before it can be written is a 504, and is never served', async () => {
  // Every look at this clock costs 10 ms. Quotes that live for less than all the looks are over on arrival, or later.
  let nowMs = Date.now()
  let lifeMs = 0
  const clock = {
    nowMs: () => {
      nowMs += 10
      return nowMs
    },
  }
  const upstream = await recordingUpstream((_request, response) =>
    giveQuote(response, quoteBody({ expiry: nowMs + lifeMs }), ['Date', 'none']),
  )
  const gateway = await startGateway({ SWAP_BASE_URL: upstream.url }, { clock })
  onTestFinished(() => gateway.close())
  const seen = new Set<string>()
  for (lifeMs = 5; lifeMs < 400; lifeMs += 10) {
    const before = upstream.requests.length
    const { status, headers, body } = await ask(gateway.url, {
      path: `/v3/pairs/ETH_USDC/quotes?amount=${lifeMs}`,
    })
    const how = status === 200 ? String(headers['cache-status']) : JSON.parse(body).type
    seen.add(how.replace(/;? ?ttl=.*/, ''))
    if (status === 504) expect(upstream.requests.length - before).toBe(3)
  }
  expect([...seen]).toEqual([
    'quotegate; fwd=bypass; detail=expired',
    'urn:quotegate:problem:quote-expired-waiting',
    'quotegate; fwd=uri-miss; stored',
  ])
})

it('a quote that expires while its answers wait for their turn is fetched again for the late ones', async () => {
  // Every look at this clock costs a millisecond, as if each answer took that long to write.
  let nowMs = Date.now()
  let tickMs = 0
  const clock = {
    nowMs: () => {
      nowMs += tickMs
      return nowMs
    },
  }
  const upstream = await recordingUpstream((_request, response) => {
    const first = upstream.requests.length === 1
    if (!first) return giveQuote(response, quoteBody({ id: 'second', expiry: nowMs + 30_000 }), undated)
    void untilCounted(gateway, lookups('collapsed'), 63).then(() => {
      tickMs = 1
      giveQuote(response, quoteBody({ id: 'first', expiry: nowMs + 40 }), undated)
    })
  })
  const undated = ['Date', 'none']
  const gateway = await startGateway({ SWAP_BASE_URL: upstream.url }, { clock })
  onTestFinished(() => gateway.close())
  const answers = await Promise.all(Array.from({ length: 64 }, () => ask(gateway.url)))
  const ids = answers.map(({ body }): string => JSON.parse(body).id)
  expect(ids.filter((id) => id === 'first').length).toBeGreaterThan(0)
  expect(ids.filter((id) => id === 'first').length).toBeLessThan(40)
  expect(ids.filter((id) => id === 'second')).toHaveLength(64 - ids.filter((id) => id === 'first').length)
  expect(upstream.requests).toHaveLength(2)
})
