import { readFileSync, writeFileSync } from 'node:fs'
import { type Results, verdicts } from '../harness/result.ts'
import { cellsOf, machineAsText, verdictAsText } from './text.ts'

const begin = '<!-- results: written by npm run bench -->'
const end = '<!-- /results -->'

/** Puts the tables of a run between the marks of a page. */
export function fillPage(path: string, run: Results): void {
  const page = readFileSync(path, 'utf8')
  const from = page.indexOf(begin)
  const to = page.indexOf(end)
  if (from === -1 || to < from) throw new Error(`${path} has lost its marks ${begin} and ${end}`)
  writeFileSync(path, `${page.slice(0, from + begin.length)}\n${asMarkdown(run)}\n${page.slice(to)}`)
}

export function asMarkdown(run: Results): string {
  const parts = [
    `${machineAsText(run)}. Medians, with the least and the most of the rounds.`,
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
