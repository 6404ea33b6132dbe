import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readText } from '../../src/config/files.ts'
import { printConfig } from '../../src/config/help.ts'
import { loadConfig } from '../../src/config/load.ts'
import { newFolder } from '../support/machine/new-folder.ts'
import { errorOf, file, namesOf } from './support.ts'

const token = 'a-token-of-16-characters'

describe('a secret in a file', () => {
  test('is read, is masked, and its file is named as its source', () => {
    const secrets = {
      SWAP_AUTHORIZATION: 'Bearer hunter2',
      ADMIN_TOKEN: token,
      VALKEY_URL: 'redis://:hunter2@store:6379',
      UPSTREAM_PROXY: 'http://me:hunter2@proxy.example:3128',
    }
    const files = Object.entries(secrets).map(
      ([name, value]) => [`${name}_FILE`, file(`${value}\n`)] as const,
    )
    const given = { SWAP_BASE_URL: 'https://swap.example' }
    const fromFiles = loadConfig({ ...given, ...Object.fromEntries(files) })
    expect(fromFiles.config).toEqual(loadConfig({ ...given, ...secrets }).config)
    const printed = printConfig(fromFiles)
    for (const [name, path] of files)
      expect(printed).toContain(`  (read from ${name}=${path})`)
    expect(printed.match(/\*\*\*\*.* {2}\(read from /g)).toHaveLength(4)
    expect(printed).not.toMatch(/hunter2|a-token/)
  })

  test('is the same from a file as from the environment, with and without a newline at its end', () => {
    const path = file('')
    const visible = fc.string({
      unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)),
      minLength: 16,
      maxLength: 512,
    })
    fc.assert(
      fc.property(visible, fc.constantFrom('', '\n', '\r\n'), (value, end) => {
        writeFileSync(path, value + end)
        expect(loadConfig({ ADMIN_TOKEN_FILE: path }).config.admin.token).toBe(value)
      }),
    )
  })

  test.each([
    ['is missing', () => '/nowhere/secret', /can read \(ENOENT\)$/],
    ['is a folder', () => tmpdir(), /can read \(EISDIR\)$/],
    ['has a newline alone', () => file('\n'), /this file is empty$/],
    ['is not text', () => file(Buffer.from([0xff, 0xfe, 0x41])), /a file of UTF-8 text$/],
    ['ends with an empty line', () => file(`${token}\n\n`), /a file that holds /],
    ['has two lines', () => file(`${token}\n${token}\n`), /a file that holds /],
  ])('stops the startup if the file %s', (_case, path, expected) => {
    const error = errorOf({ ADMIN_TOKEN_FILE: path() })
    const problem = {
      name: 'ADMIN_TOKEN_FILE',
      expected: expect.stringMatching(expected),
    }
    expect(error?.problems).toEqual([expect.objectContaining(problem)])
    expect(error?.message).not.toContain(token)
  })

  test('stops the startup if both forms are set', () => {
    const [problem, ...more] =
      errorOf({ ADMIN_TOKEN: token, ADMIN_TOKEN_FILE: file(token) })?.problems ?? []
    expect([problem?.name, more]).toEqual(['ADMIN_TOKEN_FILE', []])
    expect(problem?.expected).toContain('not set, because ADMIN_TOKEN is set')
  })

  test('that cannot be read is listed with all other problems', () => {
    const given = {
      PORT: 'x',
      SWAP_CA_FILE: '/nowhere',
      SWAP_AUTHORIZATION_FILE: file(''),
    }
    expect(namesOf(given).sort()).toEqual(Object.keys(given).sort())
  })
})

describe('a file', () => {
  const aDevice = 'a file that quotegate can read (it is a pipe or a device, not a file)'

  test('that is too long is not read to its end', () => {
    const path = file('')
    truncateSync(path, 2 ** 23)
    expect(() => readText(path)).toThrow('it has more than 4194304 bytes')
  })

  test.skipIf(!existsSync('/dev/zero'))('cannot be a device that never ends', () => {
    expect(() => readText('/dev/zero')).toThrow(aDevice)
  })

  test.skipIf(process.platform === 'win32')(
    'cannot be a named pipe: no start waits for its writer',
    () => {
      const path = join(newFolder(), 'pipe')
      execFileSync('mkfifo', [path])
      expect(() => readText(path)).toThrow(aDevice)
    },
  )
})

describe('STATE_DIRECTORY', () => {
  const check = (directory: string) => () =>
    loadConfig({ STATE_DIRECTORY: directory }, { by: 'check' })

  test('may be a folder that is there, which stays as it is, and one that can be made, which is not left behind', () => {
    const parent = newFolder()
    writeFileSync(join(parent, 'about'), 'x')
    check(parent)()
    check(join(parent, 'a', 'b', 'c'))()
    check(`${parent}/a/../b/`)()
    expect(readdirSync(parent)).toEqual(['about'])
  })

  test('is a problem, with the reason, where there cannot be a folder, and nothing is left behind', () => {
    const parent = newFolder()
    const inTheWay = join(parent, 'file')
    writeFileSync(inTheWay, 'x')
    const expected =
      /STATE_DIRECTORY=.* - expected: a folder that quotegate can create and write to \(E[A-Z]+\)/
    expect(check(inTheWay)).toThrow(expected)
    expect(check(join(inTheWay, 'below'))).toThrow(expected)
    expect(check(join(parent, 'made', 'x'.repeat(300)))).toThrow(
      'a path of at most 86 bytes',
    )
    expect(readdirSync(parent)).toEqual(['file'])
  })

  test('is not touched by a start, or by a library, before they use it', () => {
    const later = join(newFolder(), 'later')
    loadConfig({ STATE_DIRECTORY: later })
    expect(existsSync(later)).toBe(false)
  })
})
