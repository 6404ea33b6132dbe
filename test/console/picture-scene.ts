import { onTestFinished } from 'vitest'
import { act, floatOrder, gatewayWith, quote } from '../operations/support.ts'
import { pause } from '../support/gateways/between.ts'
import type { RunningGateway } from '../support/gateways/gateway.ts'

/** How long each part of the scene lasts. */
export interface SceneTimes {
  trafficMs: number
  outageMs: number
}

export interface Scene {
  gateway: RunningGateway
  /** The swap API answers 503, until `end`. */
  outage: { begin(): Promise<void>; end(): Promise<void> }
}

const pairs = ['ETH_USDC', 'BTC_USDC', 'SOL_USDT', 'BTC_ETH', 'ETH_BTC']
const amounts = ['0.1', '0.25', '1', '2.5']
const everyMs = 60

/** A gateway with traffic, refused orders, and an outage of the swap API that is over. */
export async function createScene({ trafficMs, outageMs }: SceneTimes): Promise<Scene> {
  const gateway = await gatewayWith({
    TRUST_PROXY: 'loopback',
    QUOTE_PARTITION: 'none',
    breakerFailures: 2,
    breakerOpenMs: 1_500,
  })
  await act(gateway, 'faults', { latencyMs: 25, quoteLifetimeMs: 600 })
  await refuseLateOrders(gateway)
  await act(gateway, 'faults', { quoteLifetimeMs: 14_000 })
  const outage = {
    begin: async () => {
      await act(gateway, 'faults', { errorRate: 1, scope: 'swap' })
    },
    end: async () => {
      await act(gateway, 'faults', { errorRate: 0, scope: 'all' })
    },
  }
  const stop = sendTraffic(gateway)
  onTestFinished(stop)
  await pause(trafficMs)
  await outage.begin()
  await pause(outageMs)
  await outage.end()
  await pause(trafficMs)
  return { gateway, outage }
}

/** Of two applications, one is often late. */
async function refuseLateOrders(gateway: RunningGateway): Promise<void> {
  const late = ['0.1', '0.25', '1']
  for (const amount of late) {
    await quote(gateway, { amount, application: 'web' })
    await pause(150)
  }
  await quote(gateway, { pair: 'BTC_USDC', application: 'wallet-ios' })
  await pause(1_200)
  for (const amount of late) await floatOrder(gateway, { amount, application: 'web' })
  await floatOrder(gateway, { pair: 'BTC_USDC', application: 'wallet-ios' })
  await quote(gateway, { amount: '2.5', application: 'web' })
  await floatOrder(gateway, { amount: '2.5', application: 'web' })
}

function sendTraffic(gateway: RunningGateway): () => void {
  const ignore = () => {}
  let number = 0
  const timer = setInterval(() => {
    number += 1
    const pair = pairs[Math.floor((number * 7) % 13) % pairs.length] ?? ''
    const amount = amounts[Math.floor((number * 5) % 11) % amounts.length] ?? ''
    quote(gateway, { pair, amount, application: 'wallet-ios' }).catch(ignore)
    if (number % 17 === 0)
      fetch(`${gateway.url}/checkouts?limit=1`, { headers: { Authorization: 'Bearer k' } }).catch(ignore)
    if (number % 23 === 0) floatOrder(gateway, { pair, amount, application: 'wallet-ios' }).catch(ignore)
    if (number % 41 === 0) fetch(`${gateway.url}/v3/pairs/ETH_USDC/quotes?amount=0`).catch(ignore)
  }, everyMs)
  return () => clearInterval(timer)
}
