import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { isSettingName } from '../src/settings/table.ts'

const root = new URL('../', import.meta.url)
const read = (path: string) => readFileSync(new URL(path, root), 'utf8')
const decisions = readdirSync(new URL('docs/decisions/', root)).map((name) => `docs/decisions/${name}`)
const written = ['problems', 'metrics', 'operations', 'library'].map((name) => `docs/${name}.md`)
const pages = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', ...written, ...decisions]
const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }

describe.each(pages)('%s', (page) => {
  const text = read(page)

  test('links to files that are there', () => {
    const links = [...text.matchAll(/\]\((?!https?:)([^)#]+)/g)].map(([, link = '']) => link)
    expect(links.filter((link) => !existsSync(new URL(link, new URL(page, root))))).toEqual([])
  })

  test('names files of the sources that are there', () => {
    const named = [...text.matchAll(/`(src\/[\w/.-]+|(?:routes|upstream|client)\/[\w-]+\.ts)`/g)]
    const paths = named.map(([, path = '']) => (path.startsWith('src/') ? path : `src/${path}`))
    expect(paths.filter((path) => !existsSync(new URL(path, root)))).toEqual([])
  })

  test('names npm scripts that are there', () => {
    const named = [...text.matchAll(/npm run ([\w:-]+)/g)].map(([, name = '']) => name)
    expect(named.filter((name) => scripts[name] === undefined)).toEqual([])
  })

  test('names settings that are there', () => {
    const named = [...text.matchAll(/`([A-Z]+(?:_[A-Z]+)+)(?:=[^`]*)?`/g)].map(([, name = '']) => name)
    const others = ['RESTRICTED_GEOLOCATION', 'NODE_OPTIONS']
    expect(named.filter((name) => !isSettingName(name) && !others.includes(name))).toEqual([])
  })
})
