import type { Figures } from '../shared/stage.ts'
import { count, table } from '../shared/table.ts'

export interface Column {
  figure: string
  title: string
  digits: number
}

export interface Row {
  name: string
  rounds: Figures[]
}

/** A figure of the gateway, or its ratio to another's, and its bound. */
export interface Promised {
  what: string
  figure: string
  of: string
  /** Undefined: the figure itself is compared with the bound. */
  over?: string
  /** Undefined: the ratio is only stated. */
  bound?: number | undefined
  is: 'at least' | 'at most'
}

export interface CaseResult {
  title: string
  columns: readonly Column[]
  rows: readonly Row[]
  promises: readonly Promised[]
}

/** `within the spread`: the median misses the bound by less than the difference between the highest and lowest round. */
export type Outcome = 'holds' | 'within the spread' | 'missed' | 'no bound'

interface Spread {
  median: number
  min: number
  max: number
}

export interface Verdict extends Promised {
  measured: Spread
  outcome: Outcome
}

export function spread(values: readonly number[]): Spread {
  const sorted = [...values].sort((left, right) => left - right)
  const at = (index: number) => sorted[index] ?? Number.NaN
  const last = sorted.length - 1
  return {
    median: (at(Math.floor(last / 2)) + at(Math.ceil(last / 2))) / 2,
    min: at(0),
    max: at(last),
  }
}

export function valuesOf(row: Row, figure: string): number[] {
  return row.rounds.map((figures) => figures[figure] ?? Number.NaN)
}

/** One verdict for each promise whose contenders were all measured. */
export function verdicts({ rows, promises }: CaseResult): Verdict[] {
  return promises.flatMap((promise) => {
    const ofRow = rows.find(({ name }) => name === promise.of)
    const overRow = rows.find(({ name }) => name === promise.over)
    if (ofRow === undefined || (promise.over !== undefined && overRow === undefined))
      return []
    // Round by round, because a slow minute of the machine slows both sides.
    const over = overRow && valuesOf(overRow, promise.figure)
    const values = valuesOf(ofRow, promise.figure)
    const measured = spread(
      values.map((value, round) => value / (over ? (over[round] ?? Number.NaN) : 1)),
    )
    return [{ ...promise, measured, outcome: outcomeOf(promise, measured) }]
  })
}

function outcomeOf({ bound, is }: Promised, { median, min, max }: Spread): Outcome {
  if (bound === undefined) return 'no bound'
  const missedBy = is === 'at least' ? bound - median : median - bound
  if (missedBy <= 0) return 'holds'
  return missedBy < max - min ? 'within the spread' : 'missed'
}

/** A table, and the verdict on each promise. */
export function asMarkdown(result: CaseResult): string {
  const { title, columns, rows } = result
  const cells = rows.map((row) => [
    row.name,
    ...columns.map(({ figure, digits }) => {
      const values = valuesOf(row, figure)
      return values.some(Number.isFinite) ? shown(spread(values), digits) : '–'
    }),
  ])
  const head = ['', ...columns.map((column) => column.title)]
  const promises = verdicts(result).map((verdict) => `- ${verdictAsText(verdict)}`)
  return [`### ${title}`, table(head, cells), promises.join('\n')].join('\n\n')
}

/** The median, and the lowest and highest round. */
export function shown({ median, min, max }: Spread, digits: number): string {
  const number = (value: number) => count(value, digits)
  return min === max
    ? number(median)
    : `${number(median)} (${number(min)} – ${number(max)})`
}

function verdictAsText({ what, over, is, bound, outcome, measured }: Verdict): string {
  const unit = over === undefined ? '' : ` × ${over}`
  const wanted = bound === undefined ? '' : `, wanted ${is} ${bound}`
  return `${outcome}: ${what} ${shown(measured, 2)}${unit}${wanted}`
}
