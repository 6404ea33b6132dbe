import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { blockOf } from '../../scripts/bare.mjs'
import { debianPackageOf, programs } from '../support/machine/programs.ts'
import { root } from './tarball.ts'

const read = (path: string) => readFileSync(join(root, path), 'utf8')
const { allowScripts, scripts } = JSON.parse(read('package.json'))

describe('install scripts', () => {
  // npm 10 and 11 warn of keys that they do not know, at every call.
  test('are switched off by a key that every npm version knows, and nothing of ours needs them', () => {
    expect(read('.npmrc').match(/^[^#\n].*/gm)).toEqual(['ignore-scripts=true'])
    expect(Object.keys(scripts).filter((name) => /^(pre|post)/.test(name))).toEqual([])
  })

  test('are refused by name for each package that has one', () => {
    const { packages } = JSON.parse(read('package-lock.json')) as {
      packages: Record<string, { hasInstallScript?: boolean }>
    }
    const names = Object.entries(packages)
      .filter(([, { hasInstallScript }]) => hasInstallScript)
      .map(([path]) => [path.replace(/^.*node_modules\//, ''), false])
    expect(allowScripts).toEqual(Object.fromEntries(names))
  })
})

test('npm start, npm test and the builds need no POSIX shell', () => {
  for (const name of [
    'start',
    'test',
    'test:unit',
    'build',
    'build:image',
    'dev',
    'lint',
    'typecheck',
  ])
    expect(`${name}: ${scripts[name]}`).not.toMatch(
      /\b(exec|rm|cp|mv|sh|bash)\b|\.sh\b|\$|;|'|: [A-Z_]+=/,
    )
})

test('npm test says how long it takes before it builds and tests', () => {
  expect(scripts.test).toMatch(
    /^echo These tests take [\w ]+ minutes\.? && node scripts\/build\.mjs/,
  )
})

test('the Node of .node-version is that of the image', () => {
  expect(read('Dockerfile')).toContain(`FROM node:${read('.node-version').trim()}-`)
})

interface Workflow {
  permissions: Record<string, string>
  jobs: Record<
    string,
    { 'timeout-minutes'?: number; steps: { run?: string; uses?: string }[] }
  >
}

test.each(['ci', 'release'])(
  '.github/workflows/%s.yml runs scripts that exist, may only read, ends in time, and leaves no token behind',
  (name) => {
    const text = read(`.github/workflows/${name}.yml`)
    const { permissions, jobs } = parse(text) as Workflow
    const named = [...text.matchAll(/npm run ([\w:-]+)/g)].map(([, one = '']) => one)
    expect(named.length).toBeGreaterThan(1)
    expect(named.filter((one) => scripts[one] === undefined)).toEqual([])
    expect(permissions).toEqual({ contents: 'read' })
    for (const { 'timeout-minutes': minutes, steps } of Object.values(jobs)) {
      expect(minutes).toBeGreaterThan(0)
      for (const step of steps.filter(({ uses = '' }) =>
        uses.startsWith('actions/checkout@'),
      ))
        expect(step).toMatchObject({ with: { 'persist-credentials': false } })
    }
  },
)

describe('.ci/run', () => {
  const run = read('.ci/run').split('\n')

  test('runs the block of tests of the README, and all else of npm run check', () => {
    expect(blockOf(read('README.md'))).toBe('npm ci && npm test\n')
    const parts: string[] = scripts.check.split(' && ')
    expect(parts).toContain('npm test')
    const steps = parts.map((part) =>
      part === 'npm test' ? 'node scripts/bare.mjs' : part,
    )
    const started = run.map(
      (line) => /^(?:step|beside)(?: nice -n 19)? (.+)$/.exec(line)?.[1],
    )
    expect(started).toEqual(expect.arrayContaining(steps))
    // Or what runs beside a step and fails would be lost.
    expect(run.lastIndexOf('joined')).toBeGreaterThan(
      run.findLastIndex((line) => line.startsWith('beside ')),
    )
  })

  test('installs the packages that CONTRIBUTING.md names, and those that every Debian has', () => {
    const [, named = ''] = /`apt-get install ([^`]+)`/.exec(read('CONTRIBUTING.md')) ?? []
    const all = [...named.split(' '), 'bash', 'bsdutils', 'util-linux']
    expect(all.sort()).toEqual([...new Set(programs.map(debianPackageOf))].sort())
  })
})
