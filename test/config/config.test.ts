import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type LoadOptions, loadConfig } from '../../src/config/load.ts'
import { SettingsError, type SettingValue } from '../../src/config/problems.ts'
import { settingNames } from '../../src/config/settings.ts'

type Given = Record<string, SettingValue | undefined>

const swap = 'https://swap.example'

function errorOf(given: Given, options: LoadOptions = {}): SettingsError {
  try {
    loadConfig(given, options)
  } catch (error) {
    if (error instanceof SettingsError) return error
    throw error
  }
  throw new Error('these settings were accepted')
}

function namesOf(given: Given): string[] {
  return errorOf(given).problems.map(({ name }) => name)
}

describe('defaults', () => {
  test('without any settings the gateway is on loopback and talks to the sandbox', () => {
    expect(loadConfig({}).config).toMatchObject({
      production: false,
      traffic: { host: '127.0.0.1', port: 8080 },
      admin: { host: '127.0.0.1', port: 8081 },
      swap: { appName: undefined, appVersion: undefined, authorization: undefined },
      upstreams: {
        swap: { baseUrl: 'sandbox', paths: ['/v3'] },
        payments: {
          baseUrl: 'sandbox',
          paths: [
            '/checkouts',
            '/subscriptions',
            '/subscription-checkouts',
            '/refunds',
            '/payments',
            '/merchants',
            '/settings',
          ],
        },
        webhooks: { baseUrl: undefined, paths: ['/webhooks'] },
      },
      client: { trustProxy: [], ipHeader: 'forwarded' },
      upstream: { connectTimeoutMs: 3000, headersTimeoutMs: 10000, bodyTimeoutMs: 30000, connections: 128 },
      requests: { headTimeoutMs: 10000, bodyIdleTimeoutMs: 30000 },
      log: { level: 'info', format: 'auto', access: 'off', clientAddress: 'masked' },
    })
  })

  test('a config cannot be changed at any depth', () => {
    const { config } = loadConfig({ TRUST_PROXY: 'loopback' })
    expect([config, config.swap, config.client.trustProxy].every(Object.isFrozen)).toBe(true)
  })

  test('the address of the shared store is parsed once', () => {
    expect(loadConfig({}).config.store).toBeUndefined()
    expect(loadConfig({ VALKEY_URL: 'valkeys://store.example/2' }).config.store).toMatchObject({
      url: 'valkeys://store.example/2',
      address: { kind: 'single', nodes: [{ host: 'store.example', port: 6379 }], tls: true, database: 2 },
    })
  })

  test('an empty or blank value counts as unset', () => {
    expect(loadConfig({ PORT: '', ADMIN_PORT: '  ', SWAP_AUTHORIZATION: '\n' })).toEqual(loadConfig({}))
  })

  test('the operations listener has the host of the traffic listener, unless ADMIN_HOST is set', () => {
    expect(loadConfig({ HOST: '10.0.0.1' }).config.admin.host).toBe('10.0.0.1')
    expect(loadConfig({ HOST: '10.0.0.1', ADMIN_HOST: '::1' }).config.admin.host).toBe('::1')
  })

  test('payments go to the sandbox only if swap requests do', () => {
    expect(loadConfig({ SWAP_BASE_URL: 'sandbox' }).config.upstreams.payments.baseUrl).toBe('sandbox')
    expect(loadConfig({ SWAP_BASE_URL: swap }).config.upstreams.payments.baseUrl).toBeUndefined()
    expect(
      loadConfig({ SWAP_BASE_URL: swap, PAYMENTS_BASE_URL: 'sandbox' }).config.upstreams.payments.baseUrl,
    ).toBe('sandbox')
  })

  test('numbers and booleans may be given as such', () => {
    const { config } = loadConfig({
      PORT: 0,
      ADMIN_PORT: 0,
      ACCESS_LOG: true,
      UPSTREAM_CONNECTIONS: 7,
    })
    expect([config.traffic.port, config.log.access, config.upstream.connections]).toEqual([0, 'on', 7])
  })
})

describe('settings and values of earlier versions', () => {
  test.each([
    [{ UPSTREAM_QUEUE: '9' }, 'UPSTREAM_QUEUE is not a setting any more: eight times UPSTREAM_CONNECTIONS'],
    [{ 'upstream-retries': '3' }, 'upstream-retries is not a setting any more: what the upstream'],
    [{ ORDER_LOG: 'on' }, 'ORDER_LOG is not a setting any more: ACCESS_LOG=orders logs'],
    [
      { WEBHOOKS_CA_FILE: '/nowhere' },
      'WEBHOOKS_CA_FILE is not a setting any more: webhooks use PAYMENTS_CA_FILE',
    ],
    [{ BREAKER_OPEN_MS: 'maybe' }, 'BREAKER_OPEN_MS is not a setting any more: an open breaker lets one'],
    [{ QUOTE_PARTITION: 'Prefix' }, 'QUOTE_PARTITION=prefix was removed and counts as ip: '],
  ])('cause one warning that names the replacement: %j', (given, text) => {
    for (const nearMisses of ['warn', 'error'] as const) {
      const { config, warnings } = loadConfig(given, { nearMisses })
      expect(warnings).toEqual([expect.stringContaining(text)])
      expect(config).toEqual(loadConfig({}).config)
    }
  })

  test('are listed with the other problems by --check-config', () => {
    const given = { UPSTREAM_RETRIES: '0', QUOTE_PARTITION: 'prefix', PORT: 'x' }
    expect(errorOf(given, { unknownNames: 'error' }).problems.map(({ name }) => name)).toEqual([
      'PORT',
      'UPSTREAM_RETRIES',
      'QUOTE_PARTITION',
    ])
    // Where they are warnings, other problems do not make them problems.
    expect(namesOf(given)).toEqual(['PORT'])
  })
})

describe('limits', () => {
  test('are what they are, and the queue is eight times the connections', () => {
    const { config } = loadConfig({ UPSTREAM_CONNECTIONS: '3' })
    expect(config.upstream).toMatchObject({ queue: 24, retries: 1, breakerFailures: 5, breakerOpenMs: 5_000 })
    expect(config.quotes).toMatchObject({ cacheBytes: 67_108_864, maxBytes: 16_384 })
    expect(loadConfig({ VALKEY_URL: 'redis://store' }).config.store?.lockWaitMs).toBe(3_000)
  })

  test('may be overridden by tests, by argument or as JSON in the environment, which is warned of', () => {
    const { config, warnings } = loadConfig(
      { QUOTEGATE_TEST_LIMITS: '{"retries":0,"queue":7}' },
      { limits: { headTimeoutMs: 70, queue: 6 } },
    )
    expect(config.upstream).toMatchObject({ retries: 0, queue: 7 })
    expect(config.requests).toMatchObject({ headTimeoutMs: 70, bodyIdleTimeoutMs: 30_000 })
    expect(warnings).toEqual([
      expect.stringContaining('QUOTEGATE_TEST_LIMITS is set, which is for the tests'),
    ])
    expect(loadConfig({}, { limits: { queue: 6 } }).warnings).toEqual([])
  })

  test('that are wrong are named as what was given: the override, or the variable', () => {
    for (const limits of [{ retires: 0 }, { queue: 1.5 }, { retries: -1 }] as object[])
      expect(() => loadConfig({}, { limits })).toThrow(
        new RegExp(`^createGateway: limits: [^]*${Object.keys(limits)[0]}`),
      )
    expect(() => loadConfig({ QUOTEGATE_TEST_LIMITS: 'x' })).toThrow('QUOTEGATE_TEST_LIMITS=')
  })

  test.each(['x', '[]', 'null', '7', '{"retires":0}', '{"retries":"0"}', '{"retries":-1}', '{"queue":1.5}'])(
    'are refused as %s',
    (text) => expect(namesOf({ QUOTEGATE_TEST_LIMITS: text })).toEqual(['QUOTEGATE_TEST_LIMITS']),
  )
})

describe('problems', () => {
  test('lists every problem at once with name, value and remedy', () => {
    const error = errorOf({
      PORT: '70000',
      ACCESS_LOG: 'maybe',
      LOG_LEVEL: 'loud',
      SWAP_BASE_URL: 'ftp://x',
    })
    expect(error.problems).toHaveLength(4)
    for (const { name, value, expected } of error.problems) {
      expect(error.message.split('\n')).toContain(`  ${name}=${value} - expected: ${expected}`)
    }
    expect(error.message).toContain('PORT=70000 - expected: a whole number from 0 to 65535')
    expect(error.message).toContain('one of trace, debug, info, warn, error, fatal, silent')
  })

  test('one problem is not reported again for the default that stands in for it', () => {
    expect(namesOf({ PORT: 'abc', SWAP_BASE_URL: 'http://localhost:8080' })).toEqual(['PORT'])
    expect(errorOf({ NODE_ENV: 'production', SWAP_BASE_URL: 'nonsense' }).problems).toEqual([
      expect.objectContaining({ expected: expect.stringMatching(/^an http or https URL such as/) }),
    ])
  })

  test('a required setting that is missing is named as not set', () => {
    const error = errorOf({ NODE_ENV: 'production' })
    expect(error.problems).toMatchObject([{ name: 'SWAP_BASE_URL', value: undefined }])
    expect(error.message).toContain('SWAP_BASE_URL is not set - expected: ')
  })

  test('a value with line breaks stays on one line of the message', () => {
    expect(errorOf({ LOG_LEVEL: 'a\nPORT=1 is fine\u001b[2J' }).message.split('\n')).toHaveLength(2)
  })

  test('a value that is not a string, number, boolean or list of them is reported, not converted', () => {
    const given = { PORT: { toString: () => '80' }, LOG_LEVEL: [['info']] } as unknown as Given
    expect(namesOf(given)).toEqual(['PORT', 'LOG_LEVEL'])
  })

  test('keys that name prototypes change nothing', () => {
    const given = JSON.parse('{"__proto__": {"PORT": 1}, "constructor": "x", "toString": "y"}') as Given
    expect(loadConfig(given)).toEqual(loadConfig({}))
    expect(loadConfig(Object.create({ PORT: 1 }) as Given)).toEqual(loadConfig({}))
  })

  test('for any strings the result is a config or a SettingsError', () => {
    const name = fc.oneof(fc.constantFrom(...settingNames), fc.string())
    const piece = fc.constantFrom(
      'http://',
      'sandbox',
      ',',
      '/',
      '::',
      '127.0.0.1',
      '%',
      '@',
      '8080',
      'on',
      ' ',
    )
    const text = fc.oneof(fc.string(), fc.string({ unit: 'binary' }), fc.webUrl(), fc.string({ unit: piece }))
    fc.assert(
      fc.property(fc.dictionary(name, text), fc.constantFrom('warn', 'error'), (given, nearMisses) => {
        try {
          return Object.isFrozen(loadConfig(given, { nearMisses }).config)
        } catch (error) {
          return error instanceof SettingsError && error.problems.length > 0
        }
      }),
      { numRuns: 500 },
    )
  })
})
