import type { Contender } from '../../shared/contender.ts'
import type { Figures } from '../../shared/load-server.ts'
import type { Stage } from '../../shared/stage.ts'
import type { CaseResult } from '../result.ts'
import { interleave, type Row } from '../rounds.ts'

export interface CaseContext {
  stage: Stage
  contenders: readonly Contender[]
  quick: boolean
  rounds: number
  seconds: number
  progress(text: string): void
}

/** What one part of the bench comes to; it may be several tables. */
export type BenchCase = (context: CaseContext) => Promise<CaseResult[]>

/** Until V8 has compiled what is used: on one core, that takes it some seconds of load. */
const warmUpSeconds = 6
/**
 * Of the same load right before each measurement. A server is idle while the others have their turns, and V8 then lets
 * go of what it has compiled: the more code, the longer until it is as fast again.
 */
const leadInSeconds = 3

/** Something that can be loaded for a while, and what it did meanwhile. */
export interface Loadable {
  name: string
  load(seconds: number): Promise<Figures>
  /** Where `load` does something too seldom for V8 to have compiled it by then. */
  warmUp?(seconds: number): Promise<unknown>
}

/** Rounds of servers under load, all of them warm. */
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

export const throughputColumns = [
  { figure: 'requestsPerSecond', title: 'requests/s', digits: 0 },
  { figure: 'cpuMicros', title: 'CPU µs a request', digits: 1 },
  { figure: 'p50Ms', title: 'p50 ms', digits: 2 },
  { figure: 'p99Ms', title: 'p99 ms', digits: 2 },
]
