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

interface Shown {
  id: string
  title: string
  figure: string
  unit: string
  /** The rows of the case: the gateway's first, then what it is compared with. */
  names: readonly string[]
}

const bare = 'node:http, reads the headers'
const passedOn = ['quotegate', 'node:http + undici, raw', 'nginx']

/** The rows of the README's table, the most realistic first. */
const shown: readonly Shown[] = [
  {
    id: 'noise',
    title: 'cached quotes beside 200 relayed requests a second',
    figure: 'requestsPerSecond',
    unit: 'requests/s',
    names: [
      'quotegate, 200 pass-through requests a second',
      'node:http, reads the headers, 200 pass-through requests a second',
    ],
  },
  {
    id: 'hit',
    title: 'cached quotes alone',
    figure: 'requestsPerSecond',
    unit: 'requests/s',
    names: ['quotegate', bare, 'Fastify + LRU', 'nginx'],
  },
  {
    id: 'pass-get',
    title: 'a small GET, relayed',
    figure: 'requestsPerSecond',
    unit: 'requests/s',
    names: passedOn,
  },
  {
    id: 'pass-post-1k',
    title: 'a POST of 1 KiB, relayed',
    figure: 'requestsPerSecond',
    unit: 'requests/s',
    names: passedOn,
  },
  {
    id: 'order',
    title: 'a float order for a live quote',
    figure: 'requestsPerSecond',
    unit: 'requests/s',
    names: ['quotegate, float order'],
  },
  {
    id: 'latency',
    title: 'time added to one GET',
    figure: 'addedMs',
    unit: 'ms',
    names: passedOn,
  },
  {
    id: 'cold-key',
    title: '64 callers at once for one quote that is not cached',
    figure: 'upstreamCalls',
    unit: 'upstream calls',
    names: ['quotegate', 'nginx', 'haproxy'],
  },
]

export function asBriefMarkdown(run: Results): string {
  const rows = shown.flatMap(({ id, title, figure, unit, names }) => {
    const result = run.cases.find((one) => one.id === id)
    const figures = names.map((name) => {
      const row = result?.rows.find((one) => one.name === name)
      const median = row === undefined ? Number.NaN : spreadOf(row, figure).median
      const digits = figure === 'addedMs' ? 3 : 0
      const text = Number.isFinite(median)
        ? median.toLocaleString('en', { maximumFractionDigits: digits })
        : ''
      return { name: name.replace(/, 200 .*$/, ''), text }
    })
    const [own, ...others] = figures
    if (own === undefined || own.text === '') return []
    const compared = others.filter(({ text }) => text !== '').map(({ name, text }) => `${name} ${text}`)
    return [[`${title}, ${unit}`, own.text, compared.join('; ') || '–']]
  })
  const table = [['', 'quotegate', 'for comparison'], ['---', '---:', '---'], ...rows]
  return [
    table.map((row) => `| ${row.join(' | ')} |`).join('\n'),
    `Medians of ${machineAsText(run)}. [bench/README.md](bench/README.md) has all contenders and cases, and how they were measured.`,
  ].join('\n\n')
}
