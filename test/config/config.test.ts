import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import { SettingsError } from '../../src/config/problems.ts'
import { settingNames } from '../../src/config/settings.ts'
import { errorOf, type Given, namesOf, warningsOf } from './support.ts'

const swap = 'https://swap.example'

describe('a config', () => {
  test('without any settings is a gateway on loopback that talks to the sandbox', () => {
    const { config } = loadConfig({})
    expect(config).toMatchObject({
      production: false,
      traffic: { host: '127.0.0.1', port: 8080 },
      admin: { host: '127.0.0.1', port: 8081 },
      swap: { appName: undefined, appVersion: undefined, authorization: undefined },
      upstreams: {
        swap: { baseUrl: 'sandbox', paths: ['/v3'] },
        payments: {
          baseUrl: 'sandbox',
          paths: expect.arrayContaining(['/checkouts', '/refunds']),
        },
        webhooks: { baseUrl: undefined, paths: ['/webhooks'] },
      },
      client: { trustProxy: [], ipHeader: 'forwarded' },
      upstream: { queue: 8 * 128, retries: 1, breakerFailures: 5, breakerOpenMs: 5_000 },
      quotes: { cacheBytes: 67_108_864, maxBytes: 16_384 },
      log: { level: 'info', format: 'auto', access: 'off', clientAddress: 'masked' },
    })
    expect([config.store, config.traces, config.proxy]).toEqual([
      undefined,
      undefined,
      undefined,
    ])
  })

  test('is the same with empty and blank values, and with keys that name prototypes', () => {
    const named = JSON.parse(
      '{"__proto__": {"PORT": 1}, "constructor": "x", "toString": "y"}',
    ) as Given
    const inherited = Object.create({ PORT: 1 }) as Given
    for (const given of [
      { PORT: '', ADMIN_PORT: '  ', SWAP_AUTHORIZATION: '\n' },
      named,
      inherited,
    ])
      expect(loadConfig(given)).toEqual(loadConfig({}))
  })

  test('cannot be changed at any depth', () => {
    const { config } = loadConfig({ TRUST_PROXY: 'loopback' })
    expect([config, config.swap, config.client.trustProxy].every(Object.isFrozen)).toBe(
      true,
    )
  })

  test('has parsed the address of the shared store, and what is to be traced', () => {
    const { store, traces } = loadConfig({
      VALKEY_URL: 'valkeys://store.example/2',
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://localhost:4318',
    }).config
    const nodes = [{ host: 'store.example', port: 6379 }]
    expect(store).toMatchObject({
      address: { kind: 'single', nodes, tls: true, database: 2 },
      lockWaitMs: 3_000,
    })
    expect(traces).toEqual({
      endpoint: 'http://localhost:4318',
      protocol: 'http/protobuf',
      sampler: 'parentbased_traceidratio',
      samplerRatio: 0.01,
    })
  })

  test('has the host of the traffic listener for the operations listener too, unless ADMIN_HOST is set', () => {
    expect(loadConfig({ HOST: '10.0.0.1' }).config.admin.host).toBe('10.0.0.1')
    expect(loadConfig({ HOST: '10.0.0.1', ADMIN_HOST: '::1' }).config.admin.host).toBe(
      '::1',
    )
  })

  test('has payments that go to the sandbox only if swap requests do', () => {
    const payments = (given: Given) => loadConfig(given).config.upstreams.payments.baseUrl
    expect(payments({ SWAP_BASE_URL: 'sandbox' })).toBe('sandbox')
    expect(payments({ SWAP_BASE_URL: swap })).toBeUndefined()
    expect(payments({ SWAP_BASE_URL: swap, PAYMENTS_BASE_URL: 'sandbox' })).toBe(
      'sandbox',
    )
    const { config } = loadConfig({ SWAP_BASE_URL: swap, NODE_ENV: 'production' })
    expect([config.production, config.upstreams.payments.baseUrl]).toEqual([
      true,
      undefined,
    ])
  })

  test('is made of numbers and booleans too, and the queue is eight times the connections', () => {
    const { config } = loadConfig({
      PORT: 0,
      ADMIN_PORT: 0,
      ACCESS_LOG: true,
      UPSTREAM_CONNECTIONS: 7,
    })
    expect([config.traffic.port, config.log.access, config.upstream.queue]).toEqual([
      0,
      'on',
      56,
    ])
  })

  test('or a SettingsError is the result for any strings', () => {
    const name = fc.oneof(fc.constantFrom(...settingNames), fc.string())
    const pieces = [
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
    ]
    const likely = fc.string({ unit: fc.constantFrom(...pieces) })
    const text = fc.oneof(fc.string(), fc.string({ unit: 'binary' }), fc.webUrl(), likely)
    fc.assert(
      fc.property(
        fc.dictionary(name, text),
        fc.constantFrom('start', 'library'),
        (given, by) => {
          try {
            return Object.isFrozen(loadConfig(given, { by }).config)
          } catch (error) {
            return error instanceof SettingsError && error.problems.length > 0
          }
        },
      ),
      { numRuns: 500 },
    )
  })
})

describe('settings and values of earlier versions', () => {
  test.each([
    [
      { UPSTREAM_QUEUE: '9' },
      'UPSTREAM_QUEUE is not a setting any more: eight times UPSTREAM_CONNECTIONS',
    ],
    [
      { 'upstream-retries': '3' },
      'upstream-retries is not a setting any more: what the upstream',
    ],
    [
      { QUOTE_PARTITION: 'Prefix' },
      'QUOTE_PARTITION=prefix was removed and counts as ip: ',
    ],
  ])('cause one warning that names the replacement: %j', (given, text) => {
    for (const by of ['start', 'library'] as const) {
      const { config, warnings } = loadConfig(
        { SWAP_BASE_URL: 'sandbox', ...given },
        { by },
      )
      expect(warnings).toEqual([expect.stringContaining(text)])
      expect(config).toEqual(loadConfig({}).config)
    }
  })

  test('are problems beside others only where they are asked for', () => {
    const given = { UPSTREAM_RETRIES: '0', QUOTE_PARTITION: 'prefix', PORT: 'x' }
    expect(namesOf(given, 'check')).toEqual([
      'PORT',
      'UPSTREAM_RETRIES',
      'QUOTE_PARTITION',
    ])
    expect(namesOf(given)).toEqual(['PORT'])
  })
})

describe('limits', () => {
  test('may be overridden by tests, by argument or as JSON in the environment, which is warned of', () => {
    const limits = { headTimeoutMs: 70, queue: 6 }
    const { config, warnings } = loadConfig(
      { QUOTEGATE_TEST_LIMITS: '{"retries":0,"queue":7}' },
      { limits },
    )
    expect(config.upstream).toMatchObject({ retries: 0, queue: 7 })
    expect(config.requests).toMatchObject({
      headTimeoutMs: 70,
      bodyIdleTimeoutMs: 30_000,
    })
    expect(warnings).toEqual([
      expect.stringContaining('QUOTEGATE_TEST_LIMITS is set, which is for the tests'),
    ])
    expect(warningsOf({}, { limits })).toEqual([])
  })

  test.each<object>([{ retires: 0 }, { queue: 1.5 }, { retries: -1 }])(
    'are refused as %j',
    (limits) => {
      const [name] = Object.keys(limits)
      expect(() => loadConfig({}, { limits })).toThrow(
        new RegExp(`^createGateway: limits: [^]*${name}`),
      )
      expect(namesOf({ QUOTEGATE_TEST_LIMITS: JSON.stringify(limits) })).toEqual([
        'QUOTEGATE_TEST_LIMITS',
      ])
    },
  )

  test.each(['x', '[]', 'null', '{"retries":"0"}'])(
    'are refused as the text %s',
    (text) =>
      expect(namesOf({ QUOTEGATE_TEST_LIMITS: text })).toEqual(['QUOTEGATE_TEST_LIMITS']),
  )
})

describe('problems', () => {
  test('are all listed at once, each on a line with its name, value and remedy', () => {
    const error = errorOf({
      PORT: '70000',
      LOG_LEVEL: 'a\nPORT=1 is fine\u001b[2J',
      NODE_ENV: 'production',
    })
    const [first, ...lines] = error?.message.split('\n') ?? []
    expect([first, lines.length]).toEqual(['There are 3 problems with the settings:', 3])
    for (const { name, value, expected } of error?.problems ?? []) {
      const shown = value === undefined ? `${name} is not set` : `${name}=${value}`
      expect(lines).toContain(`  ${shown} - expected: ${expected}`)
    }
    expect(error?.message).toContain(
      '  PORT=70000 - expected: a whole number from 0 to 65535',
    )
    expect(error?.message).toContain('  SWAP_BASE_URL is not set - expected: ')
  })

  test('name values of other types than string, number, boolean or list too: these are not converted', () => {
    const given = {
      PORT: { toString: () => '80' },
      LOG_LEVEL: [['info']],
    } as unknown as Given
    expect(namesOf(given)).toEqual(['PORT', 'LOG_LEVEL'])
  })
})
