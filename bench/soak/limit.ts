/**
 * Hits and misses at more than the gateway's core can do, from clients that do not wait for each other:
 * `npm run build && npx tsx bench/soak/limit.ts [--seconds 60]`.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { fromBackend } from '../compare/cases/case.ts'
import {
  clients,
  headerLines,
  newNumbers,
  quoteProbe,
  quoteTargetOf,
} from '../shared/backend-requests.ts'
import { gateway, gatewayName } from '../shared/contender.ts'
import { builtProgram, machineAsText, pinLoad } from '../shared/machine.ts'
import { RawConnection, requestText } from '../shared/raw-client.ts'
import { openStage } from '../shared/stage.ts'
import { count, table } from '../shared/table.ts'

const { values: flags } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    /** Of the capacity. */
    times: { type: 'string', default: '2' },
    /** Open from the start, as a balancer has them. A request that finds none free is not sent. */
    connections: { type: 'string', default: '4000' },
    'port-base': { type: 'string', default: '18700' },
  },
})
const calm = { share: 0.4, seconds: 10 }
const windowMs = 250

const pinned = pinLoad()
const say = (text: string) => process.stderr.write(`${text}\n`)
const stage = await openStage({
  portBase: Number(flags['port-base']),
  pinned,
  program: builtProgram,
  say,
})
const placed = await stage.place(gateway(gatewayName))

/** Every second request asks for a quote that is in the cache. */
async function requestsPerSecond(): Promise<number> {
  const amount = `(sent % 2 == 0 and 5 or ${newNumbers()})`
  const figures = await placed.load({
    ...fromBackend,
    target: quoteTargetOf('*'),
    amount,
    seconds: calm.seconds,
  })
  return figures.requestsPerSecond ?? Number.NaN
}
await requestsPerSecond()
const capacity = await requestsPerSecond()

/** Each client's request, without its amount. */
const prepared = Array.from({ length: clients }, (_, number) =>
  requestText({ target: quoteTargetOf('*'), headers: headerLines(number) }).split('*'),
)
const firstNew = Number.parseInt(newNumbers(), 10)
const free: RawConnection[] = []
while (free.length < Number(flags.connections)) {
  const connection = await RawConnection.open(placed.port)
  // A connection that has never sent anything is soon closed.
  await connection.ask(requestText(quoteProbe))
  free.push(connection)
}
let requests = 0

interface Answered {
  isHit: boolean
  /** Since the phase began. */
  dueMs: number
  tookMs: number
}

/** What became of a request, if it was not answered with a quote. */
async function send(
  answered: Answered[],
  beganMs: number,
  dueMs: number,
): Promise<string | undefined> {
  requests += 1
  const isHit = requests % 2 === 0
  const connection = free.shift()
  if (connection === undefined) return 'not sent: no connection is free'
  try {
    const [head, tail] = prepared[requests % clients] ?? []
    const { status, body } = await connection.ask(
      `${head}${isHit ? '0.1' : firstNew + requests}${tail}`,
    )
    free.push(connection)
    if (status !== 200)
      return `${status} ${JSON.parse(body.toString()).type?.split(':').at(-1)}`
    answered.push({ isHit, dueMs, tookMs: performance.now() - beganMs - dueMs })
    return undefined
  } catch (error) {
    connection.close()
    return `broken off: ${(error as Error).message}`
  }
}

/** Sends each request when it is due, whatever became of those before it. */
async function play(name: string, times: number, seconds: number) {
  const phase = {
    name,
    seconds,
    sent: 0,
    lateMs: 0,
    answered: [] as Answered[],
    refused: new Map<string, number>(),
  }
  const everyMs = 1_000 / (capacity * times)
  say(`${name}: ${count(capacity * times)} requests/s for ${seconds} s`)
  const beganMs = performance.now()
  for (let nowMs = 0; nowMs < seconds * 1_000; nowMs = performance.now() - beganMs) {
    for (; phase.sent * everyMs <= nowMs; phase.sent += 1) {
      const dueMs = phase.sent * everyMs
      phase.lateMs = Math.max(phase.lateMs, nowMs - dueMs)
      void send(phase.answered, beganMs, dueMs).then((why) => {
        if (why) phase.refused.set(why, (phase.refused.get(why) ?? 0) + 1)
      })
    }
    await pause(1)
  }
  return phase
}

function percentile(answered: readonly Answered[], share: number): number {
  const sorted = answered.map(({ tookMs }) => tookMs).sort((left, right) => left - right)
  return sorted[Math.floor((sorted.length - 1) * share)] ?? Number.NaN
}

// Compiles what is measured.
await play('warm-up', calm.share, calm.seconds)
const before = await play('before', calm.share, calm.seconds)
const past = await play(
  `${flags.times} × the capacity`,
  Number(flags.times),
  Number(flags.seconds),
)
const after = await play('after', calm.share, calm.seconds)
// What was sent last may still be answered.
await pause(2_000)

const phases = [before, past, after]
const hitsOf = ({ answered }: typeof past) => answered.filter(({ isHit }) => isHit)
const rows = phases.map((phase) => {
  const misses = phase.answered.filter(({ isHit }) => !isHit)
  const waits = [
    percentile(hitsOf(phase), 0.5),
    percentile(hitsOf(phase), 0.99),
    percentile(misses, 0.99),
  ]
  const rates = [phase.sent / phase.seconds, phase.answered.length / phase.seconds]
  return [
    phase.name,
    ...rates.map((rate) => count(rate)),
    ...[...waits, phase.lateMs].map((ms) => count(ms, 1)),
  ]
})
const refused = phases.flatMap(({ name, refused: whys }) =>
  Array.from(whys, ([why, times]) => [name, why, count(times)]),
)
const normalMs = 2 * percentile(hitsOf(before), 0.99) + 5
/** From here on, no window of the calm phase is slower than normal. */
let backAfterMs = 0
for (let atMs = 0; atMs < calm.seconds * 1_000; atMs += windowMs) {
  const due = hitsOf(after).filter(
    ({ dueMs }) => dueMs >= atMs && dueMs < atMs + windowMs,
  )
  if (!(percentile(due, 0.99) <= normalMs)) backAfterMs = atMs + windowMs
}
process.stdout.write(`${machineAsText(pinned)}; capacity ${count(capacity)} requests/s, half of them misses, over 64
connections; then over ${flags.connections}.

${table(['', 'due/s', 'quotes/s', 'hits: p50 ms', 'p99 ms', 'misses: p99 ms', 'client late by, ms'], rows)}

${table(['', 'what was not answered with a quote', 'how often'], refused)}

Back to normal (p99 of the hits due in ${windowMs} ms at most ${count(normalMs, 1)} ms) after ${backAfterMs} ms.
`)
await placed.stop()
await stage.close()
process.exit(0)
