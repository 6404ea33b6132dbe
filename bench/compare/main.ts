/** Compares the gateway with what a team could use instead: npm run bench, or in about a minute npm run bench -- --quick */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { type Contender, gateway } from '../shared/contender.ts'
import {
  benchDirectory,
  describeMachine,
  installedVersion,
  installPeers,
  pinLoad,
} from '../shared/machine.ts'
import { openStage } from '../shared/stage.ts'
import type { BenchCase } from './cases/case.ts'
import { coldKey } from './cases/cold-key.ts'
import { cachedHit } from './cases/hit.ts'
import { noise } from './cases/noise.ts'
import { floatOrder } from './cases/order.ts'
import { passThrough } from './cases/pass-through.ts'
import { startToReady } from './cases/start.ts'
import { quoteStore } from './cases/store.ts'
import { tracedHit } from './cases/traced.ts'
import { availableContenders, contenderNames } from './contenders/contenders.ts'
import { drawChart } from './report/chart.ts'
import { asBriefMarkdown, asMarkdown, benchPageMarks, fillPage, readmeMarks } from './report/page.ts'
import { caseAsText, resultsAsText } from './report/text.ts'
import type { CaseResult, Results } from './result.ts'
import { rounded } from './statistics.ts'

const cases: Record<string, BenchCase> = {
  hit: cachedHit,
  traced: tracedHit,
  pass: passThrough,
  order: floatOrder,
  cold: coldKey,
  store: quoteStore,
  noise,
  start: startToReady,
}

const usage = `npm run bench -- [flags]
  --quick            one short round, about a minute: shows that everything works, not how fast it is
  --only NAMES       only these cases of ${Object.keys(cases).join(',')}
  --rounds N         rounds of each case (5; quick: 1)
  --seconds N        seconds of each measurement (4; quick: 1)
  --gateway PATH     measure this build instead of dist/main.js
  --also NAME=PATH   compare with this build of the gateway, in the same rounds; for hit, pass and order; repeatable
  --port-base N      the first port to use (18100)
  --page             no run: write the pages and the chart again from results/latest.json
`

const { values: flags } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    rounds: { type: 'string' },
    seconds: { type: 'string' },
    gateway: { type: 'string', default: join(benchDirectory, '..', 'dist', 'main.js') },
    also: { type: 'string', multiple: true, default: [] },
    'port-base': { type: 'string', default: '18100' },
    page: { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h', default: false },
  },
})

const say = (text: string) => process.stdout.write(`${text}\n`)
const results = join(benchDirectory, 'results')
const beganMs = performance.now()

/** In a terminal one line that is overwritten, elsewhere a line each. */
function progress(text: string): void {
  const line = `  ${String(Math.round((performance.now() - beganMs) / 1_000)).padStart(4)} s  ${text}`
  process.stderr.write(process.stderr.isTTY ? `\r\x1b[K${line}` : `${line}\n`)
}

function positive(text: string | undefined, fallback: number): number {
  if (text === undefined) return fallback
  const value = Number(text)
  if (!Number.isInteger(value) || value < 1) throw new Error(`${text} is not a positive whole number`)
  return value
}

/** The builds that --also names, with the settings of the gateway. */
function otherBuildsOf(options: readonly string[]): Contender[] {
  const names = options.map((option) => option.slice(0, Math.max(0, option.indexOf('='))))
  return options.map((option, index) => {
    const name = names[index] ?? ''
    const build = resolve(option.slice(name.length + 1))
    if (name === '' || contenderNames.has(name) || names.indexOf(name) !== index)
      throw new Error(`--also ${option}: give it a name of its own\n${usage}`)
    if (!existsSync(build)) throw new Error(`--also ${option}: ${build} does not exist`)
    return gateway(name, { build })
  })
}

async function bench(): Promise<void> {
  const program = resolve(flags.gateway)
  const { quick } = flags
  const rounds = positive(flags.rounds, quick ? 1 : 5)
  const seconds = positive(flags.seconds, quick ? 1 : 4)
  const names = flags.only?.split(',') ?? Object.keys(cases)
  for (const name of names) if (!(name in cases)) throw new Error(`unknown case: ${name}\n${usage}`)
  if (!existsSync(program)) throw new Error(`${program} does not exist: npm run build`)
  if (installedVersion('wrk') === undefined) throw new Error('wrk is not installed: apt-get install wrk')
  const otherBuilds = otherBuildsOf(flags.also)
  installPeers(say)
  const pinned = pinLoad()
  if (pinned === undefined) say('Without two cores and taskset, server and load share the processor.')
  const { present, missing } = availableContenders()
  if (missing.length > 0)
    say(`Not installed, so left out: ${missing.join(', ')} (apt-get install nginx varnish haproxy)`)

  const run: Results = {
    date: new Date().toISOString(),
    mode: quick ? 'quick' : 'full',
    rounds,
    seconds,
    machine: describeMachine(pinned),
    missing,
    cases: [],
  }
  const stage = await openStage({ portBase: positive(flags['port-base'], 0), pinned, program, say })
  for (const name of names) {
    const measured = await cases[name]?.({
      stage,
      contenders: present,
      otherBuilds,
      quick,
      rounds,
      seconds,
      progress: (text) => progress(`${name}: ${text}`),
    })
    if (process.stderr.isTTY) process.stderr.write('\r\x1b[K')
    for (const result of measured ?? []) {
      run.cases.push(result)
      say(caseAsText(result))
    }
  }
  await stage.close()
  say(resultsAsText(run))
  keep(run, !quick && flags.only === undefined)
}

/** The pages show only a full run of all cases, with the same digits as its file. */
function keep(exact: Results, whole: boolean): void {
  const run = { ...exact, cases: exact.cases.map(shortened) }
  mkdirSync(results, { recursive: true })
  const name = whole ? 'latest' : 'partial'
  writeFileSync(join(results, `${name}.json`), `${JSON.stringify(run, null, 1)}\n`)
  writeFileSync(join(results, `${name}.svg`), drawChart(run))
  say(`written: bench/results/${name}.json and ${name}.svg`)
  if (whole) writePages(run)
}

function shortened(result: CaseResult): CaseResult {
  const short = (figures: Record<string, number>) =>
    Object.fromEntries(Object.entries(figures).map(([name, value]) => [name, rounded(value)]))
  return { ...result, rows: result.rows.map(({ name, rounds }) => ({ name, rounds: rounds.map(short) })) }
}

function writePages(run: Results): void {
  fillPage(join(benchDirectory, 'README.md'), benchPageMarks, asMarkdown(run))
  fillPage(join(benchDirectory, '..', 'README.md'), readmeMarks, asBriefMarkdown(run))
  say('written: the tables in bench/README.md and README.md')
}

if (flags.help) say(usage)
else if (flags.page) {
  const latest = join(results, 'latest.json')
  if (!existsSync(latest)) throw new Error('results/latest.json does not exist: npm run bench')
  const run = JSON.parse(readFileSync(latest, 'utf8')) as Results
  writeFileSync(join(results, 'latest.svg'), drawChart(run))
  writePages(run)
} else {
  await bench().then(
    () => process.exit(0),
    (error) => {
      process.stderr.write(`\n${error instanceof Error ? error.message : error}\n`)
      process.exit(1)
    },
  )
}
