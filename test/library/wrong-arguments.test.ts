import { pino } from 'pino'
import { describe, expect, test } from 'vitest'
import { createGateway, type GatewayOverrides, type GatewaySettings } from '../../src/index.ts'

// Callers in JavaScript have no compiler that would refuse these.
const refused = (settings: unknown, overrides?: unknown) =>
  createGateway(settings as GatewaySettings, overrides as GatewayOverrides).then(
    async (gateway) => {
      await gateway.close()
      throw new Error('it was created')
    },
    (error: Error) => `${error.name}: ${error.message}`,
  )

describe('createGateway() says that settings are an object, when it is called with', () => {
  test.each([
    ['http://127.0.0.1:9', 'a string'],
    [null, 'null'],
    [8080, 'a number'],
    [['SWAP_BASE_URL'], 'an array'],
    [new Map([['PORT', '0']]), 'a Map'],
    [() => ({}), 'a function'],
    // These have no members of their own: the sandbox would stand in for the upstream that was meant.
    [new URL('http://127.0.0.1:9'), 'a URL'],
    [Promise.resolve({ PORT: 0 }), 'a Promise'],
    [new Error('no settings'), 'an Error'],
    [new Date(), 'a Date'],
  ])('%j', async (settings, kind) => {
    const said = await refused(settings)
    expect(said).toMatch(/^TypeError: createGateway: settings must be an object with the names of /)
    expect(said).toContain("such as { SWAP_BASE_URL: 'https://swap.example.com' }")
    expect(said).toMatch(new RegExp(`, not ${kind}$`))
  })
})

describe('createGateway() says which overrides there are, when it is called with', () => {
  test.each([null, 'console', 1, [], Promise.resolve({})])('%j', async (overrides) => {
    expect(await refused({}, overrides)).toMatch(
      /^TypeError: createGateway: overrides must be an object, such as \{ logger: console \}, not /,
    )
  })

  test.each(['log', 'PORT', 'constructor'])('%s', async (name) => {
    expect(await refused({}, { [name]: console })).toBe(
      `TypeError: createGateway: unknown override ${name}: the overrides are clock, logger, rateLimiter. Settings are the first argument.`,
    )
  })
})

describe('createGateway() says what a broken override lacks:', () => {
  const line = () => {}
  const limiter = { perMinute: 1, take: line }
  const broken: [object, string][] = [
    [{ logger: true }, 'logger must be an object with debug(), info(), warn(), error(), not a boolean'],
    [{ logger: null }, 'logger must be an object with debug(), info(), warn(), error(), not null'],
    [
      { logger: { info: line, warn: line, error: line } },
      'logger must be an object with debug(), info(), warn(), error(); its debug is undefined',
    ],
    [
      { logger: { ...console, isLevelEnabled: true } },
      'logger.isLevelEnabled must be a function or absent; it is a boolean',
    ],
    [{ clock: Date.now }, 'clock must be an object with nowMs(); its nowMs is undefined'],
    [{ clock: { nowMs: 0 } }, 'clock must be an object with nowMs(); its nowMs is a number'],
    [
      { clock: { nowMs: Date.now, steadyMs: 0 } },
      'clock.steadyMs must be a function or absent; it is a number',
    ],
    [
      { rateLimiter: { ...limiter, take: undefined } },
      'rateLimiter must be an object with take(); its take is undefined',
    ],
    [
      { rateLimiter: { ...limiter, perMinute: '60' } },
      'rateLimiter.perMinute must be a number above 0, not 60',
    ],
    [
      { rateLimiter: { ...limiter, perMinute: Object.create(null) } },
      'rateLimiter.perMinute must be a number above 0, not an object',
    ],
  ]
  test.each(broken.map(([overrides, said]) => [said, overrides]))('%s', async (said, overrides) => {
    expect(await refused({}, overrides)).toBe(`TypeError: createGateway: ${said}`)
  })
})

test('createGateway() takes what has the methods: console, pino, a class with them, undefined', async () => {
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
  for (const overrides of every) {
    const gateway = await createGateway({ LOG_LEVEL: 'silent' }, overrides)
    await gateway.close()
  }
})

test('createGateway() takes settings of any object that holds them', async () => {
  class Settings {
    readonly LOG_LEVEL = 'silent'
  }
  const bare = Object.assign(Object.create(null), { LOG_LEVEL: 'silent' })
  // As `import * as settings` gives it.
  const imported = { LOG_LEVEL: 'silent', [Symbol.toStringTag]: 'Module' }
  const every = [new Settings(), bare, imported, new Proxy(bare, {})]
  for (const settings of every) await (await createGateway(settings as GatewaySettings)).close()
})

test('createGateway() says that a name is nearly a setting, and warns of one that begins as settings do', async () => {
  expect(await refused({ SWAP_URL: new URL('https://swap.example') })).toContain(
    'SWAP_URL is not a setting. Did you mean SWAP_BASE_URL?',
  )
  const warned: string[] = []
  const logger = { ...console, warn: (_members: object, text: string) => void warned.push(text) }
  const settings = { ORDER_MARGIN_MS: 500, STATE_DIR: new URL('file:///var/lib/quotegate') }
  await (await createGateway(settings as GatewaySettings, { logger })).close()
  expect(warned).toEqual([
    'ORDER_MARGIN_MS is not a setting. Did you mean ORDER_EXPIRY_MARGIN_MS?',
    'STATE_DIR is not a setting. Did you mean STATE_DIRECTORY?',
  ])
})

test('createGateway() does not warn of a HOST that it may never use: its app may be mounted in another', async () => {
  const warned: string[] = []
  const logger = { ...console, warn: (_members: object, text: string) => void warned.push(text) }
  const settings = { TRUST_PROXY: '10.0.0.0/8', CLIENT_IP_HEADER: 'x-forwarded-for' }
  await (await createGateway(settings, { logger })).close()
  expect(warned).toEqual([])
})

test.each([
  [0, [expect.stringMatching(/^The override rateLimiter has no effect, because RATE_LIMIT_PER_MINUTE is 0/)]],
  [60, []],
])('createGateway() warns of a rateLimiter beside RATE_LIMIT_PER_MINUTE=%i: %j', async (perMinute, said) => {
  const warned: string[] = []
  const logger = { ...console, warn: (_members: object, text: string) => void warned.push(text) }
  const rateLimiter = { perMinute: 60, take: () => Promise.reject() }
  const gateway = await createGateway({ RATE_LIMIT_PER_MINUTE: perMinute }, { logger, rateLimiter })
  await gateway.close()
  expect(warned).toEqual(said)
})
