import {
  type CaseResult,
  type Column,
  type Outcome,
  type Results,
  type Verdict,
  verdicts,
} from '../result.ts'
import { type Row, spreadOf, valuesOf } from '../rounds.ts'
import type { Spread } from '../statistics.ts'

/** For the terminal: a table, and the verdict on each promise. */
export function caseAsText(result: CaseResult): string {
  const lines = [
    `\n${result.title}`,
    ...aligned([['', ...result.columns.map(({ title }) => title)], ...cellsOf(result)]),
  ]
  for (const verdict of verdicts(result)) lines.push(`  ${verdictAsText(verdict)}`)
  return lines.join('\n')
}

export function cellsOf({ rows, columns }: CaseResult): string[][] {
  return rows.map((row) => [row.name, ...columns.map((column) => cell(row, column))])
}

function cell(row: Row, { figure, digits }: Column): string {
  return valuesOf(row, figure).some(Number.isFinite) ? shown(spreadOf(row, figure), digits) : '–'
}

/** The median, and the lowest and highest round. */
function shown({ median, min, max }: Spread, digits: number): string {
  const number = (value: number) =>
    value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits })
  return min === max ? number(median) : `${number(median)} (${number(min)} – ${number(max)})`
}

export function verdictAsText(verdict: Verdict): string {
  const { what, over, is, bound, outcome, measured } = verdict
  const unit = over === undefined ? '' : ` × ${over}`
  const wanted = bound === undefined ? '' : `, wanted ${is} ${bound}`
  return `${outcome}: ${what} ${shown(measured, 2)}${unit}${wanted}`
}

function aligned(table: readonly string[][]): string[] {
  const widths = (table[0] ?? []).map((_, column) =>
    Math.max(...table.map((row) => row[column]?.length ?? 0)),
  )
  return table.map(
    (row) =>
      `  ${row.map((text, column) => (column === 0 ? text.padEnd(widths[0] ?? 0) : text.padStart(widths[column] ?? 0))).join('  ')}`,
  )
}

export function machineAsText({ machine, date, mode, rounds, seconds, missing }: Results): string {
  const { processor, cores, memoryGiB, system, node, pinned, versions } = machine
  const programs = Object.entries(versions).map(([name, version]) => `${name} ${version}`)
  const where = pinned
    ? `server on core ${pinned.server}, load and upstream on core ${pinned.load}`
    : 'nothing pinned'
  const absent = missing.length > 0 ? `; not installed: ${missing.join(', ')}` : ''
  return (
    `${date.slice(0, 10)}, ${processor}, ${cores} cores, ${memoryGiB} GiB, ${system}, Node ${node}, ` +
    `${programs.join(', ')}; ${where}; ${mode} run, ${rounds} rounds of ${seconds} s${absent}`
  )
}

export function resultsAsText(run: Results): string {
  const outcomes = run.cases.flatMap(verdicts).map(({ outcome }) => outcome)
  const count = (wanted: Outcome) => outcomes.filter((outcome) => outcome === wanted).length
  const caution =
    run.mode === 'quick' ? '\nA quick run shows that everything works; its figures mean little.' : ''
  return `\n${machineAsText(run)}\nPromises: ${count('holds')} hold, ${count('within the spread')} within the spread, ${count('missed')} missed.${caution}`
}
