// What STATE_DIRECTORY costs: the start with a full folder, a noted quote, the event loop, the disk, and what kill -9 takes.
// The sides take turns, because other programs may want the machine: npm run bench:journal -- [start] [note] [cost] [disk]
// [kill] [--entries 1000000] [--beside <folder>], where `start` has so many records, and `note` also measures the LevelDB of 1.1.0
// in that checkout, built

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { encodeRecord } from '../../src/journal/records.ts'
import { table } from '../shared/generated.ts'
import { describeMachine } from '../shared/machine.ts'
import { clientsAtOnce, closeUpstream, idOf, type RunningGateway, startGateway } from './gateway.ts'
import { noteCost } from './note.ts'
import { openFolder, quoteRecord, sizeOf } from './records.ts'

const startRounds = 6
const noteRounds = 6
const costRounds = 8
const requestsPerRound = 3_000
const kills = 25
/** The hour is played this many times faster. */
const hastes = 60
const { values, positionals: wanted } = parseArgs({
  options: { beside: { type: 'string' }, entries: { type: 'string', default: '200000' } },
  allowPositionals: true,
})
const entries = Number(values.entries)
const folders = mkdtempSync(join(tmpdir(), 'quotegate-journal-'))
process.on('exit', () => rmSync(folders, { recursive: true, force: true }))

const spread = (values: number[], digits: number) => {
  const sorted = values.toSorted((left, right) => left - right)
  const [least = 0, median = 0, most = 0] = [sorted[0], sorted[Math.floor(sorted.length / 2)], sorted.at(-1)]
  return `${median.toFixed(digits)} (${least.toFixed(digits)} to ${most.toFixed(digits)})`
}

async function start(): Promise<string> {
  const folder = join(folders, 'full')
  const journal = await openFolder(folder, { maxRecords: entries })
  for (let index = 0; index < entries; index += 1) {
    journal.append(quoteRecord(index))
    if (index % 10_000 === 0) await pause(100)
  }
  await journal.close()
  const sides = [
    { side: 'without', directory: undefined },
    { side: 'empty', directory: join(folders, 'empty') },
    { side: 'full', directory: folder },
    { side: 'full, after kill -9', directory: folder },
  ].map((side) => ({ ...side, tookMs: [] as number[], waitMs: [] as number[], residentMib: [] as number[] }))
  const settings = { LEDGER_ENTRIES: `${entries}` }
  for (let round = 0; round < startRounds; round += 1) {
    for (const { side, directory, tookMs, waitMs, residentMib } of sides) {
      if (side === 'full, after kill -9') await (await startGateway(directory, settings)).stop('SIGKILL')
      const gateway = await startGateway(directory, settings)
      const gauges = await gateway.gauges()
      // The line of a clean end counts as a record, and then the oldest is one too many.
      const isRestored = gauges.restored >= entries - 1
      if (directory === folder && !isRestored) throw new Error(`${gauges.restored} records were restored`)
      tookMs.push(gateway.startMs)
      waitMs.push(gateway.longestWaitMs)
      residentMib.push(gauges.residentMib)
      await gateway.stop('SIGTERM')
    }
  }
  return table(
    [
      `STATE_DIRECTORY (full: ${entries} records)`,
      'process start to listening, ms',
      'longest answer of /healthz meanwhile, ms',
      'resident, MiB',
    ],
    sides.map(({ side, tookMs, waitMs, residentMib }) => [
      side,
      ...[tookMs, waitMs, residentMib].map((values) => spread(values, 0)),
    ]),
  )
}

async function note(): Promise<string> {
  const folder = join(folders, 'note')
  const before = values.beside === undefined ? undefined : await noteCostAt(values.beside)
  const sides = [
    { side: 'without STATE_DIRECTORY', costs: [] as number[], cost: () => noteCost(undefined) },
    { side: 'noted', costs: [] as number[], cost: () => noteCost(folder) },
    ...(before === undefined
      ? []
      : [
          { side: '1.1.0, without', costs: [] as number[], cost: () => before(undefined, false) },
          { side: '1.1.0, noted', costs: [] as number[], cost: () => before(folder, false) },
          { side: '1.1.0, noted and later removed', costs: [] as number[], cost: () => before(folder, true) },
        ]),
  ]
  for (let round = 0; round < noteRounds; round += 1)
    for (const { costs, cost } of sides) costs.push(await cost())
  return table(
    ['a quote, without its request', 'processor time of all threads, µs'],
    sides.map(({ side, costs }) => [side, spread(costs, 1)]),
  )
}

type NoteCost = (folder: string | undefined, removes: boolean) => Promise<number>

async function noteCostAt(checkout: string): Promise<NoteCost> {
  const { noteCost } = await import(pathToFileURL(resolve(checkout, 'bench/state/note.ts')).href)
  return noteCost
}

let nextAmount = 1
async function load(gateway: RunningGateway, amountOf: () => number): Promise<number> {
  const before = await gateway.gauges()
  let left = requestsPerRound
  const client = async () => {
    while (left-- > 0) await gateway.ask(amountOf())
  }
  await Promise.all(Array.from({ length: clientsAtOnce }, client))
  // What was noted last is written as well.
  await pause(200)
  return ((await gateway.gauges()).cpuMs - before.cpuMs) * (1_000 / requestsPerRound)
}

/** So many quotes a second that a core is not full; the delay of the event loop's timers of 10 ms. */
async function lag(gateway: RunningGateway): Promise<number> {
  await gateway.gauges()
  const asked: Promise<void>[] = []
  for (let tick = 0; tick < 200; tick += 1) {
    for (let count = 0; count < 6; count += 1) asked.push(gateway.ask(nextAmount++))
    await pause(20)
  }
  const { lagMs } = await gateway.gauges()
  await Promise.all(asked)
  return lagMs
}

async function cost(): Promise<string> {
  const sides = [undefined, join(folders, 'cost')]
  const gateways = await Promise.all(sides.map((side) => startGateway(side)))
  const measures = {
    'miss, µs of processor': (gateway: RunningGateway) => load(gateway, () => nextAmount++),
    'hit, µs of processor': (gateway: RunningGateway) => load(gateway, () => 1),
    'event loop delay p99 at 300 misses a second, ms': lag,
  }
  const rows: string[][] = []
  for (const [what, measure] of Object.entries(measures)) {
    for (const gateway of gateways) for (let warm = 0; warm < 2; warm += 1) await measure(gateway)
    const values: [number[], number[]] = [[], []]
    for (let round = 0; round < 2 * costRounds; round += 1) {
      const side = round % 4 === 0 || round % 4 === 3 ? 0 : 1
      values[side].push(await measure(gateways[side] as RunningGateway))
    }
    const differences = values[1].map((value, round) => value - (values[0][round] ?? 0))
    rows.push([what, spread(values[0], 1), spread(values[1], 1), spread(differences, 1)])
  }
  for (const gateway of gateways) await gateway.stop('SIGTERM')
  return table(['', 'without', 'with STATE_DIRECTORY', 'difference'], rows)
}

async function disk(): Promise<string> {
  const rows: string[][] = []
  for (const [perSecond, keptSeconds] of [
    [55, 3_600],
    [55, 600],
    [5, 600],
  ] as const) {
    const folder = join(folders, `disk-${perSecond}-${keptSeconds}`)
    // Time goes so much faster for the folder as well.
    const journal = await openFolder(folder, { retentionMs: (keptSeconds * 1_000) / hastes })
    const remembered: number[] = []
    let [bytes, maxTimes, maxBytes, noted] = [0, 0, 0, 0]
    for (let second = 0; second < 3_600 + keptSeconds; second += 1) {
      for (let count = 0; count < perSecond; count += 1) {
        const record = quoteRecord(noted++, Date.now() - 30_000)
        journal.append(record)
        const length = encodeRecord(record, { nowMs: Date.now(), steadyMs: 0 }).length + 1
        bytes += length
        remembered.push(length)
      }
      while (remembered.length > perSecond * keptSeconds) bytes -= remembered.shift() ?? 0
      await pause(1_000 / hastes)
      if (second < keptSeconds) continue
      maxBytes = Math.max(maxBytes, sizeOf(folder))
      maxTimes = Math.max(maxTimes, sizeOf(folder) / bytes)
    }
    const mib = (value: number) => (value / 2 ** 20).toFixed(1)
    const name = `${perSecond} a second, ${keptSeconds} s`
    rows.push([name, `${remembered.length}`, mib(bytes), mib(maxBytes), maxTimes.toFixed(2)])
    await journal.close()
  }
  return table(
    ['quotes, kept for', 'remembered', 'their bytes, MiB', 'disk at most, MiB', 'at most times'],
    rows,
  )
}

async function kill(): Promise<string> {
  const agesMs: number[] = []
  const lost: number[] = []
  for (let round = 0; round < kills; round += 1) {
    const folder = join(folders, `kill-${round}`)
    const gateway = await startGateway(folder)
    const answered = new Map<string, number>()
    let isKilled = false
    const client = async () => {
      while (!isKilled) {
        const amount = nextAmount++
        await gateway.ask(amount)
        answered.set(idOf(String(amount)), performance.now())
      }
    }
    const clients = Promise.allSettled(Array.from({ length: clientsAtOnce }, client))
    await pause(800 + Math.random() * 1_500)
    const killedAtMs = performance.now()
    await gateway.stop('SIGKILL')
    isKilled = true
    await clients
    await (await openFolder(folder, { restore: ({ quote }) => void answered.delete(quote.id) })).close()
    const ages = Array.from(answered.values(), (atMs) => killedAtMs - atMs)
    agesMs.push(Math.max(0, ...ages))
    lost.push(ages.length)
  }
  return table(
    ['kill -9 under load', 'quotes lost', 'age of the oldest lost one, ms'],
    [[`${kills} times`, spread(lost, 0), spread(agesMs, 0)]],
  )
}

const { processor, cores, node } = describeMachine(undefined)
process.stdout.write(
  `${processor}, ${cores} cores, Node ${node}, ${new Date().toISOString().slice(0, 10)}; median (least to most)\n\n`,
)
for (const [name, part] of Object.entries({ start, note, cost, disk, kill })) {
  if (wanted.length === 0 || wanted.includes(name)) process.stdout.write(`${await part()}\n\n`)
}
closeUpstream()
// The upstream of the other checkout listens too.
process.exit()
