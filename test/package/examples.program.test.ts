import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { install, pack, root, runIn } from './tarball.ts'

const read = (path: string) => readFileSync(join(root, path), 'utf8')
const { version } = JSON.parse(read('package.json'))

// Whole suites are installed and run here, on machines that have other things to do.
vi.setConfig({ testTimeout: 600_000, hookTimeout: 180_000 })

const folder = mkdtempSync(join(tmpdir(), 'quotegate-examples-'))
/** A clone in which `npm ci && npm run build` was done, as far as an example sees it: what is packed, and its packages. */
const clone = join(folder, 'package')
beforeAll(async () => {
  const tarball = await pack(folder)
  expect((await runIn(folder, 'tar', ['-xzf', basename(tarball)])).stderr).toBe('')
  await install(clone, ['--omit=dev'])
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test('docs/library.md installs the tarball of this version', () => {
  expect(read('docs/library.md')).toContain(
    `npm install --save-dev ../quotegate/quotegate-${version}.tgz`,
  )
})

describe.each(readdirSync(join(root, 'examples')))('examples/%s', (name) => {
  // No registry has quotegate.
  test('takes quotegate from the clone that it is in, and says what to do before', () => {
    const example = JSON.parse(read(join('examples', name, 'package.json')))
    expect(example.devDependencies.quotegate).toBe('file:../..')
    const commands = ['(cd ../.. && npm ci && npm run build)', 'npm install', 'npm test']
    expect(read(join('examples', name, 'README.md'))).toContain(
      commands.map((line) => `    ${line}\n`).join(''),
    )
  })

  // Jest runs without a flag of Node.
  test('passes', async () => {
    const copy = join(clone, 'examples', name)
    cpSync(join(root, 'examples', name), copy, {
      recursive: true,
      filter: (path) => basename(path) !== 'node_modules',
    })
    await install(copy, [])
    const { code, stdout, stderr } = await runIn(copy, 'npm', ['test', '--silent'])
    expect(`${code} ${stdout}${stderr}`).toMatch(/^0 /)
    expect(stdout + stderr).toMatch(/^(?:(?:#|ℹ) pass [3-9]|Tests: +3 passed, 3 total)$/m)
  })
})
