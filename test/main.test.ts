import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, onTestFinished, test } from 'vitest'
import { settingNames } from '../src/config/settings.ts'
import { killPrograms, startProgram } from './support/gateways/program.ts'

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))

afterEach(killPrograms)

/** What V8 leaves depends on the machine. */
const isNotMemory = (line: string) => !line.endsWith(' V8')

const run = (flags: readonly string[], settings?: Record<string, string>) =>
  startProgram(flags, settings).exit

describe('--help', () => {
  test.each(['--help', '-h'])('%s shows usage, the flags and what a team sets, and exits 0', async (flag) => {
    const { code, stdout, stderr } = await run([flag])
    expect([code, stderr]).toEqual([0, ''])
    for (const word of [
      '--help',
      '--version',
      '--check-config',
      '--print-config',
      '--check-health',
      '--sandbox',
    ]) {
      expect(stdout).toContain(word)
    }
    const shown = settingNames.filter((name) => new RegExp(`^  ${name}\\s`, 'm').test(stdout))
    expect(shown).toHaveLength(20)
    expect(shown).toContain('SWAP_BASE_URL')
  })

  test('all shows every setting', async () => {
    const { code, stdout } = await run(['--help', 'all'])
    expect(code).toBe(0)
    for (const name of settingNames) expect(stdout).toMatch(new RegExp(`^  ${name}\\s`, 'm'))
  })

  test.each([['--help', 'some'], ['--check-config', 'all'], ['all']])(
    '%s %s is refused',
    async (...flags) => {
      const { code, stderr } = await run(flags)
      expect(code).toBe(1)
      expect(stderr).toContain(`Unexpected argument '${flags.at(-1)}'`)
    },
  )

  test('works with wrong settings', async () => {
    expect((await run(['--help'], { PORT: 'nonsense' })).code).toBe(0)
  })
})

test.each(['--version', '-v'])('%s prints the version and exits 0', async (flag) => {
  expect(await run([flag])).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' })
})

describe('--check-config', () => {
  test('says that valid settings are valid and exits 0', async () => {
    const { code, stdout } = await run(['--check-config'], { PORT: '0', TRUST_PROXY: 'loopback' })
    expect([code, stdout]).toEqual([0, 'The settings are good.\n'])
  })

  test('says in production what is done, what is open and what no setting shows', async () => {
    const production = { NODE_ENV: 'production', SWAP_BASE_URL: 'https://swap.example' }
    const marks = async (settings: Record<string, string>) => {
      const { code, stdout } = await run(['--check-config'], { ...production, ...settings })
      expect(code).toBe(0)
      return [...stdout.matchAll(/^ {2}(done|open|check) +(\S+)/gm)].map(
        ([, mark, about]) => `${mark} ${about}`,
      )
    }
    const unseen = ['check Prometheus', 'check Prometheus']
    expect((await marks({ ORDER_EXPIRED_QUOTE: 'report', DRAIN_DELAY_MS: '0' })).filter(isNotMemory)).toEqual(
      [
        ...['open TRUST_PROXY', 'open ADMIN_TOKEN', 'open STATE_DIRECTORY', 'open Your'],
        ...[...unseen, 'open ORDER_EXPIRED_QUOTE'],
      ],
    )
    const all = {
      ...{ TRUST_PROXY: 'loopback', CLIENT_IP_HEADER: 'forwarded', ADMIN_TOKEN: 'a-token-of-16-characters' },
      VALKEY_URL: 'redis://store',
    }
    expect((await marks(all)).filter(isNotMemory)).toEqual([
      ...['done TRUST_PROXY', 'done ADMIN_TOKEN', 'done STATE_DIRECTORY', 'check Your'],
      ...[...unseen, 'done ORDER_EXPIRED_QUOTE'],
    ])
    expect(await marks({ ...all, CLIENT_IP_HEADER: '' })).toContain('open TRUST_PROXY')
  })

  test('prints the warnings about valid settings', async () => {
    const settings = { HOST: '0.0.0.0', SWAP_AUTHORIZATION: 'Bearer sk_live_1' }
    const { code, stderr } = await run(['--check-config'], settings)
    expect(code).toBe(0)
    expect(stderr).toMatch(/^warning: HOST=0\.0\.0\.0 /)
    expect(stderr).not.toContain('sk_live')
  })

  test('lists every problem at once and exits 1', async () => {
    const settings = { PORT: '70000', ACCESS_LOG: 'maybe', SWAP_BASE_URL: 'ftp://user:sk_live_1@x' }
    const { code, stdout, stderr } = await run(['--check-config'], settings)
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toContain('There are 3 problems')
    for (const name of Object.keys(settings))
      expect(stderr).toMatch(new RegExp(`^  ${name}=.* expected: `, 'm'))
    expect(stderr).not.toMatch(/sk_live|^\s+at /m)
  })

  test('treats a removed setting, a near-miss and a name that begins as settings do as errors, and a start warns of the last', async () => {
    const settings = { STATE_DIR: '/var/lib/quotegate', SWAP_SERVICE_HOST: '10.0.0.1' }
    const gone = { BREAKER_OPEN_MS: '9', QUOTE_PARTITION: 'prefix', SWAP_BASEURL: 'https://swap.example' }
    const { code, stderr } = await run(['--check-config'], { ...settings, ...gone })
    expect(code).toBe(1)
    expect(stderr).toContain('BREAKER_OPEN_MS is not a setting any more: an open breaker')
    expect(stderr).toContain('QUOTE_PARTITION=prefix was removed and counts as ip: ')
    expect(stderr).toContain('SWAP_BASEURL is not a setting. Did you mean SWAP_BASE_URL?')
    expect(stderr).toContain('STATE_DIR is not a setting. Did you mean STATE_DIRECTORY?')
    const started = startProgram([], { ...settings, PORT: '0', ADMIN_PORT: '0' })
    await started.says(/quotegate is listening/)
    expect(started.stdout()).toContain('STATE_DIR is not a setting. Did you mean STATE_DIRECTORY?')
  })

  test('tries STATE_DIRECTORY, also while a gateway uses it, and leaves nothing behind', async () => {
    const parent = mkdtempSync(join(tmpdir(), 'check-config-'))
    onTestFinished(() => rmSync(parent, { recursive: true, force: true }))
    const settings = { STATE_DIRECTORY: join(parent, 'state') }
    expect((await run(['--check-config'], settings)).code).toBe(0)
    expect(readdirSync(parent)).toEqual([])
    const gateway = startProgram([], { ...settings, PORT: '0', ADMIN_PORT: '0' })
    await gateway.says(/quotegate is listening/)
    const before = readdirSync(settings.STATE_DIRECTORY)
    const { code, stderr } = await run(['--check-config'], settings)
    expect([code, stderr]).toEqual([0, ''])
    expect(readdirSync(settings.STATE_DIRECTORY)).toEqual(before)
    writeFileSync(join(parent, 'file'), '')
    const wrong = await run(['--check-config'], { STATE_DIRECTORY: join(parent, 'file'), PORT: '-1' })
    expect(wrong.code).toBe(1)
    expect(wrong.stderr).toContain('There are 2 problems')
    expect(wrong.stderr).toMatch(
      /^ {2}STATE_DIRECTORY=.*file - expected: a folder that quotegate can create/m,
    )
  })
})

test('--print-config shows every value with its source, secrets masked', async () => {
  const settings = {
    SWAP_AUTHORIZATION: 'Bearer sk_live_1',
    SWAP_BASE_URL: 'https://swap.example/sk/',
  }
  const { code, stdout } = await run(['--print-config'], settings)
  expect(code).toBe(0)
  for (const name of settingNames) expect(stdout).toMatch(new RegExp(`^${name}=.*\\(.+\\)$`, 'm'))
  expect(stdout).toContain('SWAP_AUTHORIZATION=****  (environment)')
  expect(stdout).toContain('PORT=8080  (default)')
  expect(stdout).not.toContain('sk_live')
})

test('--check-config --print-config do both, and each shows the warnings', async () => {
  const settings = { HTTPS_PROXY: 'http://proxy.example', SWAP_BASE_URL: 'https://swap.example' }
  const both = await run(['--check-config', '--print-config'], settings)
  expect(both.code).toBe(0)
  expect(both.stdout).toMatch(/^HOST=127\.0\.0\.1 .*\nThe settings are good\.\n$/s)
  const printed = await run(['--print-config'], settings)
  expect(printed.stdout).not.toContain('good')
  for (const { stderr } of [both, printed]) expect(stderr).toMatch(/^warning: HTTPS_PROXY is set, .*\n$/)
})

describe('what cannot start', () => {
  test.each([
    ['--sandboxx', '--sandbox'],
    ['sandbox', '--sandbox'],
    ['--sandbox=yes', '--sandbox'],
    ['--check_config', '--check-config'],
    ['--Version', '--version'],
    ['--port', undefined],
  ])(
    'is answered with the list of flags and the most similar one, without a stack: %s',
    async (flag, meant) => {
      const { code, stderr } = await run([flag])
      expect(code).toBe(1)
      expect(/^Did you mean (\S+)\?$/m.exec(stderr)?.[1]).toBe(meant)
      expect(stderr).toContain('--help, --version, --check-config, --print-config, --check-health, --sandbox')
      expect(stderr).not.toMatch(/^\s+at /m)
    },
  )

  test('is production without a swap upstream', async () => {
    const { code, stderr } = await run([], { NODE_ENV: 'production', PORT: '0', ADMIN_PORT: '0' })
    expect(code).toBe(1)
    expect(stderr).toContain('SWAP_BASE_URL is not set - expected: ')
  })

  test.each([[[]], [['--sandbox']]])('is production with the sandbox, flags %j', async (flags) => {
    const settings = { NODE_ENV: 'production', SWAP_BASE_URL: 'sandbox', PORT: '0', ADMIN_PORT: '0' }
    expect((await run(flags, settings)).code).toBe(1)
  })

  test.each([
    ['PORT', []],
    ['ADMIN_PORT', []],
    ['PORT', ['--sandbox']],
  ])('is a taken %s, reported in one clear line (flags: %j)', async (name, flags) => {
    const other = createServer()
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
    const { port } = other.address() as AddressInfo
    const { code, stdout, stderr } = await run(flags, { PORT: '0', ADMIN_PORT: '0', [name]: String(port) })
    other.close()
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toBe(
      `127.0.0.1:${port} is already in use: is quotegate running already? If not, choose another ${name}\n`,
    )
  })

  test.each([
    ['HOST or ADMIN_HOST', '192.0.2.1', []],
    ['HOST', '192.0.2.1', ['--sandbox']],
    ['HOST or ADMIN_HOST', '[fe80::1]', []],
  ])(
    'is an address of another machine, reported in one line that names %s: %s',
    async (names, host, flags) => {
      const { code, stderr } = await run(flags, { HOST: host, PORT: '0', ADMIN_PORT: '0' })
      expect(code).toBe(1)
      expect(stderr).toBe(`${host}:0 is not an address of this machine: choose another ${names}\n`)
    },
  )
})
