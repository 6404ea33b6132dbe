import { startSandbox } from '../../src/sandbox/sandbox.ts'
import { type RunningGateway, startGateway } from '../support/gateways/gateway.ts'
import type { Variables } from '../support/observing/grafana.ts'
import { startValkey } from '../support/stores/valkey.ts'
import { type Prometheus, startPrometheus } from './prometheus.ts'

export interface Stage {
  gateway: RunningGateway
  prometheus: Prometheus
  variables: Variables
  /** When the traffic had just ended. A busy machine may take long for all that is asked about it. */
  seenAtMs: number
  close(): Promise<void>
}

const quoteLifetimeMs = 1_500
const trafficMs = 14_000

/** A gateway before the sandbox, the real Prometheus that scrapes it, and some of every kind of traffic behind it. */
export async function setStage(): Promise<Stage> {
  const sandbox = await startSandbox({
    quoteLifetimeMs,
    faults: { latencyMs: 3, errorRate: 0.05, resetRate: 0.05, scope: 'swap' },
  })
  const valkey = await startValkey()
  const gateway = await startGateway({
    VALKEY_URL: valkey.url,
    SWAP_BASE_URL: sandbox.url,
    PAYMENTS_BASE_URL: sandbox.url,
    METRICS_PAIRS: 'ETH_USDC,BTC_USDC',
    QUOTE_REFRESH_AHEAD_MS: 200,
  })
  const instance = new URL(gateway.operationsUrl).host
  const prometheus = await startPrometheus(instance)
  await sendTraffic(gateway.url)
  // One more scrape, so that the last events are seen.
  await new Promise((resolve) => setTimeout(resolve, 1_500))
  return {
    gateway,
    prometheus,
    variables: { job: 'quotegate', instance, rateInterval: '5s' },
    seenAtMs: Date.now(),
    async close() {
      await prometheus.close()
      await gateway.close()
      await valkey.end()
      await sandbox.close()
    },
  }
}

interface Quote {
  pairId: string
  fromAmount: { value: string }
  toAmount: { value: string }
}

async function sendTraffic(url: string): Promise<void> {
  const headers = { 'App-Name': 'wallet' }
  const send = async (path: string, init: RequestInit = {}) => {
    const answer = await fetch(url + path, { ...init, headers: { ...headers, ...init.headers } })
    return { status: answer.status, text: await answer.text() }
  }
  const quote = (pair: string, amount: string) => send(`/v3/pairs/${pair}/quotes?amount=${amount}`)
  const order = ({ pairId, fromAmount, toAmount }: Quote) =>
    send('/v3/orders/float', {
      method: 'POST',
      body: JSON.stringify({
        pairId,
        fromAmount: fromAmount.value,
        toAmount: toAmount.value,
        fromAddress: '0xfrom',
        toAddress: '0xto',
      }),
    })

  const held: { quote: Quote; atMs: number }[] = []
  /** Asked for so rarely that each time finds the one before expired. */
  let rareAtMs = performance.now()
  const endsAtMs = performance.now() + trafficMs
  for (let turn = 0; performance.now() < endsAtMs; turn += 1) {
    const pair = ['ETH_USDC', 'BTC_USDC', 'SOL_USDT'][turn % 3] ?? 'ETH_USDC'
    const fresh = await quote(pair, '0.2')
    const work: Promise<unknown>[] = [
      quote(pair, '0.1'),
      quote('ETH_USDC', '0.5'),
      // Two at once for a quote that no client has asked for yet.
      quote('ETH_USDC', `${turn + 1}.25`),
      quote('ETH_USDC', `${turn + 1}.25`),
      quote(pair, 'much'),
      // An answer that is not kept, whatever the faults of the sandbox hit.
      quote('NO_PAIR', '0.1'),
      send('/v3/pairs'),
      send('/nowhere'),
      send('/checkouts', { method: 'POST', body: '{"amount":"10.00","currency":"USD"}' }),
      send('/v3/pairs', { headers: { Forwarded: 'for=198.51.100.7' } }),
      // A client that leaves.
      send('/v3/pairs', { signal: AbortSignal.timeout(2) }),
    ]
    if (fresh.status === 200) {
      const parsed = JSON.parse(fresh.text) as Quote
      held.push({ quote: parsed, atMs: performance.now() })
      if (turn % 2 === 0) work.push(order(parsed))
    }
    if (performance.now() >= rareAtMs) {
      rareAtMs = performance.now() + quoteLifetimeMs + 500
      work.push(quote('ETH_USDC', '0.7'))
    }
    const [oldest] = held
    if (oldest && performance.now() - oldest.atMs > quoteLifetimeMs + 500) {
      held.splice(0, 5)
      work.push(order(oldest.quote))
    }
    await Promise.allSettled(work)
    await new Promise((resolve) => setTimeout(resolve, 40))
  }
}
