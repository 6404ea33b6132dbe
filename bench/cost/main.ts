/**
 * Processor time of each kind of request, and the gateway's memory: prints tables and writes them into docs/scaling.md,
 * whose calculations use them. `npm run cost -- --seconds 2` is a short run.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { gateway } from '../shared/contender.ts'
import { count, replaceGenerated, table } from '../shared/generated.ts'
import { loadServer } from '../shared/load-server.ts'
import { benchDirectory, describeMachine, pinLoad } from '../shared/machine.ts'
import { openStage, type Placed, stopAll } from '../shared/stage.ts'
import { kinds, newQuotes } from './kinds.ts'

const { values: flags } = parseArgs({
  options: {
    seconds: { type: 'string', default: '10' },
    'port-base': { type: 'string', default: '18300' },
  },
})

async function gauges(placed: Placed): Promise<Record<string, number>> {
  const page = await (await fetch(`http://127.0.0.1:${placed.operationsPort}/metrics`)).text()
  return Object.fromEntries(
    Array.from(page.matchAll(/^(\w+) (\S+)$/gm), ([, name, value]) => [name, Number(value)]),
  )
}

function memoryLine(when: string, gauge: Record<string, number>): string[] {
  return [
    when,
    count(gauge.quotegate_cache_entries ?? Number.NaN),
    count(gauge.quotegate_ledger_entries ?? Number.NaN),
    count((gauge.process_resident_memory_bytes ?? Number.NaN) / 2 ** 20),
  ]
}

/** As deploy/kubernetes sets it. */
const heapLimit = '--max-old-space-size=512'

const pinned = pinLoad()
const stage = await openStage({
  portBase: Number(flags['port-base']),
  pinned,
  program: join(benchDirectory, '..', 'dist', 'main.js'),
  say: (text) => process.stderr.write(`${text}\n`),
})
const placed = await stage.place(gateway('quotegate', { settings: { NODE_OPTIONS: heapLimit } }))
const memory = [memoryLine('after the start', await gauges(placed))]
const seconds = Number(flags.seconds)
const rows: string[][] = []
for (const { kind, load } of kinds()) {
  const { cpuMicros = Number.NaN } = await loadServer(placed, { ...load, connections: 64, seconds })
  rows.push([kind, cpuMicros.toFixed(0), count(1e6 / cpuMicros)])
}
memory.push(memoryLine('after these', await gauges(placed)))
for (let round = 2; ; round += 1) {
  const before = (await gauges(placed)).quotegate_ledger_entries ?? Number.NaN
  await loadServer(placed, { ...newQuotes(round * 1_000_000), connections: 64, seconds })
  const after = (await gauges(placed)).quotegate_ledger_entries ?? Number.NaN
  if (!(after > before)) break
}
memory.push(memoryLine('with both full, and still asked for more', await gauges(placed)))
await stopAll([placed])
await stage.close()

const { processor, node } = describeMachine(pinned)
const today = new Date().toISOString().slice(0, 10)
const report = [
  `${processor}, Node ${node}, ${today}; the gateway on a core of its own, 64 connections, metrics on, \`TRUST_PROXY=loopback\`, ` +
    `\`NODE_OPTIONS=${heapLimit}\`, other settings at their defaults; each request has its own id and one of 200 clients.`,
  table(['a request', 'processor time, µs', 'requests/s that fill a core'], rows),
  table(['memory', 'quotes in the cache', 'quotes in the ledger', 'resident, MiB'], memory),
  '',
].join('\n\n')
const page = new URL('../../docs/scaling.md', import.meta.url)
writeFileSync(page, replaceGenerated(readFileSync(page, 'utf8'), report, 'npm run cost'))
process.stdout.write(report)
