import { fork } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { maxClientConnections } from '../../../src/server/listen.ts'
import type { AttackReport } from './attackers.ts'
import { startAttackedGateway } from './gateway.ts'
import { HonestClient, newHonestTally } from './honest.ts'
import { planFor } from './plan.ts'
import { startAttackedUpstream } from './upstream.ts'

/** CLIENT_CONNECTIONS. */
const defaultConnections = 10_000
const maxResidentBytes = 700 * 1_048_576
const aimHitMs = 250
const progressEveryMs = 10_000

const hitClients = 16
const otherClients = 4
const amounts = ['0.1', '0.2', '0.5', '1']

const say = (text: string) => process.stdout.write(`${text}\n`)
const megabytes = (bytes: number) => `${Math.round(bytes / 1_048_576)} MB`
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** Every attack at once, beside honest clients. Returns the exit code. */
export async function soakUnderAttack(minutes: number): Promise<number> {
  const upstream = await startAttackedUpstream()
  const gateway = await startAttackedGateway(upstream.url)
  const limits = `Max open files ${gateway.descriptors}`
  const ownLimit = Number(
    /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1],
  )
  const plan = planFor(
    Math.min(defaultConnections, maxClientConnections(limits) ?? defaultConnections),
    ownLimit,
  )
  say(
    `descriptors: the gateway may open ${gateway.descriptors}; connections: ${JSON.stringify(plan)}`,
  )

  const tally = newHonestTally()
  let isOver = false
  const clients: HonestClient[] = []
  const keep = (
    count: number,
    everyMs: number,
    act: (client: HonestClient, turn: number) => Promise<unknown>,
  ) =>
    Array.from({ length: count }, async (_, index) => {
      const client = new HonestClient(gateway.url, tally)
      clients.push(client)
      for (let turn = index; !isOver; turn += 1) {
        await act(client, turn)
        await pause(everyMs)
      }
    })
  const amountOf = (turn: number) => amounts[turn % amounts.length] as string
  const honest = [
    ...keep(hitClients, 20, (client, turn) => client.quote(amountOf(turn))),
    ...keep(otherClients, 100, (client, turn) => client.order(`1.${turn % 50}1`)),
    ...keep(otherClients, 100, (client) => client.pay()),
    ...keep(otherClients, 100, (client, turn) =>
      client.get(turn % 2 === 0 ? '/v3/assets' : '/checkouts/1'),
    ),
  ]
  // Their connections are open, and what they ask for is cached.
  await pause(2_000)
  const calmHits = tally.hitMs.splice(0)

  const attackers = fork(
    fileURLToPath(new URL('./attackers.ts', import.meta.url)),
    [gateway.url, JSON.stringify(plan)],
    { execArgv: ['--import', 'tsx'] },
  )
  let report: AttackReport = { open: {}, resets: 0 }
  attackers.on('message', (message: AttackReport) => {
    report = message
  })
  const startedAtMs = performance.now()
  let peakBytes = 0
  let nextProgressMs = progressEveryMs
  const served = (): Record<string, number> => ({
    hits: tally.hitMs.length,
    orders: tally.orders - tally.refusedOrders.length,
    others: tally.others,
  })
  let atHalf: Record<string, number> | undefined
  while (
    gateway.exit === undefined &&
    performance.now() - startedAtMs < minutes * 60_000
  ) {
    await pause(250)
    if (gateway.exit === undefined) peakBytes = gateway.peakBytes
    const elapsedMs = performance.now() - startedAtMs
    if (elapsedMs >= minutes * 30_000) atHalf ??= served()
    if (elapsedMs < nextProgressMs) continue
    nextProgressMs += progressEveryMs
    const { length } = tally.hitMs
    say(
      `${String(Math.round(elapsedMs / 1_000)).padStart(5)} s  ${megabytes(gateway.residentBytes)} resident; ${length} hits, ` +
        `${tally.orders} orders (${tally.refusedOrders.length} not accepted), ${tally.others} others; ` +
        `attack: ${JSON.stringify(report)}`,
    )
  }
  const diedWith = gateway.exit
  const lastedSeconds = Math.round((performance.now() - startedAtMs) / 1_000)
  isOver = true
  attackers.kill('SIGKILL')
  await Promise.all(honest)
  for (const client of clients) client.close()
  await gateway.stop()
  upstream.close()

  const twice = [...upstream.seen].filter(([, count]) => count > 1)
  const lost = tally.accepted.filter((id) => !upstream.seen.has(id))
  say('')
  say(
    `hits: ${figures(tally.hitMs)} under attack (aim: p99 below ${aimHitMs} ms); ${figures(calmHits)} before`,
  )
  say(
    `resident: ${megabytes(peakBytes)} at most; quote calls: ${upstream.quoteCalls}; resets: ${report.resets}`,
  )
  say(
    `small GETs, payments and quotes that failed: ${JSON.stringify(Object.fromEntries(tally.failed))}`,
  )

  let failed = 0
  let passed = 0
  function check(name: string, broken: readonly string[]): void {
    if (broken.length === 0) passed += 1
    else failed += 1
    say(`${broken.length === 0 ? 'ok' : 'FAILED'}: ${name}`)
    for (const line of broken.slice(0, 5)) say(`    ${line}`)
    if (broken.length > 5) say(`    and ${broken.length - 5} more`)
  }
  const didAttack =
    Object.values(report.open).some((count) => count > 0) && report.resets > 0
  check('the attack has attacked', didAttack || diedWith ? [] : [JSON.stringify(report)])
  check(
    'the gateway is alive',
    diedWith ? [`it ended after ${lastedSeconds} s: ${JSON.stringify(diedWith)}`] : [],
  )
  check(
    `less than ${megabytes(maxResidentBytes)} were resident`,
    peakBytes < maxResidentBytes ? [] : [megabytes(peakBytes)],
  )
  check(
    'hits, orders, small GETs and payments went on in the second half',
    Object.entries(served()).flatMap(([what, count]) =>
      count > (atHalf?.[what] ?? count)
        ? []
        : [`${what}: ${atHalf?.[what]} at half time, ${count} at the end`],
    ),
  )
  check('every order of 300 bytes was accepted', diedWith ? [] : tally.refusedOrders)
  check(
    'every request of an honest client got an answer or a broken connection',
    diedWith ? [] : tally.forgotten,
  )
  check('no answer was wrong', tally.wrong)
  check('no quote was served that had expired', tally.expired)
  check('every POST was seen upstream at most once, and every accepted one was', [
    ...twice.map(([id, count]) => `${id}: ${count} times`),
    ...lost.map((id) => `${id}: never`),
  ])
  check(
    'nothing was sent for a client that had left before it was accepted',
    upstream.withoutAddress === 0
      ? []
      : [`${upstream.withoutAddress} requests with for=unknown`],
  )
  say(` Tests  ${passed} passed | ${failed} failed`)
  return failed === 0 ? 0 : 1
}

function figures(ms: readonly number[]): string {
  const sorted = [...ms].sort((left, right) => left - right)
  const at = (share: number) =>
    `${(sorted[Math.floor(sorted.length * share)] ?? 0).toFixed(1)} ms`
  return `${sorted.length}, p50 ${at(0.5)}, p99 ${at(0.99)}, max ${(sorted.at(-1) ?? 0).toFixed(1)} ms`
}
