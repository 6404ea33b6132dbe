/**
 * Where the processor time of a request goes: the built program with one thing taken away, in turns with the whole one.
 * `npx tsx bench/cost/ablate.ts [--ways miss,order] [--only WORD] [--parts] [--floors]`
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { fromBackend, interleave } from '../compare/cases/case.ts'
import { type Row, shown, spread, valuesOf } from '../compare/results.ts'
import { newQuotes, orders, passTarget, quoteTarget } from '../shared/backend-requests.ts'
import { type Contender, gateway } from '../shared/contender.ts'
import {
  benchDirectory,
  builtProgram,
  machineAsText,
  pinLoad,
} from '../shared/machine.ts'
import { type Figures, openStage, type Placed, stopAll } from '../shared/stage.ts'
import { count, table } from '../shared/table.ts'
import { type Ablation, ablations, type Edit, type WayName } from './ablations.ts'
import { buildWith } from './edited-build.ts'
import type { Kind } from './in-turns.ts'

const { values: flags } = parseArgs({
  options: {
    ways: { type: 'string', default: 'GET,hit,order,miss' },
    /** Ablations whose names have this text. */
    only: { type: 'string', default: '' },
    /** A part of the program after the other, each without what the ones before it are without: their savings add up. */
    parts: { type: 'boolean', default: false },
    /** Programs without the gateway: alone, or beside the parts. */
    floors: { type: 'boolean', default: false },
    /** The program of another build, in the same rounds. */
    before: { type: 'string' },
    /** Processes of each program: one differs from another by what its compiler happened to see first. */
    starts: { type: 'string', default: '4' },
    rounds: { type: 'string', default: '2' },
    seconds: { type: 'string', default: '2' },
    'port-base': { type: 'string', default: '18700' },
  },
})

const ways: Readonly<Record<WayName, () => Kind>> = {
  GET: () => ({ target: passTarget }),
  hit: () => ({ target: quoteTarget }),
  order: () => orders,
  miss: newQuotes,
}
const whole = 'the whole program'
const again = 'the same again'
const allAtOnce = 'all of these at once'
const andWithout = 'and without '
/** V8 drops compiled code while a server is idle. */
const warmUpSeconds = 4
const leadInSeconds = 1

const say = (text: string) => process.stderr.write(`${text}\n`)
const pinned = pinLoad()
const stage = await openStage({
  portBase: Number(flags['port-base']),
  pinned,
  program: builtProgram,
  say,
})

/** V8 then writes a line about each collection: how much was allocated before it, and what survived it. */
function tracing(contender: Contender): Contender {
  return {
    ...contender,
    launch(setting) {
      const { command, arguments: line, ...rest } = contender.launch(setting)
      const script = `exec "$0" --trace-gc-nvp "$@" > ${traceOf(setting.directory)}`
      return {
        ...rest,
        command: 'sh',
        arguments: ['-c', `mkdir -p ${setting.directory} && ${script}`, command, ...line],
        files: {},
      }
    },
  }
}

const traceOf = (directory: string) => `${directory}/collections.txt`

/** In use on the heap. Undefined: a floor, which has no metrics. */
async function usedNow({
  contender,
  operationsPort,
}: Placed): Promise<number | undefined> {
  if (contender.skills.length === 0) return undefined
  const page = await fetch(`http://127.0.0.1:${operationsPort}/metrics`)
  const used = /^nodejs_heap_size_used_bytes (\d+)/m.exec(await page.text())?.[1]
  return Number(used)
}

/** The bytes that were allocated until now, and those that collections copied because they were in use. */
async function bytesUntilNow(placed: Placed) {
  const used = await usedNow(placed)
  const text = readFileSync(traceOf(join(stage.directory, String(placed.port))), 'latin1')
  const figures = (name: string) =>
    Array.from(text.matchAll(new RegExp(` ${name}=(\\d+)`, 'g')), ([, bytes]) =>
      Number(bytes),
    )
  const sum = (name: string) => figures(name).reduce((all, bytes) => all + bytes, 0)
  // The last collection left so much; what was allocated since is used, too.
  const left = figures('total_size_after').at(-1) ?? 0
  return {
    allocated: sum('allocated') + (used === undefined ? 0 : used - left),
    survived: sum('promoted') + sum('new_space_survived'),
  }
}

async function loaded(placed: Placed, way: WayName, seconds: number): Promise<Figures> {
  const before = await bytesUntilNow(placed)
  const figures = await placed.load({ ...fromBackend, ...ways[way](), seconds })
  const after = await bytesUntilNow(placed)
  const requests = figures.requests ?? Number.NaN
  return {
    ...figures,
    allocated: (after.allocated - before.allocated) / requests,
    survived: (after.survived - before.survived) / requests,
  }
}

async function programsOf(way: WayName): Promise<Contender[]> {
  const build = await buildWith(whole, [])
  const programs = [gateway(whole, { build }), gateway(again, { build })]
  if (flags.before) programs.push(gateway('before', { build: flags.before }))
  const floors = flags.floors ? floorsOf(way) : []
  const own = ablations.filter(
    (one) => (one.ways?.includes(way) ?? true) && one.name.includes(flags.only),
  )
  if (flags.parts) return [...programs, ...(await withoutParts(way, own)), ...floors]
  if (flags.floors) return [...programs, ...floors]
  for (const { name, edits } of own) {
    say(`building without ${name}`)
    programs.push(gateway(name, { build: await buildWith(name, edits) }))
  }
  if (own.length < 2) return programs
  const every = own.flatMap(({ edits }) => edits)
  programs.push(
    gateway(allAtOnce, { build: await buildWith(`${way} ${allAtOnce}`, every) }),
  )
  return programs
}

/** Each is also without what the ones before it are without. */
async function withoutParts(
  way: WayName,
  own: readonly Ablation[],
): Promise<Contender[]> {
  const gone: Edit[] = []
  const programs: Contender[] = []
  for (const part of new Set(own.map((one) => one.part))) {
    say(`building without ${part}`)
    gone.push(...own.flatMap((one) => (one.part === part ? one.edits : [])))
    const build = await buildWith(`${way} ${part}`, gone)
    programs.push(gateway(`${andWithout}${part}`, { build }))
  }
  return programs
}

const folder = join(benchDirectory, 'cost', 'floors')
const byHandLevels = JSON.parse(readFileSync(join(folder, 'levels.json'), 'utf8'))

function floorsOf(way: WayName): Contender[] {
  const floor = (name: string, file: string, ...more: string[]): Contender => ({
    name,
    skills: [],
    hitHeaders: {},
    launch: ({ port, upstreamPort }) => ({
      command: process.execPath,
      arguments: [join(folder, file), String(port), String(upstreamPort), ...more],
      environment: { NODE_ENV: 'production' },
    }),
  })
  const levels: string[] = way === 'miss' ? byHandLevels : []
  const keepsPromises = way === 'miss' || way === 'order' || way === 'hit'
  return [
    ...levels.map((name, level) => floor(name, 'by-hand.mjs', String(level))),
    ...(keepsPromises ? [floor('200 lines with these promises', 'promises.mjs')] : []),
  ]
}

/** What is saved, next to how far the whole program is from itself. */
function report(way: WayName, rows: readonly Row[]): string {
  const [own, same, ...others] = rows
  if (own === undefined || same === undefined) throw new Error('nothing was measured')
  const median = (row: Row, figure: string) => spread(valuesOf(row, figure)).median
  const micros = (row: Row) => median(row, 'cpuMicros')
  const wholeMicros = (micros(own) + micros(same)) / 2
  const noise = Math.abs(micros(own) - micros(same))
  const wholeBytes = (median(own, 'allocated') + median(same, 'allocated')) / 2
  const isPart = (row: Row) => row.name.startsWith(andWithout)
  const savings = others.map((row, index) => {
    const above = others[index - 1]
    const base = isPart(row) && above !== undefined && isPart(above) ? above : undefined
    return {
      row,
      micros: (base ? micros(base) : wholeMicros) - micros(row),
      bytes: (base ? median(base, 'allocated') : wholeBytes) - median(row, 'allocated'),
    }
  })

  const figuresOf = (row: Row) => [
    row.name,
    shown(spread(valuesOf(row, 'cpuMicros')), 1),
    ...['allocated', 'survived'].map((figure) => count(median(row, figure))),
  ]
  const lines = savings.map((saved) => {
    const text = saved.micros.toFixed(1)
    return [
      ...figuresOf(saved.row),
      Math.abs(saved.micros) > noise ? text : `none (${text})`,
      count(Math.round(saved.bytes)),
    ]
  })
  const head = [way, 'µs', 'bytes', 'copied by collections', 'saved, µs', 'saved, bytes']
  const wholes = [own, same].map((row) => [...figuresOf(row), '', ''])
  const singles = savings.filter(({ row }) =>
    ablations.some(({ name }) => name === row.name),
  )
  const sum = (figure: 'micros' | 'bytes') =>
    singles.reduce((all, saved) => all + saved[figure], 0)
  const sums =
    singles.length > 1
      ? ` Saved one at a time, added up: ${sum('micros').toFixed(1)} µs, ${count(Math.round(sum('bytes')))} bytes.`
      : ''
  return `${table(head, [...wholes, ...lines])}\n\nThe whole program differs from itself by ${noise.toFixed(1)} µs.${sums}`
}

async function startedOnce(way: WayName, programs: readonly Contender[]): Promise<Row[]> {
  const placed = await stage.placeAll(programs)
  for (const one of placed) {
    say(`${way}: warming up ${one.contender.name}`)
    await loaded(one, way, warmUpSeconds)
  }
  const variants = placed.map((one) => ({
    name: one.contender.name,
    async measure() {
      await loaded(one, way, leadInSeconds)
      return loaded(one, way, Number(flags.seconds))
    },
  }))
  const rows = await interleave(variants, Number(flags.rounds), (text) =>
    say(`${way}: ${text}`),
  )
  await stopAll(placed)
  return rows
}

process.stdout.write(
  `${machineAsText(pinned)}; 64 connections; ${flags.starts} starts, each with ${flags.rounds} rounds of ${flags.seconds} s, medians with the lowest and highest\n\n`,
)
for (const way of flags.ways.split(',') as WayName[]) {
  const programs = (await programsOf(way)).map(tracing)
  const rows: Row[] = programs.map(({ name }) => ({ name, rounds: [] }))
  for (let start = 1; start <= Number(flags.starts); start += 1) {
    say(`${way}: start ${start}/${flags.starts}`)
    const measured = await startedOnce(way, programs)
    for (const [index, { rounds }] of measured.entries())
      rows[index]?.rounds.push(...rounds)
  }
  process.stdout.write(`${report(way, rows)}\n\n`)
}
await stage.close()
process.exit(0)
