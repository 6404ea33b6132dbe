import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { ask, counted, quotePath } from '../support/clients/quotes.ts'
import { gatewayWith, recordingUpstream } from '../support/gateways/between.ts'
import { startLogged } from './support.ts'

const headAfterMs = 200
const bodyTakesMs = 600

interface Shown {
  route: string
  upstreamMs: number
  transferMs: number
}

const terms = JSON.stringify({ pairId: 'ETH_USDC', fromAmount: '0.1' })
const requests = [
  { route: 'quote', path: `${quotePath}?amount=0.1`, method: 'GET' },
  { route: 'float-order', path: '/v3/orders/float', method: 'POST', body: terms },
  { route: 'order', path: '/v3/orders', method: 'POST', body: terms },
  { route: 'swap', path: '/v3/pairs', method: 'GET' },
  { route: 'payments', path: '/checkouts', method: 'POST', body: '{}' },
]

test.each(requests)(
  "upstreamMs of $route is the time to the answer's head, in the log and the console, though our clock is set back",
  async ({ route, ...asked }) => {
    let setBackMs = 0
    const clock = {
      nowMs: () => Date.now() - setBackMs,
      steadyMs: () => performance.now(),
    }
    const upstream = await recordingUpstream(async (_request, response) => {
      setBackMs += 3_600_000
      await sleep(headAfterMs)
      // The console keeps what failed.
      response.writeHead(500).write('first')
      await sleep(bodyTakesMs)
      response.end('last')
    })
    const settings = { SWAP_BASE_URL: upstream.url, PAYMENTS_BASE_URL: upstream.url }
    const gateway = await startLogged(settings, { clock })
    expect((await ask(gateway.url, asked)).status).toBe(500)

    const [line] = await gateway.requests(1)
    const { upstreamMs, durationMs } = line as unknown as {
      upstreamMs: number
      durationMs: number
    }
    expect(upstreamMs).toBeGreaterThanOrEqual(headAfterMs - 5)
    expect(upstreamMs).toBeLessThan(durationMs - bodyTakesMs / 2)
    const status = await (await fetch(`${gateway.operationsUrl}/status`)).json()
    const [shown] = (status as { lastRequests: Shown[] }).lastRequests
    expect(shown).toMatchObject({ route, upstreamMs })
    expect(shown?.transferMs).toBeGreaterThan(bodyTakesMs / 2)
  },
)

test('a quote whose body the provider sends slowly has not missed the objective of the gateway', async () => {
  const upstream = await recordingUpstream(async (_request, response) => {
    const body = JSON.stringify({
      id: 'q',
      pairId: 'ETH_USDC',
      expiry: Date.now() + 30_000,
    })
    response
      .writeHead(200, { 'Content-Type': 'application/json' })
      .write(body.slice(0, 5))
    await sleep(bodyTakesMs)
    response.end(body.slice(5))
  })
  const gateway = await gatewayWith({ SWAP_BASE_URL: upstream.url })
  let amount = 0
  async function askOnce(): Promise<number> {
    amount += 1
    expect(
      (await ask(gateway.url, { path: `${quotePath}?amount=${amount}` })).status,
    ).toBe(200)
    return counted(gateway, 'quotegate_quote_latency_total{how="miss",objective="met"}')
  }
  // A loaded machine may add its own 50 ms to some of them.
  await expect.poll(askOnce).toBeGreaterThanOrEqual(1)
})
