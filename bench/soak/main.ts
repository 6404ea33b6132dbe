/** Hours in minutes: clients that come and go, upstreams that fail at random, and promises that must hold nevertheless. */
import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { soakUnderAttack } from './attack/run.ts'
import { startChaos } from './chaos.ts'
import { beClient, idHeader, newTally } from './clients.ts'
import type { Ask, Memory, Report } from './gateway.ts'
import { bytesPerMinute } from './slope.ts'

const { values } = parseArgs({
  options: { minutes: { type: 'string' }, attack: { type: 'boolean', default: false } },
})
const minutes = Number(values.minutes ?? (values.attack ? '5' : '20'))
if (!(minutes > 0)) throw new Error('--minutes takes a number above 0')
if (values.attack) process.exit(await soakUnderAttack(minutes))
const durationMs = minutes * 60_000

const clients = 24
const sampleEveryMs = 2_000
const progressEveryMs = 10_000
/** By then caches, pools and compiled code have reached their size. */
const warmUpMs = Math.max(30_000, durationMs * 0.3)
/** Fewer samples cannot tell a leak from noise. */
const minSamples = 10
// Runs of two minutes of one build gave -0.4 and 1.1 MB, one of four gave 0.1; a leak of 20 bytes a request would be 2 MB.
// Runs of one minute, of which only the second half is judged, gave 0.7 and 1.2 MB, so they may grow twice as fast.
const maxSlope = (durationMs < 120_000 ? 4 : 2) * 1_048_576
const exitWithinMs = 15_000

const chaos = await startChaos(idHeader)
const settings = {
  PORT: 0,
  ADMIN_PORT: 0,
  SWAP_BASE_URL: chaos.url,
  PAYMENTS_BASE_URL: chaos.url,
  UPSTREAM_CONNECTIONS: 16,
  UPSTREAM_HEADERS_TIMEOUT_MS: 1_000,
  UPSTREAM_TOTAL_TIMEOUT_MS: 2_000,
  QUOTE_REFRESH_AHEAD_MS: 200,
  // Small enough to be full before the memory is measured.
  QUOTE_CACHE_ENTRIES: 50,
  LEDGER_ENTRIES: 200,
}
const limits = { queue: 64, breakerOpenMs: 200 }
const child = fork(
  fileURLToPath(new URL('./gateway.ts', import.meta.url)),
  [JSON.stringify(settings), JSON.stringify(limits)],
  {
    execArgv: ['--expose-gc', '--import', 'tsx'],
  },
)
const exited = new Promise<number | null>((resolve) => child.once('exit', resolve))

function reported<Key extends string>(
  key: Key,
): Promise<Extract<Report, Record<Key, unknown>>[Key]> {
  return new Promise((resolve, reject) => {
    const onMessage = (message: Report) => {
      if (!(key in message)) return
      child.off('message', onMessage)
      resolve((message as Extract<Report, Record<Key, unknown>>)[key])
    }
    child.on('message', onMessage)
    void exited.then((code) =>
      reject(new Error(`the gateway ended with exit code ${code}`)),
    )
  })
}

function ask(what: Ask): void {
  child.send(what)
}

const url = await reported('listening')
const tally = newTally()
const startedAtMs = performance.now()
const elapsedMs = () => performance.now() - startedAtMs
const samples: (Memory & { atMs: number })[] = []
const megabytes = (bytes: number) => `${(bytes / 1_048_576).toFixed(1)} MB`
const say = (text: string) => process.stdout.write(`${text}\n`)
const faults = () => Object.values(chaos.injected).reduce((sum, count) => sum + count, 0)

async function sample(): Promise<void> {
  const answer = reported('memory')
  ask('memory')
  samples.push({ atMs: elapsedMs(), ...(await answer) })
}

function progress(): void {
  const { requests, answered, problems, broken, left, wrong, expired, forgotten } = tally
  const resident = megabytes(samples.at(-1)?.residentBytes ?? 0)
  say(
    `${String(Math.round(elapsedMs() / 1_000)).padStart(5)} s  ${requests} requests, ${faults()} faults: ${answered} answered ` +
      `(${problems} problems), ${broken} broken, ${left} left; wrong ${wrong.length}, expired ${expired.length}, ` +
      `forgotten ${forgotten.length}; ${resident} resident`,
  )
}

await sample()
const sampling = setInterval(() => void sample(), sampleEveryMs)
const reporting = setInterval(progress, progressEveryMs)
await Promise.all(
  Array.from({ length: clients }, () =>
    beClient(url, tally, () => elapsedMs() >= durationMs),
  ),
)
clearInterval(sampling)
clearInterval(reporting)
await sample()
progress()

const closed = reported('closed')
ask('close')
const left = await closed
const exit = await Promise.race([
  exited,
  new Promise<string>((resolve) =>
    setTimeout(resolve, exitWithinMs, 'did not end').unref(),
  ),
])
child.kill('SIGKILL')
await chaos.close()

let passed = 0
let failed = 0
function promise(name: string, broken: readonly string[]): void {
  if (broken.length === 0) passed += 1
  else failed += 1
  say(`${broken.length === 0 ? 'ok' : 'FAILED'}: ${name}`)
  for (const line of broken.slice(0, 5)) say(`    ${line}`)
  if (broken.length > 5) say(`    and ${broken.length - 5} more`)
}

const settled = samples.filter(({ atMs }) => atMs >= warmUpMs)
const slope = bytesPerMinute(
  settled.map(({ atMs, keptBytes }) => ({ atMs, bytes: keptBytes })),
)
const twice = [...chaos.seen].filter(([, count]) => count > 1)
const middle = samples[Math.floor(samples.length / 2)]
say(
  `\n${tally.requests} requests, ${tally.quotes} quotes, ${tally.posts} POSTs (${chaos.seen.size} seen upstream); faults ` +
    `injected: ${JSON.stringify(chaos.injected)}`,
)
say(
  `resident: ${megabytes(samples[0]?.residentBytes ?? 0)} at the start, ${megabytes(middle?.residentBytes ?? 0)} in the ` +
    `middle, ${megabytes(samples.at(-1)?.residentBytes ?? 0)} at the end`,
)
const { answered, broken } = tally
promise(
  'the soak has soaked',
  answered > 100 && faults() > 10 && broken > 0 ? [] : [JSON.stringify(tally)],
)
promise('every client got an answer or a broken connection', tally.forgotten)
promise('no answer was wrong, or short and looked whole', tally.wrong)
promise(
  'every POST was seen upstream at most once',
  twice.map(([id, count]) => `${id}: ${count} times`),
)
promise('no quote was served that had expired', tally.expired)
if (settled.length < minSamples) say('memory: not judged, the run was too short for that')
else {
  promise(
    `memory after a collection is flat (${megabytes(slope)} a minute)`,
    slope < maxSlope
      ? []
      : settled.map(
          ({ atMs, keptBytes }) =>
            `${Math.round(atMs / 1_000)} s: ${megabytes(keptBytes)}`,
        ),
  )
}
promise('nothing is left open after the close', left)
promise('the process ends by itself', exit === 0 ? [] : [`exit: ${exit}`])
say(` Tests  ${passed} passed | ${failed} failed`)
process.exit(failed === 0 ? 0 : 1)
