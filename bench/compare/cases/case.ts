import { appHeaders } from '../../shared/backend-requests.ts'
import type { Contender, Skill } from '../../shared/contender.ts'
import type { Figures, Stage } from '../../shared/stage.ts'
import type { CaseResult, Row } from '../results.ts'

export interface CaseContext {
  stage: Stage
  contenders: readonly Contender[]
  /** Other builds of the gateway, measured in the same rounds. */
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
}

/** Rounds of warm servers under load. */
export async function measureWarm(
  loadables: readonly Loadable[],
  {
    quick,
    rounds,
    seconds,
    progress,
  }: Pick<CaseContext, 'quick' | 'rounds' | 'seconds' | 'progress'>,
): Promise<Row[]> {
  for (const { name, load } of quick ? [] : loadables) {
    progress(`warming up ${name}`)
    await load(warmUpSeconds)
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

interface Variant {
  name: string
  measure(): Promise<Figures>
}

/** A B C A B C: a slow minute of the machine slows all variants, and a ratio is taken within a round. */
export async function interleave(
  variants: readonly Variant[],
  rounds: number,
  onStep: (text: string) => void,
): Promise<Row[]> {
  const rows: Row[] = variants.map(({ name }) => ({ name, rounds: [] }))
  for (let round = 1; round <= rounds; round += 1) {
    for (const [index, { name, measure }] of variants.entries()) {
      onStep(`round ${round}/${rounds}  ${name}`)
      rows[index]?.rounds.push(await measure())
    }
  }
  return rows
}

/** The contenders with a skill, and behind the gateway its other builds. */
export function withOtherBuilds(
  { contenders, otherBuilds }: CaseContext,
  skill: Skill,
): Contender[] {
  const [gateway, ...others] = contenders.filter(({ skills }) => skills.includes(skill))
  return gateway === undefined ? [] : [gateway, ...otherBuilds, ...others]
}

export const fromBackend = { headers: appHeaders, connections: 64 }

export const throughputColumns = [
  { figure: 'requestsPerSecond', title: 'requests/s', digits: 0 },
  { figure: 'cpuMicros', title: 'CPU µs a request', digits: 1 },
  { figure: 'p50Ms', title: 'p50 ms', digits: 2 },
  { figure: 'p99Ms', title: 'p99 ms', digits: 2 },
]
