/** Compares the gateway with what a team could use instead: npm run bench, or in about a minute npm run bench -- --quick */
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { type Contender, gateway } from '../shared/contender.ts'
import {
  builtProgram,
  installedVersion,
  installPeers,
  machineAsText,
  pinLoad,
} from '../shared/machine.ts'
import { openStage } from '../shared/stage.ts'
import type { BenchCase } from './cases/case.ts'
import { coldKey } from './cases/cold-key.ts'
import { passThrough } from './cases/pass-through.ts'
import { cachedHit, missedQuote } from './cases/quotes.ts'
import { everyWay } from './cases/ways.ts'
import { availableContenders, contenderNames } from './contenders/contenders.ts'
import { asMarkdown, type CaseResult, verdicts } from './results.ts'

const cases: Record<string, BenchCase> = {
  hit: cachedHit,
  miss: missedQuote,
  pass: passThrough,
  ways: everyWay,
  cold: coldKey,
}

const usage = `npm run bench -- [flags]
  --quick            one short round, about a minute: shows that everything works, not how fast it is
  --only NAMES       only these cases of ${Object.keys(cases).join(',')}
  --rounds N         rounds of each case (5; quick: 1)
  --seconds N        seconds of each measurement (4; quick: 1)
  --gateway PATH     measure this build instead of dist/main.js
  --also NAME=PATH   compare with this build of the gateway, in the same rounds; for all cases but cold; repeatable
  --port-base N      the first port to use (18100)
`

const { values: flags } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    rounds: { type: 'string' },
    seconds: { type: 'string' },
    gateway: { type: 'string', default: builtProgram },
    also: { type: 'string', multiple: true, default: [] },
    'port-base': { type: 'string', default: '18100' },
    help: { type: 'boolean', short: 'h', default: false },
  },
})

const say = (text: string) => process.stdout.write(`${text}\n`)
const beganMs = performance.now()

/** In a terminal one line that is overwritten, elsewhere a line each. */
function progress(text: string): void {
  const line = `  ${String(Math.round((performance.now() - beganMs) / 1_000)).padStart(4)} s  ${text}`
  process.stderr.write(process.stderr.isTTY ? `\r\x1b[K${line}` : `${line}\n`)
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
  const rounds = Number(flags.rounds ?? (quick ? 1 : 5))
  const seconds = Number(flags.seconds ?? (quick ? 1 : 4))
  const names = flags.only?.split(',') ?? Object.keys(cases)
  for (const name of names)
    if (!(name in cases)) throw new Error(`unknown case: ${name}\n${usage}`)
  if (!existsSync(program)) throw new Error(`${program} does not exist: npm run build`)
  if (installedVersion('wrk') === undefined)
    throw new Error('wrk is not installed: apt-get install wrk')
  const otherBuilds = otherBuildsOf(flags.also)
  installPeers(say)
  const pinned = pinLoad()
  if (pinned === undefined)
    say('Without two cores and taskset, server and load share the processor.')
  const { present, missing } = availableContenders()
  if (missing.length > 0)
    say(`Not installed, so left out: ${missing.join(', ')} (apt-get install nginx)`)

  const results: CaseResult[] = []
  const stage = await openStage({
    portBase: Number(flags['port-base']),
    pinned,
    program,
    say,
  })
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
      results.push(result)
      say(`\n${asMarkdown(result)}`)
    }
  }
  await stage.close()
  say(
    `\n${machineAsText(pinned)}; ${rounds} rounds of ${seconds} s. Medians, with the lowest and highest round.`,
  )
  const outcomes = results.flatMap(verdicts).map(({ outcome }) => outcome)
  const countOf = (wanted: string) =>
    outcomes.filter((outcome) => outcome === wanted).length
  say(
    `Promises: ${countOf('holds')} hold, ${countOf('within the spread')} within the spread, ${countOf('missed')} missed.`,
  )
  if (quick) say('A quick run shows that everything works; its figures mean little.')
}

if (flags.help) say(usage)
else await bench()
process.exit(0)
