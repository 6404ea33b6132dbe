import { pino } from 'pino'
import { describe, expect, test } from 'vitest'
import {
  createGateway,
  type GatewayOverrides,
  type GatewaySettings,
} from '../../src/index.ts'

// Callers in JavaScript have no compiler that would refuse these.
async function refused(settings: unknown, overrides?: unknown): Promise<string> {
  const created = createGateway(
    settings as GatewaySettings,
    overrides as GatewayOverrides,
  )
  return created.then(
    async (gateway) => {
      await gateway.close()
      throw new Error('it was created')
    },
    (error: Error) => `${error.name}: ${error.message}`,
  )
}

/** What a logger of the caller's own is warned of, where the sandbox is meant unless another API is. */
async function warnedOf(
  given: object,
  overrides: GatewayOverrides = {},
): Promise<string[]> {
  const warned: string[] = []
  const logger = {
    ...console,
    warn: (_members: object, text: string) => void warned.push(text),
  }
  await (
    await createGateway({ SWAP_BASE_URL: 'sandbox', ...given }, { ...overrides, logger })
  ).close()
  return warned
}

describe('createGateway() says what is expected, and what it was called with:', () => {
  test.each<[unknown, string]>([
    ['http://127.0.0.1:9', 'a string'],
    [null, 'null'],
    [['SWAP_BASE_URL'], 'an array'],
    [() => ({}), 'a function'],
    // These have no members of their own: the sandbox would stand in for the upstream that was meant.
    [new Map([['PORT', '0']]), 'a Map'],
    [new URL('http://127.0.0.1:9'), 'a URL'],
    [Promise.resolve({ PORT: 0 }), 'a Promise'],
    [new Error('no settings'), 'an Error'],
  ])('settings %j', async (settings, kind) => {
    const said = await refused(settings)
    expect(said).toMatch(
      /^TypeError: createGateway: settings must be an object .* SWAP_BASE_URL: /,
    )
    expect(said).toMatch(new RegExp(`, not ${kind}$`))
  })

  const line = () => {}
  const aLogger = 'logger must be an object with debug(), info(), warn(), error()'
  const limiter = { perMinute: 1, take: line }
  test.each<[unknown, string]>([
    [null, 'overrides must be an object, such as { logger: console }, not null'],
    ['console', 'overrides must be an object'],
    [[], 'overrides must be an object'],
    [Promise.resolve({}), 'overrides must be an object'],
    [
      { log: console },
      'unknown override log: the overrides are clock, logger, rateLimiter. Settings are ',
    ],
    [{ constructor: console }, 'unknown override constructor: '],
    [{ logger: true }, `${aLogger}, not a boolean`],
    [{ logger: null }, `${aLogger}, not null`],
    [
      { logger: { info: line, warn: line, error: line } },
      `${aLogger}; its debug is undefined`,
    ],
    [
      { logger: { ...console, isLevelEnabled: true } },
      'isLevelEnabled must be a function or absent',
    ],
    [{ clock: Date.now }, 'clock must be an object with nowMs(); its nowMs is undefined'],
    [
      { clock: { nowMs: Date.now, steadyMs: 0 } },
      'steadyMs must be a function or absent',
    ],
    [{ rateLimiter: { ...limiter, take: undefined } }, 'its take is undefined'],
    [
      { rateLimiter: { ...limiter, perMinute: '60' } },
      'perMinute must be a number above 0, not 60',
    ],
    [
      { rateLimiter: { ...limiter, perMinute: Object.create(null) } },
      'a number above 0, not an object',
    ],
  ])('overrides %j: %s', async (overrides, expected) => {
    const said = await refused({}, overrides)
    expect(said).toMatch(/^TypeError: createGateway: /)
    expect(said).toContain(expected)
  })
})

test('createGateway() takes overrides that have the methods: console, pino, a class with them, undefined', async () => {
  class Limiter {
    readonly perMinute = 60
    take = async () => ({ allowed: true, remaining: 1, resetMs: 0 })
  }
  const every: GatewayOverrides[] = [
    { logger: console },
    { logger: pino({ level: 'silent' }) },
    { rateLimiter: new Limiter(), clock: { nowMs: () => Date.now() } },
    { logger: undefined, clock: undefined } as object,
  ]
  for (const overrides of every)
    await (await createGateway({ LOG_LEVEL: 'silent' }, overrides)).close()
})

test('createGateway() takes settings of any object that holds them', async () => {
  class Settings {
    readonly LOG_LEVEL = 'silent'
  }
  const bare = Object.assign(Object.create(null), { LOG_LEVEL: 'silent' })
  // As `import * as settings` gives it.
  const imported = { LOG_LEVEL: 'silent', [Symbol.toStringTag]: 'Module' }
  const every = [new Settings(), bare, imported, new Proxy(bare, {})]
  for (const settings of every)
    await (await createGateway(settings as GatewaySettings)).close()
})

test('createGateway() says that a name is nearly a setting, and warns of one that begins as settings do', async () => {
  expect(await refused({ SWAP_URL: new URL('https://swap.example') })).toContain(
    'Did you mean SWAP_BASE_URL?',
  )
  expect(await refused({ swapBaseUrl: 'x' })).toContain('swapBaseUrl is not a setting')
  expect(await warnedOf({ STATE_DIR: new URL('file:///var/lib/quotegate') })).toEqual([
    'STATE_DIR is not a setting. Did you mean STATE_DIRECTORY?',
  ])
})

test('createGateway() does not complain of a HOST or PORT that it may never use: its app may be mounted', async () => {
  expect(
    await warnedOf({ TRUST_PROXY: '10.0.0.0/8', CLIENT_IP_HEADER: 'x-forwarded-for' }),
  ).toEqual([])
  const ownPort = { SWAP_BASE_URL: 'http://127.0.0.1:8080' }
  expect(await warnedOf(ownPort)).toEqual([])
  expect(await refused({ ...ownPort, PORT: 8080 })).toContain(
    "this is quotegate's own listener (PORT)",
  )
})

// An app in production that forgot it once sold at invented prices.
test('createGateway() warns of the sandbox, unless SWAP_BASE_URL says that it is meant', async () => {
  const isNotSet =
    'SWAP_BASE_URL is not set, or empty, so /v3 goes to the built-in sandbox, whose prices are invented. '
  expect(await warnedOf({ SWAP_BASE_URL: undefined })).toEqual([
    expect.stringContaining(isNotSet),
  ])
  expect(await warnedOf({})).toEqual([])
})

test('createGateway() warns of a rateLimiter beside RATE_LIMIT_PER_MINUTE=0, which has no effect', async () => {
  const rateLimiter = { perMinute: 60, take: () => Promise.reject() }
  const text =
    'The override rateLimiter has no effect, because RATE_LIMIT_PER_MINUTE is 0'
  expect(await warnedOf({ RATE_LIMIT_PER_MINUTE: 0 }, { rateLimiter })).toEqual([
    expect.stringContaining(text),
  ])
  expect(await warnedOf({ RATE_LIMIT_PER_MINUTE: 60 }, { rateLimiter })).toEqual([])
})
