import { appHeaders, quoteTarget } from '../../shared/backend-requests.ts'
import type { Contender } from '../../shared/contender.ts'
import { type Figures, loadServer } from '../../shared/load-server.ts'
import { type Placed, type Stage, stopAll } from '../../shared/stage.ts'
import { checkHit } from '../check-answers.ts'
import type { CaseResult } from '../result.ts'
import { interleave, type Row } from '../rounds.ts'

export interface CaseContext {
  stage: Stage
  contenders: readonly Contender[]
  /** Other builds of the gateway, measured in the same rounds by the cases hit, pass and order. */
  otherBuilds: readonly Contender[]
  quick: boolean
  rounds: number
  seconds: number
  progress(text: string): void
}

/** One part of the comparison, with one or several tables. */
export type BenchCase = (context: CaseContext) => Promise<CaseResult[]>

/** On one core, V8 needs some seconds of load to compile what is used. */
const warmUpSeconds = 6
/**
 * The same load right before each measurement. A server is idle while others are measured, and V8 then drops what it
 * has compiled: the more code, the longer until the server is fast again.
 */
const leadInSeconds = 3

/** Something that can be loaded for a while, and its figures. */
export interface Loadable {
  name: string
  load(seconds: number): Promise<Figures>
  /** For a `load` that does something too rarely for V8 to compile it in time. */
  warmUp?(seconds: number): Promise<unknown>
}

/** Rounds of warm servers under load. */
export async function measureWarm(loadables: readonly Loadable[], context: CaseContext): Promise<Row[]> {
  const { quick, rounds, seconds, progress } = context
  for (const { name, load, warmUp = load } of quick ? [] : loadables) {
    progress(`warming up ${name}`)
    await warmUp(warmUpSeconds)
  }
  const variants = loadables.map(({ name, load }) => ({
    name,
    async measure() {
      if (!quick) await load(leadInSeconds)
      return load(seconds)
    },
  }))
  return interleave(variants, rounds, progress)
}

/** Rounds of the cached quote, which 200 clients ask for over 64 connections, at servers that then are stopped. */
export async function measureHits(placed: readonly Placed[], context: CaseContext): Promise<Row[]> {
  for (const one of placed) await checkHit(one, context.stage)
  const load = { target: quoteTarget, headers: appHeaders, connections: 64 }
  const loadables = placed.map((one) => ({
    name: one.contender.name,
    load: (seconds: number) => loadServer(one, { ...load, seconds }),
  }))
  const rows = await measureWarm(loadables, context)
  await stopAll(placed)
  return rows
}

/** The contenders with a skill, and behind the gateway its other builds. */
export function withOtherBuilds(
  { contenders, otherBuilds }: CaseContext,
  skill: 'hit' | 'pass',
): Contender[] {
  const [gateway, ...others] = contenders.filter(({ skills }) => skills.includes(skill))
  return gateway === undefined ? [] : [gateway, ...otherBuilds, ...others]
}

export const throughputColumns = [
  { figure: 'requestsPerSecond', title: 'requests/s', digits: 0 },
  { figure: 'cpuMicros', title: 'CPU µs a request', digits: 1 },
  { figure: 'p50Ms', title: 'p50 ms', digits: 2 },
  { figure: 'p99Ms', title: 'p99 ms', digits: 2 },
]
