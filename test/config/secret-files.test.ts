import { writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { printConfig } from '../../src/config/help.ts'
import { loadConfig } from '../../src/config/load.ts'
import { SettingsError } from '../../src/config/problems.ts'
import { createGateway } from '../../src/gateway/gateway.ts'
import { file } from './support.ts'

const token = 'a-token-of-16-characters'

const secrets = [
  ['SWAP_AUTHORIZATION', 'Bearer hunter2'],
  ['ADMIN_TOKEN', token],
  ['VALKEY_URL', 'redis://:hunter2@store:6379'],
  ['UPSTREAM_PROXY', 'http://me:hunter2@proxy.example:3128'],
] as const

function userOf({ authorization = '' }: { authorization: string | undefined }): string {
  return Buffer.from(authorization.replace('Basic ', ''), 'base64').toString()
}

function secretsOf(given: Record<string, string>) {
  const { config } = loadConfig(given)
  return {
    SWAP_AUTHORIZATION: config.swap.authorization,
    ADMIN_TOKEN: config.admin.token,
    VALKEY_URL: config.store?.url,
    UPSTREAM_PROXY:
      config.proxy && `http://${userOf(config.proxy)}@${config.proxy.host}:${config.proxy.port}`,
  }
}

describe.each(secrets)('%s in a file', (name, value) => {
  test.each([
    ['', 'no newline'],
    ['\n', 'a newline'],
    ['\r\n', 'a newline of Windows'],
  ])('is read without its last newline (%j: %s)', (end) => {
    expect(secretsOf({ [`${name}_FILE`]: file(value + end) })[name]).toBe(value)
  })

  test('is masked, and its file is named as its source', () => {
    const path = file(`${value}\n`)
    const printed = printConfig(loadConfig({ [`${name}_FILE`]: path }))
    expect(printed).toMatch(
      new RegExp(`^${name}=.*\\*\\*\\*\\*.*  \\(read from ${name}_FILE=${path}\\)$`, 'm'),
    )
    expect(printed).not.toMatch(/hunter2|a-token/)
  })

  test.each([
    ['is missing', () => '/nowhere/secret', /can read \(ENOENT\)$/],
    ['is a folder', () => tmpdir(), /can read \(EISDIR\)$/],
    ['is empty', () => file(''), /this file is empty$/],
    ['has a newline alone', () => file('\n'), /this file is empty$/],
    ['is not text', () => file(Buffer.from([0xff, 0xfe, 0x41])), /a file of UTF-8 text$/],
    ['ends with an empty line', () => file(`${value}\n\n`), /a file that holds /],
    ['has two lines', () => file(`${value}\n${value}\n`), /a file that holds /],
  ])('stops the startup if the file %s', (_case, path, expected) => {
    const problems = problemsOf({ [`${name}_FILE`]: path() })
    expect(problems).toEqual([expect.objectContaining({ name: `${name}_FILE` })])
    expect(problems[0]?.expected).toMatch(expected)
  })

  test('stops the startup if both forms are set', () => {
    expect(problemsOf({ [name]: value, [`${name}_FILE`]: file(value) })).toEqual([
      expect.objectContaining({
        name: `${name}_FILE`,
        expected: `not set, because ${name} is set: keep one of the two`,
      }),
    ])
  })
})

function problemsOf(given: Record<string, string>) {
  try {
    loadConfig(given)
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error
    expect(error.message).not.toMatch(/hunter2|a-token/)
    return error.problems
  }
  return []
}

test('bad files are listed with all other problems', () => {
  const given = {
    PORT: 'x',
    ADMIN_TOKEN_FILE: '/nowhere',
    SWAP_AUTHORIZATION_FILE: file(''),
    SWAP_CA_FILE: '/nowhere',
  }
  expect(new Set(problemsOf(given).map(({ name }) => name))).toEqual(new Set(Object.keys(given)))
})

test('a library program reads them as the program does', async () => {
  await using gateway = await createGateway({ PORT: 0, ADMIN_PORT: 0, ADMIN_TOKEN_FILE: file(`${token}\n`) })
  expect((await gateway.listen()).trafficUrl).toContain('http://')
  await expect(createGateway({ ADMIN_TOKEN_FILE: '/nowhere' })).rejects.toThrow(
    'ADMIN_TOKEN_FILE=/nowhere - expected',
  )
})

test('every token is the same from a file as from the environment', () => {
  const path = file('')
  const visible = fc.string({
    unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)),
    minLength: 16,
    maxLength: 512,
  })
  fc.assert(
    fc.property(visible, fc.constantFrom('', '\n', '\r\n'), (value, end) => {
      writeFileSync(path, value + end)
      const fromFile = loadConfig({ ADMIN_TOKEN_FILE: path }).config.admin.token
      expect(fromFile).toBe(loadConfig({ ADMIN_TOKEN: value }).config.admin.token)
    }),
  )
})
