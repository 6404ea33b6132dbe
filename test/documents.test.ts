import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { goneSettings, otherNames } from '../src/config/names.ts'
import { isKnownName } from '../src/config/settings.ts'
import { problemTypes } from '../src/http/problem.ts'

const root = new URL('../', import.meta.url)
const read = (path: string) => readFileSync(new URL(path, root), 'utf8')
const decisions = readdirSync(new URL('docs/decisions/', root)).map((name) => `docs/decisions/${name}`)
const written = readdirSync(new URL('docs/', root))
  .filter((name) => name.endsWith('.md'))
  .map((name) => `docs/${name}`)
const besides = ['bench/README.md', 'deploy/kubernetes/README.md']
const pages = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', ...besides, ...written, ...decisions]
const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }

/** The variables that OpenTelemetry's packages read themselves. */
const namesOfOpenTelemetry = ['otlp-exporter-base', 'resources', 'sdk-trace-base'].flatMap((name) => {
  const folder = `node_modules/@opentelemetry/${name}/build/src/`
  const files = readdirSync(new URL(folder, root), { recursive: true, encoding: 'utf8' })
  return files
    .filter((file) => file.endsWith('.js'))
    .flatMap((file) => read(folder + file).match(/OTEL(?:_[A-Z]+)+/g) ?? [])
})

/** The anchors that a page has, as GitHub makes them of its headings. */
function anchorsOf(page: string): string[] {
  const outsideCode = read(page).replace(/^```[\s\S]*?^```$/gm, '')
  const headings = [...outsideCode.matchAll(/^#{1,6} (.+)$/gm)].map(([, heading = '']) => heading)
  return headings.map((heading) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\p{M} _-]/gu, '')
      .replaceAll(' ', '-'),
  )
}

describe.each(pages)('%s', (page) => {
  const text = read(page)

  test('links to files that exist', () => {
    const links = [...text.matchAll(/\]\((?!https?:)([^)#]+)/g)].map(([, link = '']) => link)
    expect(links.filter((link) => !existsSync(new URL(link, new URL(page, root))))).toEqual([])
  })

  test('links to headings that exist', () => {
    const links = [...text.matchAll(/\]\((?!https?:)([^)#]*)#([^)]+)\)/g)]
    const broken = links.filter(([, path = '', anchor = '']) => {
      const target =
        path === '' ? page : new URL(path, new URL(page, root)).pathname.replace(root.pathname, '')
      return !anchorsOf(target).includes(anchor)
    })
    expect(broken.map(([link]) => link)).toEqual([])
  })

  test('names source files that exist', () => {
    const named = [...text.matchAll(/`(src\/[\w/.-]+|(?:routes|upstream|client)\/[\w-]+\.ts)`/g)]
    const drawn = [...text.matchAll(/^```mermaid\n([\s\S]*?)^```$/gm)].flatMap(([, diagram = '']) =>
      [...diagram.matchAll(/[\w/-]+\.ts/g)].map(([path]) => path),
    )
    const paths = [...named.map(([, path = '']) => path), ...drawn].map((path) =>
      path.startsWith('src/') ? path : `src/${path}`,
    )
    expect(paths.filter((path) => !existsSync(new URL(path, root)))).toEqual([])
  })

  test('names npm scripts that exist', () => {
    const named = [...text.matchAll(/npm run ([\w:-]+)/g)].map(([, name = '']) => name)
    expect(named.filter((name) => scripts[name] === undefined)).toEqual([])
  })

  test('names settings that exist', () => {
    const named = [...text.matchAll(/`([A-Z]+(?:_[A-Z]+)+)(?:=[^`]*)?`/g)].map(([, name = '']) => name)
    const codes = ['RESTRICTED_GEOLOCATION', 'BAD_REQUEST', 'NOT_FOUND', 'SANDBOX_NOT_IMPLEMENTED']
    const ofOthers = [
      'NODE_OPTIONS',
      'CHROMIUM_PATH',
      'NODE_EXTRA_CA_CERTS',
      'HTTPS_PROXY',
      'NO_PROXY',
      ...Object.keys(otherNames),
      ...namesOfOpenTelemetry,
    ]
    const tellsHistory = page === 'CHANGELOG.md' || decisions.includes(page)
    const gone = tellsHistory ? [...Object.keys(goneSettings), 'FAST_LANE', 'LEDGER_TERMS_MS'] : []
    const others = [...codes, ...ofOthers, ...gone]
    expect(named.filter((name) => !isKnownName(name) && !others.includes(name))).toEqual([])
  })
})

describe.each(decisions)('%s', (page) => {
  test('has its context, its decision and its consequence, in this order', () => {
    const text = read(page)
    expect(text.match(/^\*\*(?:Context|Decision|Consequence)\.\*\*/gm)).toEqual([
      '**Context.**',
      '**Decision.**',
      '**Consequence.**',
    ])
  })
})

describe('the promises of docs/promises.md', () => {
  const rows = read('docs/promises.md')
    .split('\n')
    .filter((line) => /^\| (?!promise|behaviour)/.test(line))
  const proofs = rows.flatMap((row) => [...row.matchAll(/\[([^\]]+)\]\(\.\.\/(test\/[^)]+)\)/g)])

  test.each(proofs.map(([, title = '', file = '']) => [title, file]))(
    '"%s" is a test in %s',
    (title, file) => {
      const titles = [...read(file).matchAll(/^\s*(?:test|it|describe)\b.*$(?:\n\s+['`].*$)?/gm)]
      expect(titles.filter(([line]) => line.includes(title)).length).toBeGreaterThan(0)
    },
  )

  test('have a test each', () => {
    expect(rows.length).toBeGreaterThan(15)
    expect(rows.filter((row) => !proofs.some(([proof]) => row.includes(proof)))).toEqual([])
  })

  test('name every file of test/promises', () => {
    const linked = new Set(proofs.map(([, , file]) => file))
    const files = readdirSync(new URL('test/promises/', root)).map((name) => `test/promises/${name}`)
    expect(files.filter((file) => !linked.has(file))).toEqual([])
  })
})

test('the picture in docs/architecture.md has every problem, with its status', () => {
  const [, picture = ''] = /^```mermaid\n([\s\S]*?)^```$/m.exec(read('docs/architecture.md')) ?? []
  const drawn = [...picture.matchAll(/\b(\d{3}) ([a-z]+(?:-[a-z]+)*)\b/g)].map(([problem]) => problem)
  const problems = Object.entries(problemTypes).map(([slug, { status }]) => `${status} ${slug}`)
  // What goes wrong anywhere is in the sentence below the picture.
  expect([...new Set([...drawn, '500 internal-error'])].sort()).toEqual(problems.sort())
})

test('the OpenAPI document names sections of docs/problems.md that exist', () => {
  const named = [...read('docs/openapi.json').matchAll(/docs\/problems\.md#([\w-]+)/g)].map(
    ([, anchor]) => anchor,
  )
  expect(named.length).toBeGreaterThan(10)
  const anchors = anchorsOf('docs/problems.md')
  expect(named.filter((anchor) => !anchors.includes(anchor ?? ''))).toEqual([])
})
