import type { Machine } from '../shared/machine.ts'
import { type Row, valuesOf } from './rounds.ts'
import { ratios, type Spread, spread } from './statistics.ts'

export interface Column {
  figure: string
  title: string
  digits: number
}

/** A figure of the gateway, or its ratio to another's, and its bound. */
export interface Promised {
  what: string
  figure: string
  of: string
  /** Undefined: the figure itself is compared with the bound. */
  over?: string
  /** Undefined: the ratio is only stated. */
  bound?: number
  is: 'at least' | 'at most'
}

export interface CaseResult {
  id: string
  title: string
  columns: readonly Column[]
  rows: Row[]
  promises: readonly Promised[]
}

/** `within the spread`: the median misses the bound by less than the difference between the highest and lowest round. */
export type Outcome = 'holds' | 'within the spread' | 'missed' | 'no bound'

export interface Verdict extends Promised {
  measured: Spread
  outcome: Outcome
}

export interface Results {
  date: string
  mode: 'full' | 'quick'
  rounds: number
  seconds: number
  machine: Machine
  missing: string[]
  cases: CaseResult[]
}

/** One verdict for each promise whose contenders were all measured. */
export function verdicts({ rows, promises }: CaseResult): Verdict[] {
  return promises.flatMap((promise) => {
    const ofRow = rows.find(({ name }) => name === promise.of)
    const overRow = rows.find(({ name }) => name === promise.over)
    if (ofRow === undefined || (promise.over !== undefined && overRow === undefined)) return []
    const values = valuesOf(ofRow, promise.figure)
    const measured =
      overRow === undefined ? spread(values) : ratios(values, valuesOf(overRow, promise.figure))
    return [{ ...promise, measured, outcome: outcomeOf(promise, measured) }]
  })
}

function outcomeOf({ bound, is }: Promised, { median, min, max }: Spread): Outcome {
  if (bound === undefined) return 'no bound'
  const missedBy = is === 'at least' ? bound - median : median - bound
  if (missedBy <= 0) return 'holds'
  return missedBy < max - min ? 'within the spread' : 'missed'
}
