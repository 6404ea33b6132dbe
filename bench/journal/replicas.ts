/**
 * What the journal of three replicas costs by the calls a second of all of them: their memory, their processor time and the
 * store's. `npx tsx bench/journal/replicas.ts [calls a second] [seconds]` starts a redis-server and three processes, each of
 * which notes a third of the quotes and reads the rest. A quote lives for 30 s, and every tenth call is followed by an order.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { startValkey } from '../../test/support/stores/valkey.ts'
import type { Measured } from './replica.ts'

const rate = Number(process.argv[2] ?? 100)
const seconds = Number(process.argv[3] ?? 30)
const replicas = 3

const folder = mkdtempSync(join(tmpdir(), 'quotegate-replicas-'))
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
// As the program is built: what tsx adds to functions would be measured too.
const program = join(folder, 'replica.mjs')
const requireOf =
  "import { createRequire as requireOf } from 'node:module'; const require = requireOf(import.meta.url)"
await build({
  entryPoints: [fileURLToPath(new URL('replica.ts', import.meta.url))],
  outfile: program,
  bundle: true,
  platform: 'node',
  format: 'esm',
  banner: { js: requireOf },
})

const store = await startValkey()
async function storeFacts() {
  const text = String(await store.ask('INFO'))
  const factOf = (name: string) => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(text)?.[1])
  const cpuSeconds = factOf('used_cpu_user') + factOf('used_cpu_sys')
  return { cpuSeconds, memoryBytes: factOf('used_memory'), commands: factOf('total_commands_processed') }
}

function start(): ChildProcess {
  const given = [store.url, String(rate / replicas), String(seconds)]
  return spawn(process.execPath, ['--expose-gc', program, ...given], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
}

const before = await storeFacts()
const children = Array.from({ length: replicas }, start)
const measured = await Promise.all(
  children.map(async (child) => (await once(child, 'message'))[0] as Measured),
)
const after = await storeFacts()
for (const child of children) child.kill()
await store.end()

const mean = (read: (one: Measured) => number) =>
  measured.map(read).reduce((sum, one) => sum + one, 0) / replicas
const percent = (cpuMs: number, ofMs: number) => `${((cpuMs / ofMs) * 100).toFixed(1)} % of a core`
const storeBytes = after.memoryBytes - before.memoryBytes
const lines = [
  `${cpus()[0]?.model}, Node ${process.version}; ${rate} calls a second of ${replicas} replicas for ${seconds} s`,
  `quotes in each ledger: ${mean(({ known }) => known).toFixed(0)}`,
  `resident: ${mean(({ residentMiB }) => residentMiB).toFixed(0)} MiB, empty ${mean(({ emptyMiB }) => emptyMiB).toFixed(0)} MiB`,
  `a replica: ${percent(
    mean(({ cpuMs }) => cpuMs),
    seconds * 1_000,
  )}, idle ${percent(
    mean(({ idleCpuMs }) => idleCpuMs),
    2_000,
  )}`,
  `the store: ${percent((after.cpuSeconds - before.cpuSeconds) * 1_000, seconds * 1_000)}, ${((after.commands - before.commands) / seconds).toFixed(0)} commands a second`,
  `memory of the store: ${(storeBytes / 2 ** 20).toFixed(1)} MiB, ${(storeBytes / (rate * seconds)).toFixed(0)} bytes a record`,
  `behind at the end: ${mean(({ behind }) => behind).toFixed(0)}; orders not caught up: ${mean(({ notCaughtUp }) => notCaughtUp).toFixed(0)} a replica`,
  `the longest turn of the event loop: ${mean(({ longestTurnMs }) => longestTurnMs).toFixed(0)} ms`,
]
process.stdout.write(`${lines.join('\n')}\n`)
process.exit(0)
