import { readFileSync, writeFileSync } from 'node:fs'
import { type Results, verdicts } from '../result.ts'
import { spreadOf } from '../rounds.ts'
import { cellsOf, machineAsText, verdictAsText } from './text.ts'

export interface Marks {
  begin: string
  end: string
}

export const benchPageMarks: Marks = {
  begin: '<!-- results: written by npm run bench -->',
  end: '<!-- /results -->',
}
export const readmeMarks: Marks = { begin: '<!-- bench:begin -->', end: '<!-- bench:end -->' }

/** Puts text between the marks of a page. */
export function fillPage(path: string, { begin, end }: Marks, text: string): void {
  const page = readFileSync(path, 'utf8')
  const from = page.indexOf(begin)
  const to = page.indexOf(end)
  if (from === -1 || to < from) throw new Error(`${path} has lost its marks ${begin} and ${end}`)
  writeFileSync(path, `${page.slice(0, from + begin.length)}\n${text}\n${page.slice(to)}`)
}

export function asMarkdown(run: Results): string {
  const parts = [
    `${machineAsText(run)}. Medians, with the lowest and highest round.`,
    '![the chart](results/latest.svg)',
  ]
  for (const result of run.cases) {
    const head = ['', ...result.columns.map(({ title }) => title)]
    const table = [head, head.map((_, column) => (column === 0 ? '---' : '---:')), ...cellsOf(result)]
    parts.push(`### ${result.title}`, table.map((row) => `| ${row.join(' | ')} |`).join('\n'))
    const promises = verdicts(result).map((verdict) => `- ${verdictAsText(verdict)}`)
    if (promises.length > 0) parts.push(promises.join('\n'))
  }
  return parts.join('\n\n')
}

/** The README shows the medians of these figures. */
const shown = [
  { id: 'hit', figure: 'requestsPerSecond', title: 'cached quote, requests/s' },
  { id: 'pass-get', figure: 'requestsPerSecond', title: 'small GET passed on, requests/s' },
  { id: 'pass-post-1k', figure: 'requestsPerSecond', title: '1 KiB POST passed on, requests/s' },
  { id: 'latency', figure: 'addedMs', title: 'added to one GET, ms' },
]

export function asBriefMarkdown(run: Results): string {
  const columns = shown.flatMap((column) => {
    const result = run.cases.find(({ id }) => id === column.id)
    return result === undefined ? [] : [{ ...column, rows: result.rows }]
  })
  const names = [...new Set(columns.flatMap(({ rows }) => rows.map(({ name }) => name)))]
  const cell = (name: string, { rows, figure }: (typeof columns)[number]) => {
    const row = rows.find((one) => one.name === name)
    const median = row === undefined ? Number.NaN : spreadOf(row, figure).median
    const digits = figure === 'addedMs' ? 3 : 0
    return Number.isFinite(median) ? median.toLocaleString('en', { maximumFractionDigits: digits }) : '–'
  }
  const table = [
    ['', ...columns.map(({ title }) => title)],
    ['---', ...columns.map(() => '---:')],
    ...names.map((name) => [name, ...columns.map((column) => cell(name, column))]),
  ]
  return [
    table.map((row) => `| ${row.join(' | ')} |`).join('\n'),
    `${machineAsText(run)}. Medians; [bench/README.md](bench/README.md) has the rest, and says how it was measured.`,
    '![the chart](bench/results/latest.svg)',
  ].join('\n\n')
}
