import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { startSandbox } from '../../src/sandbox/sandbox.ts'
import { ask, counted, keepAliveAgent, lookups } from '../support/clients/quotes.ts'
import { gatewayTo } from '../support/gateways/between.ts'

const lifetimeMs = 2_600

it.each([30_000, -30_000])(
  'a provider whose clock is %d ms ahead: no client is shown an expired quote, and at most 1.5 s of a life is lost',
  async (clockOffsetMs) => {
    const sandbox = await startSandbox({ quoteLifetimeMs: lifetimeMs, faults: { clockOffsetMs } })
    onTestFinished(() => sandbox.close())
    const gateway = await gatewayTo(sandbox.url)
    const agent = keepAliveAgent(2)
    const firstSeenMs = new Map<string, number>()
    const lastSeenMs = new Map<string, number>()
    const untilMs = performance.now() + 8_000
    while (performance.now() < untilMs) {
      const { body, sentAtMs } = await ask(gateway.url, { agent })
      const { id, expiry } = JSON.parse(body)
      // The true expiry: the provider's clock as it stood when the client asked.
      expect(expiry).toBeGreaterThan(sentAtMs + clockOffsetMs)
      if (!firstSeenMs.has(id)) firstSeenMs.set(id, sentAtMs)
      lastSeenMs.set(id, sentAtMs)
      await sleep(20)
    }
    expect(await counted(gateway, lookups('hit'))).toBeGreaterThan(20)
    const offsetSeconds = await counted(gateway, 'quotegate_upstream_clock_offset_seconds{upstream="swap"}')
    expect(Math.abs(offsetSeconds - clockOffsetMs / 1_000)).toBeLessThan(1)
    // Eight seconds hold three lives; with 1.5 s lost of each, and a busy machine, seven at the very most.
    expect(sandbox.requests.length).toBeGreaterThanOrEqual(3)
    expect(sandbox.requests.length).toBeLessThanOrEqual(8)
    const seen = [...firstSeenMs].slice(0, -1).map(([id, first]) => (lastSeenMs.get(id) ?? 0) - first)
    expect(Math.max(...seen)).toBeGreaterThanOrEqual(lifetimeMs - 1_500 - 100)
  },
)
