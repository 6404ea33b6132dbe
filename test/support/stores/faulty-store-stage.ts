import { expect, onTestFinished } from 'vitest'
import { startSandbox } from '../../../src/sandbox/sandbox.ts'
import { counted } from '../clients/quotes.ts'
import { gatewayTo, pause } from '../gateways/between.ts'
import type { RunningGateway } from '../gateways/gateway.ts'
import { eventually } from '../gateways/replicas.ts'
import type { StoreFault } from './store-faults.ts'
import { everyKindOfRequest, quoteAt, type Sent } from './store-users.ts'

/** Long, so that a machine that is busy otherwise takes nothing for a fault of the store. */
const timeoutMs = 2_000

const isUp = async (gateway: RunningGateway) => (await counted(gateway, 'quotegate_store_up')) === 1

/** Two replicas on a store that can be broken, in front of a sandbox. */
async function setStage({ set, fromTheStart }: StoreFault) {
  const store = await set()
  onTestFinished(() => store.end())
  const sandbox = await startSandbox({ quoteLifetimeMs: 120_000 })
  onTestFinished(() => sandbox.close())
  if (fromTheStart) await store.break()
  const replica = () => gatewayTo(sandbox.url, { VALKEY_URL: store.url, VALKEY_TIMEOUT_MS: timeoutMs })
  const replicas = [await replica(), await replica()] as const
  if (!fromTheStart) for (const gateway of replicas) await eventually('the store', () => isUp(gateway))
  return { store, replicas }
}

async function statusOf({ operationsUrl }: RunningGateway) {
  const status = await fetch(`${operationsUrl}/status`)
  const { degraded } = (await status.json()) as { degraded: boolean }
  return { degraded, ready: (await fetch(`${operationsUrl}/readyz`)).status }
}

/** How many calls went out to the store for requests. The journal looks whether it is back. */
async function callsOf(gateway: RunningGateway): Promise<number> {
  const page = await gateway.metrics()
  const lines = page.matchAll(
    /^quotegate_store_operations_total\{op="(?!journal-)[\w-]+",outcome="(\w+)"\} (\d+)$/gm,
  )
  return [...lines].reduce((sum, [, outcome, count]) => sum + (outcome === 'skipped' ? 0 : Number(count)), 0)
}

/** What was sent before the fault ends when its connection is replaced. */
async function callsAtRest(gateway: RunningGateway): Promise<number> {
  for (;;) {
    const calls = await callsOf(gateway)
    await pause(3_000)
    if ((await callsOf(gateway)) === calls) return calls
  }
}

/** What one replica fetched is served by the other. */
async function expectToShare([here, there]: readonly [RunningGateway, RunningGateway]): Promise<void> {
  await eventually('a quote that is shared', async () => {
    const amount = `${1 + Math.floor(Math.random() * 1e9)}`
    return (await quoteAt(here, amount)).id === (await quoteAt(there, amount)).id
  })
}

/** Sends every kind of request before the fault, during it and after it. */
export async function expectNoRequestToFail(fault: StoreFault): Promise<void> {
  const { store, replicas } = await setStage(fault)
  const [gateway] = replicas
  const sent: Sent[] = []
  if (!fault.fromTheStart) {
    await expectToShare(replicas)
    await store.break()
  }
  sent.push(...(await everyKindOfRequest(gateway)))

  if (!fault.passes) {
    await eventually('the store to be known as down', async () => !(await isUp(gateway)))
    expect(await statusOf(gateway)).toEqual({ degraded: true, ready: 200 })
    const callsBefore = await callsAtRest(gateway)
    for (let round = 0; round < 5; round += 1) sent.push(...(await everyKindOfRequest(gateway)))
    expect(await callsOf(gateway), 'a store that is down is not asked').toBe(callsBefore)
    await store.mend()
  }

  await eventually('the store to be shared again', () => isUp(gateway))
  await expectToShare(replicas)
  expect(await statusOf(gateway)).toEqual({ degraded: false, ready: 200 })
  sent.push(...(await everyKindOfRequest(gateway)))
  expect(sent.filter(({ good }) => !good)).toEqual([])
  // One wait is allowed, two in a row are not.
  expect(Math.max(...sent.map(({ ms }) => ms))).toBeLessThan(1.9 * timeoutMs)
}
