import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { nodeProblem } from '../../src/process/needed-node.mjs'
import { engines } from '../../src/process/package-info.ts'
import { watchProgram } from '../support/gateways/program.ts'
import { environment } from '../support/machine/environment.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

test.each([
  ['18.20.8', 'quotegate needs Node 20.18.1 or later, and this is Node 18.20.8.'],
  ['20.17.0', 'quotegate needs Node 20.18.1 or later, and this is Node 20.17.0.'],
  ['20.18.0', 'quotegate needs Node 20.18.1 or later, and this is Node 20.18.0.'],
  ['20.18.1', undefined],
  ['20.19.0', undefined],
  ['22.0.0', undefined],
  ['26.0.0-nightly20261001', undefined],
])('Node %s: %s', (version, problem) => {
  expect(nodeProblem('>=20.18.1', version)).toBe(problem)
})

describe('on a Node that is too old', () => {
  /** `npm run test:nodes -- 18 20.17` runs the same on real ones. */
  async function onNode(version: string, parameters: readonly string[]) {
    const pretend = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${version}' } })`
    const preload = `data:text/javascript,${encodeURIComponent(pretend)}`
    const child = spawn(process.execPath, ['--import', preload, ...parameters], {
      cwd: root,
      env: { PATH: environment().PATH },
    })
    onTestFinished(() => void child.kill('SIGKILL'))
    return watchProgram(child).exit
  }

  const needed = engines.node.replace('>=', '')
  const said = `quotegate needs Node ${needed} or later, and this is Node 18.20.8.`

  test.each([
    ['the program', ['dist/main.js']],
    ['the program with a flag', ['dist/main.js', '--version']],
    ['npm start', ['scripts/start.mjs', '--version']],
  ])('%s says which one is needed, in one line, and ends', async (_what, parameters) => {
    const { code, stdout, stderr } = await onNode('18.20.8', parameters)
    expect([code, stdout, stderr]).toEqual([1, '', `${said}\n`])
  })

  test.each([
    ['import', ['--input-type=module', '-e', "import './dist/index.js'"]],
    ['require', ['--input-type=commonjs', '-e', "require('./dist/index.cjs')"]],
    [
      'import of the sandbox',
      ['--input-type=module', '-e', "import './dist/sandbox.js'"],
    ],
    [
      'require of the sandbox',
      ['--input-type=commonjs', '-e', "require('./dist/sandbox.cjs')"],
    ],
  ])('the library throws an error that says so: %s', async (_what, parameters) => {
    const { code, stderr } = await onNode('18.20.8', parameters)
    expect(code).toBe(1)
    expect(stderr).toContain(`\nError: ${said}\n`)
  })

  test('none of them says anything on the oldest that is new enough', async () => {
    expect(await onNode(needed, ['dist/main.js', '--check-config'])).toMatchObject({
      code: 0,
      stderr: '',
    })
    const both = "require('./dist/index.cjs'); require('./dist/sandbox.cjs')"
    const library = await onNode(needed, ['--input-type=commonjs', '-e', both])
    expect(library).toEqual({ code: 0, stdout: '', stderr: '' })
  })
})
