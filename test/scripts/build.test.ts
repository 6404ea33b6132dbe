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
import { afterAll, afterEach, expect, test, vi } from 'vitest'
import { killPrograms, watchProgram } from '../support/gateways/program.ts'
import { environment } from '../support/machine/environment.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const copy = mkdtempSync(join(tmpdir(), 'build-'))
afterEach(killPrograms)
// Each build takes the compiler.
vi.setConfig({ testTimeout: 600_000, hookTimeout: 180_000 })
afterAll(() => rmSync(copy, { recursive: true, force: true }))

function copyWhatABuildReads(): void {
  const names = [
    'src',
    'scripts',
    'package.json',
    'package-lock.json',
    'tsconfig.json',
    'tsconfig.build.json',
  ]
  for (const name of [...names, 'docs/openapi.json']) {
    mkdirSync(dirname(join(copy, name)), { recursive: true })
    cpSync(join(root, name), join(copy, name), { recursive: true })
  }
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'), 'junction')
}

const start = (...flags: string[]) => {
  const env = { PATH: environment().PATH, PORT: '0', ADMIN_PORT: '0', LOG_FORMAT: 'json' }
  return watchProgram(spawn(process.execPath, ['scripts/start.mjs', ...flags], { cwd: copy, env }))
}

function edit(name: string, change: (text: string) => string): void {
  const before = readFileSync(join(copy, name), 'utf8')
  const after = change(before)
  expect(after).not.toBe(before)
  writeFileSync(join(copy, name), after)
}

/** A person reads it meanwhile: a start that is silent for so long looks as if it hung. */
function saysSo(why: string): RegExp {
  const begins = `${why}: building it, before quotegate starts\\. That takes some seconds\\.`
  return new RegExp(`^${begins}\\nBuilt in \\d+ s: quotegate starts\\.\\n`)
}

const chunks = () => readdirSync(join(copy, 'dist')).filter((name) => /^program-\w+\.js$/.test(name))

async function contents(url: string, paths: readonly string[]): Promise<string[]> {
  return Promise.all(paths.map(async (path) => (await fetch(url + path)).text()))
}

test('a startup builds if a source is newer, and that does not affect a running gateway', async () => {
  copyWhatABuildReads()
  const gateway = start()
  const [, trafficUrl = '', operationsUrl = ''] = await gateway.says(
    /"trafficUrl":"(.+?)","operationsUrl":"(.+?)"/,
  )
  expect(gateway.stderr()).toMatch(saysSo('dist/ does not exist yet'))
  const before = chunks()
  expect(before).toHaveLength(1)

  edit('src/program.ts', (text) => text.replace('quotegate is listening', 'quotegate serves'))
  edit('src/operations/console/index.html', (text) => `${text}<!-- newer -->`)
  edit('docs/openapi.json', (text) => `${text}\n`)
  const built = await start('--version').exit
  expect(built).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) })
  expect(built.stderr).toMatch(saysSo('A source is newer than dist/'))
  expect(chunks()).toHaveLength(1)
  expect(chunks()).not.toEqual(before)
  expect((await start('--version').exit).stderr).toBe('')
  const left = readdirSync(join(copy, 'dist'), { recursive: true, encoding: 'utf8' })
  expect(left.filter((name) => name.endsWith('.part'))).toEqual([])

  // None of these was asked for before the second build.
  const [page, document] = await contents(operationsUrl, ['/', '/openapi.json'])
  expect(page).toBe(readFileSync(join(root, 'src/operations/console/index.html'), 'utf8'))
  expect(document).toBe(readFileSync(join(root, 'docs/openapi.json'), 'utf8'))
  const headers = { 'App-Name': 'tests', 'Content-Type': 'application/json' }
  const answer = await fetch(`${trafficUrl}/v3/pairs/ETH_USDC/quotes?amount=0.1`, { headers })
  const quote = (await answer.json()) as { toAmount: { value: string } }
  const order = { pairId: 'ETH_USDC', fromAmount: 0.1, toAmount: quote.toAmount.value, toAddress: '0xto' }
  const post = { method: 'POST', headers, body: JSON.stringify(order) }
  expect((await fetch(`${trafficUrl}/v3/orders/float`, post)).status).toBe(201)
  gateway.child.kill('SIGTERM')
  expect((await gateway.exit).code).toBe(0)
})

test('a build that fails leaves the old dist/ in place, and nothing is started', async () => {
  const before = chunks()
  writeFileSync(join(copy, 'src/mistake.ts'), 'export const mistake =\n')
  const failed = await start('--version').exit
  // The compiler's own code for errors.
  expect([failed.code, failed.stdout]).toEqual([2, ''])
  expect(failed.stderr).toContain('src/mistake.ts(1,23): error TS1109: Expression expected.')
  expect(chunks()).toEqual(before)
})
