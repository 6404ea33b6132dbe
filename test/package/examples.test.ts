import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { install, pack, root, runIn } from './tarball.ts'

const read = (path: string) => readFileSync(join(root, path), 'utf8')
const { version } = JSON.parse(read('package.json'))

// Whole suites are installed and run here, on machines that have other things to do.
vi.setConfig({ testTimeout: 600_000, hookTimeout: 180_000 })

const folder = mkdtempSync(join(tmpdir(), 'quotegate-examples-'))
let tarball: string
beforeAll(async () => {
  tarball = await pack(folder)
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test('docs/library.md installs the tarball of this version', () => {
  expect(read('docs/library.md')).toContain(`npm install --save-dev ../quotegate/quotegate-${version}.tgz`)
})

describe.each(readdirSync(join(root, 'examples')))('examples/%s', (name) => {
  test('requires the current version', () => {
    const example = JSON.parse(read(join('examples', name, 'package.json')))
    expect(example.devDependencies.quotegate).toBe(`^${version}`)
  })

  // As docs/library.md says, as long as no registry has quotegate. Jest runs without a flag of Node.
  test('passes, installed from the tarball', async () => {
    const copy = join(folder, name)
    cpSync(join(root, 'examples', name), copy, { recursive: true })
    await install(copy, ['--save-dev', tarball])
    const { code, stdout, stderr } = await runIn(copy, 'npm', ['test', '--silent'])
    expect(`${code} ${stdout}${stderr}`).toMatch(/^0 /)
    expect(stdout + stderr).toMatch(/^(?:(?:#|ℹ) pass 3|Tests: +3 passed, 3 total)$/m)
  })
})
