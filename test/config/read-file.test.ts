import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { readText } from '../../src/config/files.ts'

function pathOf(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'quotegate-file-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, name)
}

test('a file is read whole, longer than one read takes', () => {
  const path = pathOf('long')
  const text = 'abcdefg'.repeat(30_000)
  writeFileSync(path, text)
  expect(readText(path)).toBe(text)
})

test('a file that is too long is not read to its end', () => {
  const path = pathOf('huge')
  writeFileSync(path, '')
  truncateSync(path, 2 ** 23)
  expect(() => readText(path)).toThrow('a file that quotegate can read (it has more than 4194304 bytes)')
})

test.skipIf(!existsSync('/dev/zero'))('neither is a device that never ends', () => {
  expect(() => readText('/dev/zero')).toThrow(
    'a file that quotegate can read (it is a pipe or a device, not a file)',
  )
})

test.skipIf(process.platform === 'win32')(
  'a named pipe is refused, and no start waits for its writer',
  () => {
    const path = pathOf('pipe')
    execFileSync('mkfifo', [path])
    expect(() => readText(path)).toThrow(
      'a file that quotegate can read (it is a pipe or a device, not a file)',
    )
  },
)
