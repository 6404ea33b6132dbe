import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { blockOf } from '../../scripts/bare.mjs'
import { debianPackageOf, programs } from '../support/machine/programs.ts'

const root = new URL('../../', import.meta.url)
const read = (path: string) => readFileSync(fileURLToPath(new URL(path, root)), 'utf8')
const { allowScripts, scripts, repository, bugs } = JSON.parse(read('package.json'))

describe('install scripts', () => {
  test('are switched off by a key that every npm version knows', () => {
    const lines = read('.npmrc')
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'))
    // npm 10 and 11 warn of keys that they do not know, at every call.
    expect(lines).toEqual(['ignore-scripts=true'])
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

  test('are not needed by npm start, npm test or a build', () => {
    expect(Object.keys(scripts).filter((name) => /^(pre|post)/.test(name))).toEqual([])
  })
})

test('npm start, npm test and the builds need no POSIX shell', () => {
  for (const name of ['start', 'test', 'test:unit', 'build', 'build:image', 'dev', 'lint', 'typecheck']) {
    expect(`${name}: ${scripts[name]}`).not.toMatch(/\b(exec|rm|cp|mv|sh|bash)\b|\.sh\b|\$|;|'|: [A-Z_]+=/)
  }
})

test('the Node of .node-version is that of the image', () => {
  expect(read('Dockerfile')).toContain(`FROM node:${read('.node-version').trim()}-`)
})

test('the repository and its issues have one address', () => {
  expect(repository.url).toBe(`git+${bugs.url.replace(/\/issues$/, '')}.git`)
})

interface Step {
  run?: string
  uses?: string
}
interface Workflow {
  permissions: Record<string, string>
  jobs: Record<string, { 'timeout-minutes'?: number; strategy?: { matrix: object }; steps: Step[] }>
}

describe.each(['ci', 'release'])('.github/workflows/%s.yml', (name) => {
  const workflow = parse(read(`.github/workflows/${name}.yml`)) as Workflow
  const steps = Object.values(workflow.jobs).flatMap((job) => job.steps)

  test('runs scripts that exist', () => {
    const named = steps.flatMap(({ run = '' }) =>
      [...run.matchAll(/npm run ([\w:-]+)/g)].map(([, one]) => one),
    )
    expect(named.length).toBeGreaterThan(1)
    expect(named.filter((one = '') => scripts[one] === undefined)).toEqual([])
  })

  test('may only read unless a job says otherwise, ends in time, and leaves no token in the checkout', () => {
    expect(workflow.permissions).toEqual({ contents: 'read' })
    for (const job of Object.values(workflow.jobs)) expect(job['timeout-minutes']).toBeGreaterThan(0)
    const checkouts = steps.filter(({ uses = '' }) => uses.startsWith('actions/checkout@'))
    expect(checkouts.length).toBeGreaterThan(0)
    for (const one of checkouts) expect(one).toMatchObject({ with: { 'persist-credentials': false } })
  })
})

describe('.ci/run', () => {
  const run = read('.ci/run').split('\n')

  test('runs the block of tests of the README as it stands', () => {
    expect(blockOf(read('README.md'))).toBe('npm ci && npm test\n')
    expect(run).toContain('recorded bare.json node scripts/bare.mjs')
  })

  test('runs everything that npm run check runs, and then the tests that were skipped', () => {
    const parts: string[] = scripts.check.split(' && ')
    expect(parts).toContain('npm test')
    expect(run).toEqual(
      expect.arrayContaining(parts.filter((part) => part !== 'npm test').map((part) => `step ${part}`)),
    )
    expect(run).toContain('recorded fleets.json npx vitest run test/faults/store-fleet')
    expect(run).toContain(
      'recorded skipped.json npx tsx scripts/ci/run-skipped.ts "$records/bare.json" test/faults/store-fleet',
    )
  })

  test('installs the packages that CONTRIBUTING.md names, and those that every Debian has', () => {
    const [, named = ''] = /`apt-get install ([^`]+)`/.exec(read('CONTRIBUTING.md')) ?? []
    const everywhere = ['bash', 'bsdutils', 'util-linux']
    expect([...named.split(' '), ...everywhere].sort()).toEqual(
      [...new Set(programs.map(debianPackageOf))].sort(),
    )
  })
})

test('CI runs .ci/run on every Node that is supported, and the build and unit tests on macOS and Windows', () => {
  const { jobs } = parse(read('.github/workflows/ci.yml')) as Workflow
  expect(jobs.everything?.strategy?.matrix).toEqual({ node: [20, 22, 24, 26] })
  expect(jobs.everything?.steps.map(({ run }) => run)).toContain('.ci/run')
  expect(jobs['other-systems']?.strategy?.matrix).toEqual({ os: ['macos-latest', 'windows-latest'] })
  const commands = jobs['other-systems']?.steps.map(({ run }) => run)
  expect(commands).toEqual(expect.arrayContaining(['npm run build', 'npm run test:unit']))
  const oldest = jobs['oldest-node']?.steps.map(({ run }) => run)
  expect(oldest).toContain(`npm run test:nodes -- ${JSON.parse(read('package.json')).engines.node.slice(2)}`)
})
