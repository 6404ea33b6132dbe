import { randomUUID } from 'node:crypto'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as pause } from 'node:timers/promises'
import { lookAt, systemClock } from '../../src/clock.ts'
import { readStoreUrl } from '../../src/config/store-url.ts'
import { Events } from '../../src/events.ts'
import { StreamJournal } from '../../src/journal/stream.ts'
import { Ledger } from '../../src/orders/ledger.ts'
import { Notes } from '../../src/orders/notes.ts'
import { silentLogger } from '../../src/process/logger.ts'
import { Valkey } from '../../src/replicas/valkey.ts'

/** What one of the replicas of `replicas.ts` found. */
export interface Measured {
  known: number
  emptyMiB: number
  residentMiB: number
  cpuMs: number
  /** Of two seconds in which nothing was noted. */
  idleCpuMs: number
  behind: number
  notCaughtUp: number
  longestTurnMs: number
}

const lifeMs = 30_000
const idleMs = 2_000
const entries = 200_000
const timeoutMs = 1_000
const [url = '', perSecond = '', seconds = ''] = process.argv.slice(2)
const rate = Number(perSecond)
const log = silentLogger()
const clock = systemClock
const address = readStoreUrl(url)
if ('expected' in address) throw new Error(address.expected)
const events = new Events()
const store = new Valkey({ address, keyPrefix: 'bench:', timeoutMs, log, events })
const journal = new StreamJournal({
  store,
  key: 'bench:journal',
  maxEntries: entries,
  timeoutMs,
  clock,
  log,
  events,
})
const ledger = new Ledger({ entries, retentionMs: 86_400_000, clock })
const notes = new Notes({
  ledger,
  clock,
  journals: journal,
  markOf: (partition) => partition,
  cache: { forgetAll: () => 0 },
  sharedQuotes: { forget() {} },
  events,
})
await store.firstProbe
await journal.start(notes)

const residentMiB = () => process.memoryUsage().rss / 2 ** 20
function cpuMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1_000
}
await pause(idleMs)
const idleFromMs = cpuMs()
await pause(idleMs)
const idleCpuMs = cpuMs() - idleFromMs
const emptyMiB = residentMiB()

function noteOne(): void {
  const { nowMs, steadyMs } = lookAt(clock)
  const amount = String(1 + Math.floor(Math.random() * 5_000) / 1_000)
  const expiresAtMs = nowMs + lifeMs
  const toValue = String(Math.round(Number(amount) * (289 + Math.random()) * 1e6) / 1e6)
  const quote = {
    id: randomUUID(),
    pairId: 'ETH_USDC',
    fromAmount: { assetId: 'ETH', value: amount },
    toAmount: { assetId: 'USDC', value: toValue },
    expiryMs: expiresAtMs,
  }
  const end = { servedUntilMs: expiresAtMs, refusedFromMs: expiresAtMs, wallAheadMs: nowMs - steadyMs }
  void notes.note(
    { quote, end },
    {
      ...{ pair: 'ETH_USDC', canonicalAmount: amount, query: '', target: '', address: undefined },
      keyedHeaders: [['app-name', 'wallet']],
      partition: randomUUID().slice(0, 16),
      key: `#${randomUUID()}-1234567`,
    },
  )
}

const delays = monitorEventLoopDelay({ resolution: 1 })
delays.enable()
const fromMs = cpuMs()
const beganMs = performance.now()
let noted = 0
let orders = 0
let notCaughtUp = 0
for (let tookMs = 0; tookMs < Number(seconds) * 1_000; tookMs = performance.now() - beganMs) {
  const due = Math.floor((tookMs / 1_000) * rate)
  for (; noted < due; noted += 1) noteOne()
  for (; orders < due / 10; orders += 1) {
    void Promise.resolve(journal.caughtUp()).then((isCaughtUp) => {
      if (!isCaughtUp) notCaughtUp += 1
    })
  }
  await pause(2)
}
const spentMs = cpuMs() - fromMs
delays.disable()
await pause(1_000)
globalThis.gc?.()
const measured: Measured = {
  known: ledger.size,
  emptyMiB,
  residentMiB: residentMiB(),
  cpuMs: spentMs,
  idleCpuMs,
  behind: journal.facts.behind,
  notCaughtUp,
  longestTurnMs: delays.max / 1e6,
}
process.send?.(measured)
