/**
 * What each fault of the shared store costs a request: `npx tsx bench/soak/store-faults.ts [repetitions]`. In each
 * repetition the store is used while healthy, broken, used before the gateway has noticed, used while the gateway knows
 * that it is down, and fixed. One use is a new quote, the same quote again, an order and a payment; its figure is the
 * slowest of the four.
 */
import { startSandbox } from '../../src/sandbox/sandbox.ts'
import { type RunningGateway, startGateway } from '../../test/support/gateways/gateway.ts'
import { type StoreFault, storeFaults } from '../../test/support/stores/store-faults.ts'
import { everyKindOfRequest, type Sent } from '../../test/support/stores/store-users.ts'

const repetitions = Number(process.argv[2] ?? 9)
const timeoutMs = 50

interface Figures {
  before: number[]
  first: number[]
  during: number[]
  backSeconds: number[]
  sent: Sent[]
}

async function untilUp(gateway: RunningGateway, up: 0 | 1): Promise<void> {
  const series = new RegExp(`^quotegate_store_up ${up}$`, 'm')
  while (!series.test(await gateway.metrics()))
    await new Promise((resolve) => setTimeout(resolve, 10))
}

async function measure(fault: StoreFault, figures: Figures): Promise<void> {
  const store = await fault.set()
  const sandbox = await startSandbox({ quoteLifetimeMs: 120_000 })
  if (fault.fromTheStart) await store.break()
  const gateway = await startGateway({
    SWAP_BASE_URL: sandbox.url,
    PAYMENTS_BASE_URL: sandbox.url,
    VALKEY_URL: store.url,
    VALKEY_TIMEOUT_MS: timeoutMs,
  })
  const use = async (into?: number[]) => {
    const sent = await everyKindOfRequest(gateway)
    figures.sent.push(...sent)
    into?.push(Math.max(...sent.map(({ ms }) => ms)))
  }

  // The first requests of a process compile it.
  for (let turn = 0; turn < 20; turn += 1) await use()
  if (!fault.fromTheStart) {
    await untilUp(gateway, 1)
    for (let turn = 0; turn < 5; turn += 1) await use(figures.before)
    await store.break()
    await use(figures.first)
  }
  if (!fault.passes) {
    await untilUp(gateway, 0)
    for (let turn = 0; turn < 5; turn += 1) await use(figures.during)
    await store.mend()
  }
  const fixedAtMs = performance.now()
  await untilUp(gateway, 1)
  figures.backSeconds.push((performance.now() - fixedAtMs) / 1_000)
  for (let turn = 0; turn < 5; turn += 1) await use()
  await gateway.close()
  await sandbox.close()
  await store.end()
}

function quantile(values: readonly number[], share: number): string {
  const sorted = [...values].sort((left, right) => left - right)
  return (
    sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]?.toFixed(1) ??
    '-'
  )
}

const medianAndWorst = (values: readonly number[]) =>
  values.length === 0 ? '-' : `${quantile(values, 0.5)} / ${quantile(values, 1)}`

const row = (cells: readonly string[]) =>
  process.stdout.write(`| ${cells.join(' | ')} |\n`)
const head = [
  'fault of the store',
  'before, ms (median / worst)',
  'first use after it',
  'while it lasts',
  'failed',
  'shared again after, s',
]
row(head)
row(head.map(() => '---'))
for (const fault of storeFaults) {
  const figures: Figures = {
    before: [],
    first: [],
    during: [],
    backSeconds: [],
    sent: [],
  }
  for (let turn = 0; turn < repetitions; turn += 1) await measure(fault, figures)
  const { before, first, during, backSeconds, sent } = figures
  row([
    fault.name,
    ...[before, first, during].map(medianAndWorst),
    `${sent.filter(({ good }) => !good).length} of ${sent.length}`,
    medianAndWorst(backSeconds),
  ])
}
