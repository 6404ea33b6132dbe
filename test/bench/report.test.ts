import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import {
  asBriefMarkdown,
  benchPageMarks,
  fillPage,
  type Marks,
  readmeMarks,
} from '../../bench/compare/report/page.ts'
import { verdictAsText } from '../../bench/compare/report/text.ts'
import { type CaseResult, type Promised, type Results, verdicts } from '../../bench/compare/result.ts'

function caseOf(id: string, rows: Record<string, number[]>): CaseResult {
  const figure = id === 'latency' ? 'addedMs' : 'requestsPerSecond'
  return {
    id,
    title: id,
    columns: [],
    promises: [],
    rows: Object.entries(rows).map(([name, values]) => ({
      name,
      rounds: values.map((value) => ({ [figure]: value })),
    })),
  }
}

const run: Results = {
  date: '2026-11-20T15:17:21.481Z',
  mode: 'full',
  rounds: 3,
  seconds: 4,
  missing: ['nginx'],
  machine: {
    processor: 'a processor',
    cores: 2,
    memoryGiB: 8,
    system: 'linux',
    node: 'v20.20.2',
    pinned: undefined,
    versions: { wrk: '4.1.0' },
  },
  cases: [
    caseOf('hit', { quotegate: [30_000, 50_000, 40_000], 'Fastify + LRU': [20_000, 20_000, 20_000] }),
    caseOf('store', { ignored: [1] }),
    caseOf('latency', { quotegate: [0.1, 0.12, 0.11], haproxy: [0.05, 0.05, 0.05] }),
  ],
}

function pageWith({ begin, end }: Marks): string {
  const directory = mkdtempSync(join(tmpdir(), 'page-'))
  onTestFinished(() => rmSync(directory, { recursive: true }))
  const path = join(directory, 'page.md')
  writeFileSync(path, `before\n${begin}\nold\n${end}\nafter\n`)
  return path
}

describe('the figures in the README', () => {
  test('are medians beside those of others, a row for each case that was run', () => {
    const [head, , ...rows] = asBriefMarkdown(run).split('\n')
    expect(head).toBe('|  | quotegate | for comparison |')
    expect(rows.slice(0, 3)).toEqual([
      '| cached quotes alone, requests/s | 40,000 | Fastify + LRU 20,000 |',
      '| time added to one GET, ms | 0.11 | – |',
      '',
    ])
  })

  test('take at most seven rows, of which the first is the most realistic', () => {
    const latest = JSON.parse(
      readFileSync(new URL('../../bench/results/latest.json', import.meta.url), 'utf8'),
    )
    const rows = asBriefMarkdown(latest)
      .split('\n')
      .filter((line) => /^\| (?!---)\w/.test(line))
    expect(rows.length).toBeGreaterThan(5)
    expect(rows.length).toBeLessThanOrEqual(7)
    expect(rows[0]).toMatch(
      /^\| cached quotes beside 200 relayed requests a second, requests\/s \| [\d,]+ \|/,
    )
  })

  test('say when and on what they were measured', () => {
    expect(asBriefMarkdown(run)).toMatch(/2026-11-20, a processor, 2 cores, .*Node v20\.20\.2/)
  })
})

describe('a promise', () => {
  const own = [80, 90, 100]
  const promise: Promised = {
    what: 'hit',
    figure: 'requestsPerSecond',
    of: 'own',
    over: 'peer',
    is: 'at least',
  }

  function verdictOf(promised: Partial<Promised>) {
    const result = caseOf('hit', { own, peer: [100, 100, 100] })
    return verdicts({ ...result, promises: [{ ...promise, ...promised }] }).map(verdictAsText)
  }

  test.each([
    ['holds', 'whose median reaches its bound', 0.9],
    ['within the spread', 'that misses its bound by less than the spread of its rounds', 1.05],
    ['missed', 'that misses its bound by as much as the spread of its rounds', 1.1],
  ])('%s: one %s', (outcome, _what, bound) => {
    expect(verdictOf({ bound })).toEqual([
      `${outcome}: hit 0.90 (0.80 – 1.00) × peer, wanted at least ${bound}`,
    ])
  })

  test('may be a maximum, of a figure by itself', () => {
    const { over: _, ...alone } = promise
    const result = { ...caseOf('hit', { own }), promises: [{ ...alone, is: 'at most' as const, bound: 85 }] }
    expect(verdicts(result).map(({ outcome }) => outcome)).toEqual(['within the spread'])
  })

  test('without a bound is only stated', () => {
    expect(verdictOf({})).toEqual(['no bound: hit 0.90 (0.80 – 1.00) × peer'])
  })

  test('about a contender that was not measured has no verdict', () => {
    expect(verdictOf({ over: 'absent', bound: 1 })).toEqual([])
  })
})

describe.each([
  ['README.md', readmeMarks],
  ['bench/README.md', benchPageMarks],
])('the marked part of %s', (page, marks) => {
  test('is in the file exactly once', () => {
    const text = readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8')
    for (const mark of [marks.begin, marks.end]) expect(text.split(mark)).toHaveLength(2)
  })

  test('is replaced, and nothing else', () => {
    const path = pageWith(marks)
    fillPage(path, marks, 'new')
    expect(readFileSync(path, 'utf8')).toBe(`before\n${marks.begin}\nnew\n${marks.end}\nafter\n`)
  })
})
