import { describe, expect, onTestFinished, test } from 'vitest'
import { startSandbox } from '../../src/sandbox/sandbox.ts'
import { counted } from '../support/clients/quotes.ts'
import { gatewayTo } from '../support/gateways/between.ts'
import type { RunningGateway } from '../support/gateways/gateway.ts'
import { eventually } from '../support/gateways/replicas.ts'
import { storeFaults } from '../support/stores/store-faults.ts'
import { everyKindOfRequest, quoteAt } from '../support/stores/store-users.ts'

/** Long, so that a machine that is busy otherwise takes nothing for a fault of the store. */
const timeoutMs = 2_000

const untilUp = (gateway: RunningGateway, up: 0 | 1) =>
  eventually(
    `the store to be ${up}`,
    async () => (await counted(gateway, 'quotegate_store_up')) === up,
  )

async function statusOf({ operationsUrl }: RunningGateway) {
  const status = await fetch(`${operationsUrl}/status`)
  const { degraded } = (await status.json()) as { degraded: boolean }
  return { degraded, ready: (await fetch(`${operationsUrl}/readyz`)).status }
}

// That a store which is down is not asked, and what the log says of it: test/replicas/store-down.program.test.ts.
describe('no request fails for a store that is', { tags: ['redis-server'] }, () => {
  test.each(storeFaults.map((fault) => [fault.name, fault] as const))(
    '%s',
    async (_name, fault) => {
      const store = await fault.set()
      onTestFinished(() => store.end())
      const sandbox = await startSandbox({ quoteLifetimeMs: 120_000 })
      onTestFinished(() => sandbox.close())
      if (fault.fromTheStart) await store.break()
      const replica = () =>
        gatewayTo(sandbox.url, { VALKEY_URL: store.url, VALKEY_TIMEOUT_MS: timeoutMs })
      const [here, there] = [await replica(), await replica()]
      if (!fault.fromTheStart) {
        await untilUp(here, 1)
        await store.break()
      }
      const sent = await everyKindOfRequest(here)
      if (!fault.passes) {
        await untilUp(here, 0)
        expect(await statusOf(here)).toEqual({ degraded: true, ready: 200 })
        sent.push(...(await everyKindOfRequest(here)))
        await store.mend()
      }
      for (const gateway of [here, there]) await untilUp(gateway, 1)
      await eventually('a quote that is shared', async () => {
        const amount = `${1 + Math.floor(Math.random() * 1e9)}`
        return (await quoteAt(here, amount)).id === (await quoteAt(there, amount)).id
      })
      // The journal is read once more first.
      await expect.poll(() => statusOf(here)).toEqual({ degraded: false, ready: 200 })
      sent.push(...(await everyKindOfRequest(here)))
      expect(sent.filter(({ good }) => !good)).toEqual([])
      // One wait is allowed, two in a row are not.
      expect(Math.max(...sent.map(({ ms }) => ms))).toBeLessThan(1.9 * timeoutMs)
    },
    90_000,
  )
})
