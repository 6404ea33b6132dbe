import { readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { settingNames } from '../src/config/settings.ts'
import { startProgram } from './support/gateways/program.ts'
import { listening } from './support/machine/listening.ts'
import { newFolder } from './support/machine/new-folder.ts'

const { version } = JSON.parse(
  readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
)

const freePorts = { PORT: '0', ADMIN_PORT: '0' }
const run = (flags: readonly string[], settings?: Record<string, string>) =>
  startProgram(flags, settings).exit
const shownIn = (help: string) =>
  settingNames.filter((name) => new RegExp(`^  ${name}\\s`, 'm').test(help))

describe('--help', () => {
  test.each(['--help', '-h'])(
    '%s shows usage, the flags and every setting in a line of its own, whatever is set',
    async (flag) => {
      const { code, stdout, stderr } = await run([flag], { PORT: 'nonsense' })
      expect([code, stderr]).toEqual([0, ''])
      for (const word of [
        'help',
        'version',
        'check-config',
        'print-config',
        'check-health',
        'sandbox',
      ])
        expect(stdout).toContain(`--${word}`)
      expect(shownIn(stdout)).toEqual(settingNames)
      const lines = stdout.trimEnd().split('\n')
      expect(lines.length).toBeLessThanOrEqual(85)
      expect(lines.filter((line) => line.length > 110)).toEqual([])
    },
  )
})

test.each(['--version', '-v'])('%s prints the version and exits 0', async (flag) => {
  expect(await run([flag])).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' })
})

describe('--check-config', () => {
  test('says in production what is done, what is open and what no setting shows, and counts them', async () => {
    const marks = async (settings: Record<string, string>) => {
      const production = {
        NODE_ENV: 'production',
        SWAP_BASE_URL: 'https://swap.example',
        ...settings,
      }
      const { code, stdout } = await run(['--check-config'], production)
      expect(code).toBe(0)
      const all = [
        ...stdout.matchAll(/^ {2}(done|open|check) .*?([A-Z]+_[A-Z_]+|Prometheus|V8)/gm),
      ].map(([, mark, of]) => `${mark} ${of}`)
      const [, open, check] =
        /(\d+) open, (\d+) to check yourself\.\n$/.exec(stdout) ?? []
      const marked = (mark: string) => all.filter((line) => line.startsWith(mark)).length
      expect([open, check].map(Number)).toEqual([marked('open'), marked('check')])
      // What V8 leaves depends on the machine.
      return all.filter((line) => !line.endsWith(' V8'))
    }
    const unseen = ['check Prometheus', 'check Prometheus']
    expect(await marks({ ORDER_EXPIRED_QUOTE: 'report', DRAIN_DELAY_MS: '0' })).toEqual([
      'open TRUST_PROXY',
      'open ADMIN_TOKEN',
      'open VALKEY_URL',
      'open DRAIN_DELAY_MS',
      ...unseen,
      'open ORDER_EXPIRED_QUOTE',
    ])
    const all = {
      TRUST_PROXY: 'loopback',
      CLIENT_IP_HEADER: 'forwarded',
      ADMIN_TOKEN: 'a-token-of-16-characters',
      VALKEY_URL: 'redis://store',
    }
    expect(await marks(all)).toEqual([
      'check TRUST_PROXY',
      'done ADMIN_TOKEN',
      'done VALKEY_URL',
      'check DRAIN_DELAY_MS',
      ...unseen,
      'done ORDER_EXPIRED_QUOTE',
    ])
    expect(await marks({ ...all, CLIENT_IP_HEADER: '' })).toContain('open TRUST_PROXY')
    // A folder is enough for one replica, and no setting shows how many there are.
    const alone = { ...all, VALKEY_URL: '', STATE_DIRECTORY: newFolder() }
    expect(await marks(alone)).toContain('check VALKEY_URL')
  })

  test('lists every problem at once and exits 1', async () => {
    const settings = {
      PORT: '70000',
      ACCESS_LOG: 'maybe',
      SWAP_BASE_URL: 'ftp://user:sk_live_1@x',
    }
    const { code, stdout, stderr } = await run(['--check-config'], settings)
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toContain('There are 3 problems')
    for (const name of Object.keys(settings))
      expect(stderr).toMatch(new RegExp(`^  ${name}=.* expected: `, 'm'))
    expect(stderr).not.toMatch(/sk_live|^\s+at /m)
  })

  test('takes a removed setting and a name that is nearly one for errors, and a start warns of them', async () => {
    const settings = {
      STATE_DIR: '/var/lib/quotegate',
      BREAKER_OPEN_MS: '9',
      SWAP_APPNAME: 'tests',
    }
    const { code, stderr } = await run(['--check-config'], settings)
    const started = startProgram([], { ...settings, ...freePorts })
    await started.says(/quotegate is listening/)
    expect(code).toBe(1)
    for (const output of [stderr, started.stdout()]) {
      expect(output).toContain(
        'BREAKER_OPEN_MS is not a setting any more: an open breaker',
      )
      expect(output).toContain(
        'SWAP_APPNAME is not a setting. Did you mean SWAP_APP_NAME?',
      )
      expect(output).toContain(
        'STATE_DIR is not a setting. Did you mean STATE_DIRECTORY?',
      )
    }
  })

  test('tries STATE_DIRECTORY, also while a gateway uses it', async () => {
    const settings = { STATE_DIRECTORY: join(newFolder(), 'state') }
    const gateway = startProgram([], { ...settings, ...freePorts })
    await gateway.says(/quotegate is listening/)
    const before = readdirSync(settings.STATE_DIRECTORY)
    expect(await run(['--check-config'], settings)).toMatchObject({ code: 0, stderr: '' })
    expect(readdirSync(settings.STATE_DIRECTORY)).toEqual(before)
    const wrong = await run(['--check-config'], { STATE_DIRECTORY: '/dev/null' })
    expect(wrong.code).toBe(1)
    expect(wrong.stderr).toMatch(/^ {2}STATE_DIRECTORY=.*null - expected: a folder that/m)
  })
})

test('--print-config shows every value with its source, secrets masked, and --check-config beside it what is wrong', async () => {
  const swap = { SWAP_AUTHORIZATION: 'Bearer sk_live_1', SWAP_BASE_URL: 'https://a' }
  const settings = { ...swap, HTTPS_PROXY: 'http://b' }
  const printed = await run(['--print-config'], settings)
  for (const name of settingNames)
    expect(printed.stdout).toMatch(new RegExp(`^${name}=.*\\(.+\\)$`, 'm'))
  expect(printed.stdout).toContain('SWAP_AUTHORIZATION=****  (environment)')
  expect(printed.stdout).not.toMatch(/sk_live|No setting is wrong/)
  const both = await run(['--check-config', '--print-config'], settings)
  expect(both.stdout).toBe(`${printed.stdout}No setting is wrong. 1 warning.\n`)
  for (const { code, stderr } of [printed, both]) {
    expect(code).toBe(0)
    expect(stderr).toMatch(/^warning: HTTPS_PROXY is set, .*\n$/)
  }
})

describe('what cannot start', () => {
  test.each([
    [['--sandboxx'], '--sandbox'],
    [['sandbox'], '--sandbox'],
    [['--sandbox=yes'], '--sandbox'],
    [['--check_config'], '--check-config'],
    [['--Version'], '--version'],
    [['--port'], undefined],
    [['--help', 'all'], undefined],
    [['--check-config', 'all'], undefined],
  ])(
    'is answered with the list of flags and the most similar one: %s',
    async (flags, meant) => {
      const { code, stderr } = await run(flags)
      expect(code).toBe(1)
      expect(/^Did you mean (\S+)\?$/m.exec(stderr)?.[1]).toBe(meant)
      expect(stderr).toContain(
        '--help, --version, --check-config, --print-config, --check-health, --sandbox',
      )
      expect(stderr).not.toMatch(/^\s+at /m)
    },
  )

  test.each([[[]], [['--sandbox']]])(
    'is production with the sandbox: %j',
    async (flags) => {
      const production = {
        NODE_ENV: 'production',
        SWAP_BASE_URL: 'sandbox',
        ...freePorts,
      }
      const { code, stderr } = await run(flags, production)
      expect(code).toBe(1)
      expect(stderr).toMatch(/^ {2}SWAP_BASE_URL=sandbox - expected: /m)
    },
  )

  test.each([
    ['PORT', []],
    ['ADMIN_PORT', []],
    ['PORT', ['--sandbox']],
  ])('is a taken %s, reported in one clear line (flags: %j)', async (name, flags) => {
    const { port } = await listening(createServer())
    const { code, stdout, stderr } = await run(flags, {
      ...freePorts,
      [name]: String(port),
    })
    expect([code, stdout]).toEqual([1, ''])
    const question = 'is quotegate running already? If not, choose another'
    expect(stderr).toBe(`127.0.0.1:${port} is already in use: ${question} ${name}\n`)
  })

  test.each([
    ['HOST or ADMIN_HOST', '192.0.2.1', []],
    ['HOST', '192.0.2.1', ['--sandbox']],
    ['HOST or ADMIN_HOST', '[fe80::1]', []],
  ])(
    'is an address of another machine, reported in one line that names %s: %s',
    async (names, HOST, flags) => {
      const { code, stderr } = await run(flags, { HOST, ...freePorts })
      expect(code).toBe(1)
      expect(stderr).toBe(
        `${HOST}:0 is not an address of this machine: choose another ${names}\n`,
      )
    },
  )
})
