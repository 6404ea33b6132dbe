import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { goneSettings, otherNames } from '../src/config/names.ts'
import { isKnownName } from '../src/config/settings.ts'
import { problemTypes } from '../src/http/problem.ts'
import { providerCodes } from '../src/metrics/labels.ts'

const root = new URL('../', import.meta.url)
const read = (path: string) => readFileSync(new URL(path, root), 'utf8')
const pagesIn = (folder: string) =>
  readdirSync(new URL(folder, root))
    .filter((name) => name.endsWith('.md'))
    .map((name) => folder + name)
const decisions = pagesIn('docs/decisions/')
const besides = ['bench/README.md', 'deploy/kubernetes/README.md']
const pages = [
  'README.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  ...besides,
  ...pagesIn('docs/'),
  ...decisions,
]
const { scripts } = JSON.parse(read('package.json')) as {
  scripts: Record<string, string>
}

/** The variables that OpenTelemetry's packages read themselves. */
const namesOfOpenTelemetry = [
  'otlp-exporter-base',
  'resources',
  'sdk-trace-base',
].flatMap((name) => {
  const folder = `node_modules/@opentelemetry/${name}/build/src/`
  const files = readdirSync(new URL(folder, root), { recursive: true, encoding: 'utf8' })
  const sources = files.filter((file) => file.endsWith('.js'))
  return sources.flatMap((file) => read(folder + file).match(/OTEL(?:_[A-Z]+)+/g) ?? [])
})
const namesOfOthers = [
  ...providerCodes,
  'SANDBOX_NOT_IMPLEMENTED',
  'NODE_OPTIONS',
  'CHROMIUM_PATH',
  'NODE_EXTRA_CA_CERTS',
  'HTTPS_PROXY',
  'NO_PROXY',
  ...Object.keys(otherNames),
  ...namesOfOpenTelemetry,
]
const namesOfHistory = [...Object.keys(goneSettings), 'FAST_LANE', 'LEDGER_TERMS_MS']

/** The anchors that a page has, as GitHub makes them of its headings. */
function anchorsOf(page: string): string[] {
  const outsideCode = read(page).replace(/^```[\s\S]*?^```$/gm, '')
  const headings = [...outsideCode.matchAll(/^#{1,6} (.+)$/gm)].map(([, heading = '']) =>
    heading.toLowerCase(),
  )
  return headings.map((heading) =>
    heading.replace(/[^\p{L}\p{N}\p{M} _-]/gu, '').replaceAll(' ', '-'),
  )
}

/** What the groups of a pattern find in a page. */
const foundIn = (text: string, pattern: RegExp) =>
  [...text.matchAll(pattern)].map(
    ([, ...groups]) => groups.find((group) => group !== undefined) ?? '',
  )

describe.each(pages)('%s', (page) => {
  const text = read(page)
  const exists = (path: string, from: string | URL = root) =>
    existsSync(new URL(path, from))

  test('links to files and headings that exist', () => {
    const files = foundIn(text, /\]\((?!https?:)([^)#]+)/g)
    expect(files.filter((link) => !exists(link, new URL(page, root)))).toEqual([])
    const broken = [...text.matchAll(/\]\((?!https?:)([^)#]*)#([^)]+)\)/g)].filter(
      ([, path, anchor = '']) => {
        const target = path
          ? new URL(path, new URL(page, root)).pathname.replace(root.pathname, '')
          : page
        return !anchorsOf(target).includes(anchor)
      },
    )
    expect(broken.map(([link]) => link)).toEqual([])
  })

  test('names source files, npm scripts and settings that exist', () => {
    const named = foundIn(
      text,
      /`(src\/[\w/.-]+|(?:server|upstream|client)\/[\w-]+\.ts)`/g,
    )
    const drawn = foundIn(text, /^```mermaid\n([\s\S]*?)^```$/gm).flatMap(
      (it) => it.match(/[\w/-]+\.ts/g) ?? [],
    )
    const sources = [...named, ...drawn].map(
      (path) => `src/${path.replace(/^src\//, '')}`,
    )
    expect(sources.filter((path) => !exists(path))).toEqual([])
    const run = foundIn(text, /npm run ([\w:-]+)/g)
    expect(run.filter((name) => scripts[name] === undefined)).toEqual([])
    const tellsHistory = page === 'CHANGELOG.md' || decisions.includes(page)
    const others = [...namesOfOthers, ...(tellsHistory ? namesOfHistory : [])]
    const settings = foundIn(text, /`([A-Z]+(?:_[A-Z]+)+)(?:=[^`]*)?`/g)
    expect(
      settings.filter((name) => !isKnownName(name) && !others.includes(name)),
    ).toEqual([])
  })
})

// docs/architecture.md defines the words, and names the room `client`.
test.each([
  'README.md',
  ...pagesIn('docs/').filter((page) => page !== 'docs/architecture.md'),
  'docs/openapi.json',
  'grafana/alerts.yml',
  'grafana/dashboards/quotegate.json',
])('%s says caller, user or application, and not client', (page) => {
  const names = /^```[\s\S]*?^```$|`[^`\n]+`|\]\([^)]+\)|clients\.md|"[\w-]+"/gm
  /** What has this name elsewhere: a library, a command of the store, the kind of a span. */
  const ofOthers = /HTTP clients?|generates a client|another client's command|\(client\)/g
  const prose = read(page).replace(names, '').replace(ofOthers, '')
  expect(prose.match(/.*\bclients?\b.*/gi) ?? []).toEqual([])
})

describe('the promises of docs/promises.md', () => {
  const rows = read('docs/promises.md')
    .split('\n')
    .filter((line) => /^\| (?!promise|behaviour)/.test(line))
  const proofsIn = (row: string) => [
    ...row.matchAll(/\[([^\]]+)\]\(\.\.\/(test\/[^)]+)\)/g),
  ]
  const proofs = rows
    .flatMap(proofsIn)
    .map(([, title = '', file = '']) => [title, file] as const)

  test.each(proofs)('"%s" is a test in %s', (title, file) => {
    const titles =
      read(file).match(/^\s*(?:test|it|describe)\b.*$(?:\n\s+['`].*$)?/gm) ?? []
    expect(titles.filter((line) => line.includes(title)).length).toBeGreaterThan(0)
  })

  test('have a test each, and name every file of test/promises', () => {
    expect(rows.length).toBeGreaterThan(15)
    expect(rows.filter((row) => proofsIn(row).length === 0)).toEqual([])
    const files = readdirSync(new URL('test/promises/', root)).map(
      (name) => `test/promises/${name}`,
    )
    expect(files.filter((file) => !proofs.some(([, linked]) => linked === file))).toEqual(
      [],
    )
  })
})

test('the picture in docs/architecture.md has every problem, with its status', () => {
  const [picture = ''] = foundIn(
    read('docs/architecture.md'),
    /^```mermaid\n([\s\S]*?)^```$/gm,
  )
  const drawn = picture.match(/\b\d{3} [a-z]+(?:-[a-z]+)*\b/g) ?? []
  const problems = Object.entries(problemTypes).map(
    ([slug, { status }]) => `${status} ${slug}`,
  )
  // What goes wrong anywhere is in the sentence below the picture.
  expect([...new Set([...drawn, '500 internal-error'])].sort()).toEqual(problems.sort())
})

test('the OpenAPI document names sections of docs/problems.md that exist', () => {
  const named = foundIn(read('docs/openapi.json'), /docs\/problems\.md#([\w-]+)/g)
  expect(named.length).toBeGreaterThan(10)
  const anchors = anchorsOf('docs/problems.md')
  expect(named.filter((anchor) => !anchors.includes(anchor))).toEqual([])
})
