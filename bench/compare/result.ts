import type { Machine } from '../shared/machine.ts'
import { type Row, valuesOf } from './rounds.ts'
import { ratios, type Spread, spread } from './statistics.ts'

/** One figure of a case, and in which direction it is good. */
export interface Column {
  figure: string
  title: string
  digits: number
}

/** A promise of the gateway: its figure, over another's or by itself, against a bound. */
export interface Promised {
  what: string
  figure: string
  of: string
  /** Undefined: the figure itself. */
  over?: string
  bound: number
  is: 'at least' | 'at most'
}

export interface CaseResult {
  id: string
  title: string
  columns: readonly Column[]
  rows: Row[]
  promises: readonly Promised[]
  note?: string
}

export interface Verdict extends Promised {
  measured: Spread
  holds: boolean
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

/** What was measured of each promise; one whose contenders are not all here is left out. */
export function verdicts({ rows, promises }: CaseResult): Verdict[] {
  return promises.flatMap((promise) => {
    const ofRow = rows.find(({ name }) => name === promise.of)
    const overRow = rows.find(({ name }) => name === promise.over)
    if (ofRow === undefined || (promise.over !== undefined && overRow === undefined)) return []
    const values = valuesOf(ofRow, promise.figure)
    const measured =
      overRow === undefined ? spread(values) : ratios(values, valuesOf(overRow, promise.figure))
    const holds =
      promise.is === 'at least' ? measured.median >= promise.bound : measured.median <= promise.bound
    return [{ ...promise, measured, holds }]
  })
}
