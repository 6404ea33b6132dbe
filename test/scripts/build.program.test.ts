import { spawn } from 'node:child_process'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, onTestFinished, test, vi } from 'vitest'
import { watchProgram } from '../support/gateways/program.ts'
import { environment } from '../support/machine/environment.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const copy = mkdtempSync(join(tmpdir(), 'build-'))
// Each build takes the compiler.
vi.setConfig({ testTimeout: 600_000, hookTimeout: 180_000 })
afterAll(() => rmSync(copy, { recursive: true, force: true }))

function copyWhatABuildReads(): void {
  const configs = [
    'package.json',
    'package-lock.json',
    'tsconfig.json',
    'tsconfig.build.json',
  ]
  for (const name of [
    'src',
    'scripts',
    ...configs,
    'docs/openapi.json',
    'docs/runbook.md',
  ]) {
    mkdirSync(dirname(join(copy, name)), { recursive: true })
    cpSync(join(root, name), join(copy, name), { recursive: true })
  }
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'), 'junction')
}

const start = (...flags: string[]) => {
  const env = { PATH: environment().PATH, PORT: '0', ADMIN_PORT: '0', LOG_FORMAT: 'json' }
  const child = spawn(process.execPath, ['scripts/start.mjs', ...flags], {
    cwd: copy,
    env,
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  return watchProgram(child)
}

function edit(name: string, change: (text: string) => string): void {
  const before = readFileSync(join(copy, name), 'utf8')
  expect(change(before)).not.toBe(before)
  writeFileSync(join(copy, name), change(before))
}

const chunks = () =>
  readdirSync(join(copy, 'dist')).filter((name) => /^program-\w+\.js$/.test(name))

test('a startup builds if a source is newer, says so, and that does not affect a running gateway', async () => {
  copyWhatABuildReads()
  const gateway = start()
  const [, trafficUrl, operationsUrl] = await gateway.says(
    /"trafficUrl":"(.+?)","operationsUrl":"(.+?)"/,
  )
  // A person reads it meanwhile: a start that is silent for so long looks as if it hung.
  expect(gateway.stderr()).toMatch(
    /^dist\/ does not exist yet: building it, .*\nBuilt in \d+ s: quotegate starts\.\n/,
  )
  const before = chunks()
  expect(before).toHaveLength(1)

  edit('src/program.ts', (text) =>
    text.replace('quotegate is listening', 'quotegate serves'),
  )
  edit('src/operations/console/index.html', (text) => `${text}<!-- newer -->`)
  edit('docs/openapi.json', (text) => `${text}\n`)
  const built = await start('--version').exit
  expect(built).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/),
  })
  expect(built.stderr).toMatch(/^A source is newer than dist\/: building it, /)
  expect(chunks()).toHaveLength(1)
  expect(chunks()).not.toEqual(before)
  expect((await start('--version').exit).stderr).toBe('')
  const left = readdirSync(join(copy, 'dist'), { recursive: true, encoding: 'utf8' })
  expect(left.filter((name) => name.endsWith('.part'))).toEqual([])

  // None of these was asked for before the second build.
  for (const [path, source] of [
    ['/', 'src/operations/console/index.html'],
    ['/openapi.json', 'docs/openapi.json'],
  ] as const)
    expect(await (await fetch(operationsUrl + path)).text()).toBe(
      readFileSync(join(root, source), 'utf8'),
    )
  const headers = { 'App-Name': 'tests', 'Content-Type': 'application/json' }
  const body = JSON.stringify({ pairId: 'ETH_USDC', fromAmount: 0.1, toAddress: '0xto' })
  await fetch(`${trafficUrl}/v3/pairs/ETH_USDC/quotes?amount=0.1`, { headers })
  const order = await fetch(`${trafficUrl}/v3/orders/float`, {
    method: 'POST',
    headers,
    body,
  })
  expect(order.status).toBe(201)
  gateway.child.kill('SIGTERM')
  expect((await gateway.exit).code).toBe(0)
})

test('a build that fails leaves the old dist/ in place, and nothing is started', async () => {
  const before = chunks()
  writeFileSync(join(copy, 'src/mistake.ts'), 'export const mistake =\n')
  const failed = await start('--version').exit
  // The compiler's own code for errors.
  expect([failed.code, failed.stdout]).toEqual([2, ''])
  expect(failed.stderr).toContain('src/mistake.ts(1,23): error TS1109')
  expect(chunks()).toEqual(before)
})
