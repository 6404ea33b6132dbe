import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'

function temporary(): string {
  const folder = mkdtempSync(join(tmpdir(), 'state-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

const check = (directory: string) => () => loadConfig({ STATE_DIRECTORY: directory }, { tryDirectory: true })

test('a folder that is there and can be written to is good, and stays as it is', () => {
  const folder = temporary()
  writeFileSync(join(folder, 'about'), 'x')
  check(folder)()
  expect(readdirSync(folder)).toEqual(['about'])
})

test('a folder that can be made is good, and neither it nor those above it are left behind', () => {
  const folder = temporary()
  check(join(folder, 'a', 'b', 'c'))()
  check(`${folder}/a/../b/`)()
  expect(readdirSync(folder)).toEqual([])
})

test('what cannot be a folder is a problem that names the setting, with the reason, and leaves nothing behind', () => {
  const folder = temporary()
  const file = join(folder, 'file')
  writeFileSync(file, 'x')
  const expected = 'expected: a folder that quotegate can create and write to \\(E[A-Z]+\\)'
  expect(check(file)).toThrow(new RegExp(`STATE_DIRECTORY=.*file - ${expected}`))
  expect(check(join(file, 'below'))).toThrow(new RegExp(expected))
  expect(check(join(folder, 'made', 'x'.repeat(300)))).toThrow(
    'a path of at most 86 bytes, because its lock is a socket',
  )
  expect(readdirSync(folder)).toEqual(['file'])
})

test('a start, and a library, do not touch the folder before they use it', () => {
  const folder = join(temporary(), 'later')
  loadConfig({ STATE_DIRECTORY: folder })
  expect(existsSync(folder)).toBe(false)
})
