import { afterAll, expect, test } from 'vitest'
import { FleetClients } from '../clients/fleet-clients.ts'
import { environment } from '../machine/environment.ts'
import type { FleetFault } from '../stores/fleet-faults.ts'
import { movingPrices } from '../upstreams/moving-prices.ts'
import { pause } from './between.ts'
import { BusyMachine, Fleet } from './fleet.ts'
import { type Judgement, judge } from './fleet-truth.ts'

/** How often each fault is played: once in the ordinary suite, ten times in `npm run check:long`. */
const { FLEET_RUNS } = environment()
const runs = Number(FLEET_RUNS ?? 1)

/** Machines that run the ordinary suite may be so busy that a store which is well takes longer than the default. */
const VALKEY_TIMEOUT_MS = FLEET_RUNS === undefined ? '200' : '50'

/** With FLEET_DETAILS all that the table counts is printed. */
const saysAll = environment().FLEET_DETAILS !== undefined

/** After its start a replica lets late orders pass for 2 s. */
const calmAfterMs = 3_000
const beforeMs = 3_500
const newReplicaAfterMs = 2_500
const afterMs = 8_000

/** In three seconds a replica gives some ten quotes, and each that cannot be read is ordered at both others. */
const maxRefusedUntold = { cutOff: 15, busy: 4 }
const maxExcusedShare = 0.4

const never = [
  'liveRefused',
  'late',
  'expiredServed',
  'sentTwice',
  'usedServed',
  'unreadableRefused',
  'failed',
] as const satisfies readonly (keyof Judgement)[]

/** Three replicas under load before, during and after the fault, and a fourth one that starts when it is over. */
async function play(fault: FleetFault): Promise<Judgement> {
  const store = await fault.set()
  const provider = await movingPrices()
  const fleet = new Fleet({
    SWAP_BASE_URL: provider.url,
    VALKEY_TIMEOUT_MS,
    // Where all may know each quote, one that is not known is a fault; the others let such an order pass, as is the default.
    ORDER_UNKNOWN_QUOTE: fault.cutsOffOne ? 'forward' : 'refuse',
  })
  const [first] = store.urls
  for (const [index, url] of store.urls.entries()) await fleet.start(`replica ${index + 1}`, url)
  const machine = new BusyMachine()
  const clients = new FleetClients(fleet)
  const calmAtMs = Date.now() + calmAfterMs
  await pause(calmAfterMs + beforeMs)

  const brokenAtMs = Date.now()
  await store.break(fleet)
  await pause(fault.lastsMs)
  await store.mend?.(fleet)
  const mendedAtMs = Date.now()
  const over = pause(afterMs)
  await store.afterwards?.(fleet)
  await pause(Math.max(0, mendedAtMs + newReplicaAfterMs - Date.now()))
  const newReplica = await fleet.start('the new replica', first)
  await over
  await pause(Math.max(0, newReplica.readyAtMs + calmAfterMs - Date.now()))
  await clients.end()
  await clients.orderAllLate(newReplica)
  return judge({
    ...{ fleet, clients, provider, machine },
    timeline: { calmAtMs, brokenAtMs, mendedAtMs },
    alone: fault.cutsOffOne ? fleet.all[2] : undefined,
  })
}

/** A test for each run of each fault, and a table of them all. */
export function testFaults(faults: readonly FleetFault[]): void {
  const rows: string[] = []
  const names = faults.flatMap((fault) => Array.from({ length: runs }, () => [fault.name, fault] as const))

  test.each(names)('%s', async (name, fault) => {
    const judged = await play(fault)
    rows.push(rowOf(name, judged))
    if (saysAll) process.stdout.write(detailsOf(name, judged))
    for (const list of never) expect(judged[list], list).toEqual([])
    expect(judged.refusedUntold.length).toBeLessThanOrEqual(
      maxRefusedUntold[fault.cutsOffOne ? 'cutOff' : 'busy'],
    )
    // It judged something, and no request waited for the store for long.
    expect(judged.orders).toBeGreaterThan(150)
    expect(judged.overASecond.length).toBeLessThan(judged.requests / 20)
    // What only a busy machine excuses is a fault if that is most of it.
    expect(judged.excusedShare).toBeLessThan(Math.max(maxExcusedShare, judged.busyShare))
  })

  afterAll(() => {
    process.stdout.write(`${[heads, heads.map(() => '---')].map(lineOf).join('\n')}\n${rows.join('\n')}\n`)
  })
}

/** The heads of the table, and the lists that it counts. */
const counted = {
  'live refused': 'liveRefused',
  'late sent meanwhile': 'lateMeanwhile',
  'late sent from 5 s on': 'late',
  'expired served': 'expiredServed',
  'sent twice': 'sentTwice',
  'used served': 'usedServed',
  'unreadable refused': 'unreadableRefused',
  'known to one alone and refused': 'refusedUntold',
  failed: 'failed',
  'over 1 s': 'overASecond',
  'any of these, on a busy machine': 'excused',
} as const satisfies Record<string, keyof Judgement>

const heads = ['fault of the store', 'orders', ...Object.keys(counted), 'slowest, s', 'back after, s']

function rowOf(name: string, judged: Judgement): string {
  const { orders, slowestMs, backAfterMs } = judged
  const counts = Object.values(counted).map((list) => judged[list].length)
  return lineOf([name, orders, ...counts, (slowestMs / 1_000).toFixed(2), (backAfterMs / 1_000).toFixed(1)])
}

function detailsOf(name: string, judged: Judgement): string {
  return Object.values(counted)
    .flatMap((list) => judged[list].map((text) => `${name}: ${list}: ${text}\n`))
    .join('')
}

function lineOf(cells: readonly (string | number)[]): string {
  return `| ${cells.join(' | ')} |`
}
