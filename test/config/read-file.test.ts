import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { readSystemFile, readText } from '../../src/config/read-file.ts'

function pathOf(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'quotegate-file-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, name)
}

test('a file is read whole, longer than one read takes', () => {
  const path = pathOf('long')
  const bytes = Buffer.alloc(200_000, 'abcdefg')
  writeFileSync(path, bytes)
  expect(readSystemFile(path).equals(bytes)).toBe(true)
})

test('a file that is too long is not read to its end', () => {
  const path = pathOf('huge')
  writeFileSync(path, '')
  truncateSync(path, 2 ** 23)
  expect(readText(path, readSystemFile)).toEqual({
    expected: 'a file that quotegate can read (it has more than 4194304 bytes)',
  })
})

test.skipIf(!existsSync('/dev/zero'))('neither is a device that never ends', () => {
  expect(() => readSystemFile('/dev/zero')).toThrow('it has more than 4194304 bytes')
})

describe.skipIf(process.platform === 'win32')('a named pipe', () => {
  function pipe(): string {
    const path = pathOf('pipe')
    execFileSync('mkfifo', [path])
    return path
  }

  test('into which nothing is written is an error, and no endless wait', () => {
    expect(readText(pipe(), (path) => readSystemFile(path, 50))).toEqual({
      expected: 'a file that quotegate can read (the pipe did not end within 50 ms)',
    })
  })

  test('is read to its end, however late its writer comes and however slowly it writes', () => {
    const path = pipe()
    const slowly = 'sleep 0.2; exec > "$0"; sleep 0.2; printf Bearer; sleep 0.2; echo " x"'
    const writer = spawn('sh', ['-c', slowly, path], { stdio: 'ignore' })
    onTestFinished(() => void writer.kill())
    expect(readSystemFile(path, 120_000).toString()).toBe('Bearer x\n')
  })
})
