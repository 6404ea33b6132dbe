import { expect, test } from 'vitest'
import { FleetClients } from '../clients/fleet-clients.ts'
import { environment } from '../machine/environment.ts'
import type { FleetFault } from '../stores/fleet-faults.ts'
import { movingPrices } from '../upstreams/moving-prices.ts'
import { pause } from './between.ts'
import { BusyMachine, Fleet } from './fleet.ts'
import { faultsIn } from './fleet-truth.ts'

/** How often each fault is played: once in the ordinary suite, ten times in `npm run check:long`. */
const runs = Number(environment().FLEET_RUNS ?? 1)

/** So many processes on few processors make a store that is well take longer than the default: then late orders are sent. */
const VALKEY_TIMEOUT_MS = '500'
const maxTries = 3

/** After its start a replica lets late orders pass for 2 s. */
const calmAfterMs = 3_000
const beforeMs = 3_500
const newReplicaAfterMs = 2_500
const afterMs = 8_000

/** Three replicas under load before, during and after the fault, and a fourth one that starts when it is over. */
async function play(fault: FleetFault) {
  const store = await fault.set()
  const provider = await movingPrices()
  const fleet = new Fleet({
    SWAP_BASE_URL: provider.url,
    VALKEY_TIMEOUT_MS,
    // Where all may know each quote, one that is not known is a fault; the others let such an order pass, as is the default.
    ORDER_UNKNOWN_QUOTE: fault.cutsOffOne ? 'forward' : 'refuse',
  })
  const [first] = store.urls
  for (const [index, url] of store.urls.entries())
    await fleet.start(`replica ${index + 1}`, url)
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
  fleet.end()
  const timeline = { calmAtMs, brokenAtMs, mendedAtMs }
  const alone = fault.cutsOffOne ? fleet.all[2] : undefined
  return {
    faults: faultsIn({ clients, provider, timeline, alone }),
    wasBusy: machine.wasBusy,
  }
}

/** A test for each run of each fault. A machine that was too busy for the store's timeouts has another try. */
export function testFaults(faults: readonly FleetFault[]): void {
  const names = faults.flatMap((fault) =>
    Array.from({ length: runs }, () => [fault.name, fault] as const),
  )

  test.each(names)('%s', async (_name, fault) => {
    const isGood = (played: Awaited<ReturnType<typeof play>>) =>
      Object.values(played.faults).flat().length === 0
    let played = await play(fault)
    for (let tries = 1; tries < maxTries && played.wasBusy && !isGood(played); tries += 1)
      played = await play(fault)
    for (const [what, found] of Object.entries(played.faults))
      expect(found, what).toEqual([])
  })
}
