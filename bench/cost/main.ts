/**
 * Processor time of each kind of request, and the gateway's memory: prints the tables that docs/scaling.md calculates
 * with. `npm run cost -- --seconds 2` is a short run. `-- --before <folder>/dist/main.js` compares with another build
 * instead: medians of rounds in turns on one core, and the median of the ratios of each round.
 */
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { spread } from '../compare/results.ts'
import {
  appHeaders,
  json,
  newQuoteTarget,
  orderBody,
  orderTarget,
  passTarget,
  quoteTarget,
} from '../shared/backend-requests.ts'
import { gateway } from '../shared/contender.ts'
import { benchDirectory, machineAsText, pinLoad } from '../shared/machine.ts'
import { openStage, type Placed, stopAll } from '../shared/stage.ts'
import { count, table } from '../shared/table.ts'
import type { Load } from '../shared/wrk.ts'

const { values: flags } = parseArgs({
  options: {
    before: { type: 'string' },
    rounds: { type: 'string', default: '10' },
    seconds: { type: 'string' },
    'port-base': { type: 'string', default: '18300' },
  },
})
const seconds = Number(flags.seconds ?? (flags.before === undefined ? '10' : '2'))
const program = join(benchDirectory, '..', 'dist', 'main.js')
/** As deploy/kubernetes sets it. */
const settings = { NODE_OPTIONS: '--max-old-space-size=512' }

/** What was not asked for before: the numbers after `begin`. */
const after = (begin: number) => `${begin} + sent`
const newQuotes = (begin: number) => ({ target: newQuoteTarget, amount: after(begin) })
const post = { method: 'POST', headers: { ...appHeaders, ...json } }
const order = { ...post, target: orderTarget, body: orderBody }

const kinds: Record<string, Partial<Load> & { target: string }> = {
  'quote from memory': { target: quoteTarget },
  'float order, judged and sent': order,
  'float order with a key': {
    ...order,
    headers: { ...post.headers, 'Idempotency-Key': 'click-*' },
    amount: after(1_000_000),
  },
  'payment passed through (GET)': { target: passTarget },
  'payment passed through (POST, 1 KiB)': { ...post, target: '/checkouts', body: 'x'.repeat(1_024) },
  'quote fetched and kept': newQuotes(1_000_000),
}

async function cpuMicros(placed: Placed, load: Partial<Load> & { target: string }): Promise<number> {
  const figures = await placed.load({ headers: appHeaders, connections: 64, seconds, ...load })
  return figures.cpuMicros ?? Number.NaN
}

async function gauges(placed: Placed): Promise<Record<string, number>> {
  const page = await (await fetch(`http://127.0.0.1:${placed.operationsPort}/metrics`)).text()
  return Object.fromEntries(
    Array.from(page.matchAll(/^(\w+) (\S+)$/gm), ([, name, value]) => [name, Number(value)]),
  )
}

async function memoryLine(when: string, placed: Placed): Promise<string[]> {
  const gauge = await gauges(placed)
  return [
    when,
    count(gauge.quotegate_cache_entries ?? Number.NaN),
    count(gauge.quotegate_ledger_entries ?? Number.NaN),
    count((gauge.process_resident_memory_bytes ?? Number.NaN) / 2 ** 20),
  ]
}

async function costAndMemory(placed: Placed): Promise<string[]> {
  const memory = [await memoryLine('after the start', placed)]
  const rows: string[][] = []
  for (const [kind, load] of Object.entries(kinds)) {
    const micros = await cpuMicros(placed, load)
    rows.push([kind, micros.toFixed(0), count(1e6 / micros)])
  }
  memory.push(await memoryLine('after these', placed))
  const ledgerEntries = async () => (await gauges(placed)).quotegate_ledger_entries ?? Number.NaN
  for (let round = 2; ; round += 1) {
    const before = await ledgerEntries()
    await cpuMicros(placed, newQuotes(round * 1_000_000))
    if (!((await ledgerEntries()) > before)) break
  }
  memory.push(await memoryLine('with both full, and still asked for more', placed))
  return [
    table(['a request', 'processor time, µs', 'requests/s that fill a core'], rows),
    table(['memory', 'quotes in the cache', 'quotes in the ledger', 'resident, MiB'], memory),
  ]
}

async function inTurns(older: Placed, newer: Placed): Promise<string[]> {
  const rows: string[][] = []
  for (const [kind, load] of Object.entries(kinds)) {
    const micros = { before: [] as number[], after: [] as number[] }
    for (let round = 0; round < Number(flags.rounds); round += 1) {
      const ofRound = load.amount === undefined ? load : { ...load, amount: after((round + 1) * 1_000_000) }
      // Each of them is first in every other round.
      for (const which of round % 2 === 0 ? (['before', 'after'] as const) : (['after', 'before'] as const))
        micros[which].push(await cpuMicros(which === 'before' ? older : newer, ofRound))
    }
    const ratios = micros.after.map((value, round) => value / (micros.before[round] ?? Number.NaN))
    const medians = [spread(micros.before), spread(micros.after)].map(({ median }) => median.toFixed(0))
    rows.push([kind, ...medians, spread(ratios).median.toFixed(2)])
  }
  return [table(['a request', 'before, µs', 'after, µs', 'ratio'], rows)]
}

const pinned = pinLoad()
const say = (text: string) => process.stderr.write(`${text}\n`)
const stage = await openStage({ portBase: Number(flags['port-base']), pinned, program, say })
const placed = await stage.place(gateway('quotegate', { settings }))
const other = flags.before && (await stage.place(gateway('before', { settings, build: flags.before })))
const report = other ? await inTurns(other, placed) : await costAndMemory(placed)
await stopAll(other ? [placed, other] : [placed])
await stage.close()
const how = `64 connections, metrics on, \`TRUST_PROXY=loopback\`, \`NODE_OPTIONS=${settings.NODE_OPTIONS}\``
report.unshift(`${machineAsText(pinned)}; ${how}; each request has its own id and one of 200 clients.`)
process.stdout.write(`${report.join('\n\n')}\n`)
