/**
 * Where the processor time of a request goes: the built program with one thing taken away, in turns with the whole one.
 * `npx tsx bench/cost/ablate.ts [--ways miss,order] [--only WORD] [--floors]`
 */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
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
import { ablations, type WayName } from './ablations.ts'
import { buildWith } from './edited-build.ts'
import type { Kind } from './in-turns.ts'

const { values: flags } = parseArgs({
  options: {
    ways: { type: 'string', default: 'GET,hit,order,miss' },
    /** Ablations whose names have this text. */
    only: { type: 'string', default: '' },
    /** Programs without the gateway, in place of ablations. */
    floors: { type: 'boolean', default: false },
    /** The program of another build, in the same rounds. */
    before: { type: 'string' },
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '2' },
    /** Under real-time priority, beside other work: needs root. So many seconds are left to that work after each load. */
    'real-time': { type: 'string' },
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
/** V8 drops compiled code while a server is idle. */
const warmUpSeconds = 4
const leadInSeconds = 1

const say = (text: string) => process.stderr.write(`${text}\n`)
const isRealTime = flags['real-time'] !== undefined
const pinned = pinLoad()
if (isRealTime) spawnSync('chrt', ['-a', '-r', '-p', '40', String(process.pid)])
const stage = await openStage({
  portBase: Number(flags['port-base']),
  pinned,
  program: builtProgram,
  say,
})

/** V8 then writes a line about each collection: how much was allocated before it, and what survived it. */
function tracing(contender: Contender): Contender {
  const priority = isRealTime ? 'chrt -r 50 ' : ''
  return {
    ...contender,
    launch(setting) {
      const { command, arguments: line, ...rest } = contender.launch(setting)
      const script = `exec ${priority}"$0" --trace-gc-nvp "$@" > ${traceOf(setting.directory)}`
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

/** The bytes that were allocated until now, and those that collections copied because they were in use. */
async function bytesUntilNow({ port, operationsPort }: Placed) {
  const page = await fetch(`http://127.0.0.1:${operationsPort}/metrics`)
  const used = /^nodejs_heap_size_used_bytes (\d+)/m.exec(await page.text())?.[1]
  const text = readFileSync(traceOf(join(stage.directory, String(port))), 'latin1')
  const figures = (name: string) =>
    Array.from(text.matchAll(new RegExp(` ${name}=(\\d+)`, 'g')), ([, bytes]) =>
      Number(bytes),
    )
  const sum = (name: string) => figures(name).reduce((all, bytes) => all + bytes, 0)
  // The last collection left so much; what was allocated since is used, too.
  const left = figures('total_size_after').at(-1) ?? 0
  return {
    allocated: sum('allocated') + Number(used) - left,
    survived: sum('promoted') + sum('new_space_survived'),
  }
}

async function loaded(placed: Placed, way: WayName, seconds: number): Promise<Figures> {
  const before = await bytesUntilNow(placed)
  const figures = await placed.load({ ...fromBackend, ...ways[way](), seconds })
  const after = await bytesUntilNow(placed)
  const requests = figures.requests ?? Number.NaN
  if (isRealTime) await pause(Number(flags['real-time']) * 1_000)
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
  if (flags.floors) return [...programs, ...floorsOf(way)]
  const own = ablations.filter(
    (one) => (one.ways?.includes(way) ?? true) && one.name.includes(flags.only),
  )
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

/**
 * What is saved, next to how far the whole program is from itself. Beside other work the lowest round says most, because
 * that work only ever adds to a round.
 */
function report(way: WayName, rows: readonly Row[]): string {
  const [own, same, ...others] = rows
  if (own === undefined || same === undefined) throw new Error('nothing was measured')
  const micros = (row: Row) => spread(valuesOf(row, 'cpuMicros'))
  const typical = (row: Row) => (isRealTime ? micros(row).min : micros(row).median)
  const wholeMicros = Math.min(typical(own), typical(same))
  const noise = Math.abs(typical(own) - typical(same))
  const savedBy = (row: Row) => wholeMicros - typical(row)
  const median = (row: Row, figure: string) => spread(valuesOf(row, figure)).median
  const bytes = (row: Row) =>
    ['allocated', 'survived'].map((figure) => count(median(row, figure)))
  const wholeBytes = (median(own, 'allocated') + median(same, 'allocated')) / 2
  const savedBytes = (row: Row) => wholeBytes - median(row, 'allocated')
  const rowOf = (row: Row) => {
    const saved = savedBy(row)
    const isDifference = Math.abs(saved) > noise
    const text = isDifference ? saved.toFixed(1) : `none (${saved.toFixed(1)})`
    return [
      row.name,
      shown(micros(row), 1),
      text,
      ...bytes(row),
      count(Math.round(savedBytes(row))),
    ]
  }
  const head = [way, 'µs', 'saved, µs', 'bytes', 'copied by collections', 'saved, bytes']
  const lines = [own, same].map((row) => [
    row.name,
    shown(micros(row), 1),
    '',
    ...bytes(row),
    '',
  ])
  const singles = others.filter(({ name }) => name !== allAtOnce && name !== 'before')
  const sum = singles.reduce((all, row) => all + savedBy(row), 0)
  const sumOfBytes = count(
    Math.round(singles.reduce((all, row) => all + savedBytes(row), 0)),
  )
  const sums = flags.floors
    ? ''
    : ` Saved one at a time, added up: ${sum.toFixed(1)} µs, ${sumOfBytes} bytes.`
  const what = isRealTime ? 'lowest' : 'median'
  return `${table(head, [...lines, ...others.map(rowOf)])}\n\nSaved: by the ${what} round; the whole program differs from itself by ${noise.toFixed(1)} µs.${sums}`
}

process.stdout.write(
  `${machineAsText(pinned)}; 64 connections; ${flags.rounds} rounds of ${flags.seconds} s, medians with the lowest and highest` +
    `${isRealTime ? '; under real-time priority beside other work' : ''}\n\n`,
)
for (const way of flags.ways.split(',') as WayName[]) {
  const placed = await stage.placeAll((await programsOf(way)).map(tracing))
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
  process.stdout.write(`${report(way, rows)}\n\n`)
  await stopAll(placed)
}
await stage.close()
process.exit(0)
