import { describe, expect, test } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import { keptLog, levels } from '../support/observing/log-lines.ts'

const swap = 'https://swap.example'
const production = { NODE_ENV: 'production', SWAP_BASE_URL: swap, TRUST_PROXY: '10.0.0.1' }

const warnings = (given: Record<string, string>) => loadConfig(given).warnings

describe('a start warns of', () => {
  test.each([
    [{ SWAP_BASE_URL: `${swap}/v3` }, `SWAP_BASE_URL=${swap}/v3 ends in /v3, and the paths`],
    [{ SWAP_BASE_URL: `${swap}/api/V3/` }, 'ends in /v3, and the paths'],
    [
      { WEBHOOKS_BASE_URL: 'https://hooks.example/webhooks' },
      'a request for /webhooks is sent as /webhooks/webhooks',
    ],
  ])('a base URL that ends in the prefix of its paths: %j', (given, text) => {
    expect(warnings(given)).toEqual([expect.stringContaining(text)])
  })

  test.each([
    { SWAP_BASE_URL: `${swap}/v3/proxy` },
    { SWAP_BASE_URL: 'https://v3' },
    // Its paths begin with /checkouts and the like.
    { PAYMENTS_BASE_URL: 'https://pay.example/v3' },
  ])('no other base URL: %j', (given) => expect(warnings(given)).toEqual([]))

  test.each(['SWAP_BASE_URL', 'PAYMENTS_BASE_URL', 'WEBHOOKS_BASE_URL'])(
    'an upstream that is not encrypted, in production and beyond loopback: %s',
    (name) => {
      const text = `${name}=http://api.example is not encrypted`
      expect(warnings({ ...production, [name]: 'http://api.example' })).toEqual([
        expect.stringContaining(text),
      ])
      expect(warnings({ ...production, [name]: 'http://127.0.0.1:9000' })).toEqual([])
      expect(warnings({ SWAP_BASE_URL: swap, [name]: 'http://api.example' })).toEqual([])
    },
  )

  test('production without TRUST_PROXY', () => {
    const { TRUST_PROXY: _, ...without } = production
    expect(warnings(without)).toEqual([expect.stringContaining('TRUST_PROXY is not set in production')])
    expect(warnings(production)).toEqual([])
    expect(warnings({ SWAP_BASE_URL: swap })).toEqual([])
  })

  test.each(['0.0.0.0/0', '::/0', '10.1.2.3/0', '::ffff:0.0.0.0/96', '10.0.0.1,::/0'])(
    'a TRUST_PROXY that trusts every address: %s',
    (trusted) => {
      expect(warnings({ TRUST_PROXY: trusted })).toEqual([
        expect.stringContaining(`TRUST_PROXY=${trusted} trusts every address`),
      ])
    },
  )

  test.each(['0.0.0.0/1', 'loopback', '::ffff:10.0.0.0/104', '::'])('no other TRUST_PROXY: %s', (trusted) =>
    expect(warnings({ TRUST_PROXY: trusted })).toEqual([]),
  )

  test.each([
    [{ HOST: '0.0.0.0' }, 'HOST=0.0.0.0 is reachable from other machines and ADMIN_TOKEN is not set'],
    [{ HOST: '::' }, 'HOST=:: is reachable'],
    [{ ADMIN_HOST: '10.0.0.1' }, 'ADMIN_HOST=10.0.0.1 is reachable'],
  ])('a console that is open to other machines: %j', (given, text) => {
    expect(warnings(given)).toEqual([expect.stringContaining(text)])
    expect(warnings({ ...given, ADMIN_TOKEN: 'a-token-of-16-characters' })).toEqual([])
    // There it is read-only without a token, and shows no requests.
    expect(warnings({ ...given, ...production })).toEqual([])
  })

  test('nothing if only the traffic listener is open to other machines', () => {
    expect(warnings({ HOST: '0.0.0.0', ADMIN_HOST: '127.0.0.1' })).toEqual([])
  })

  test('quotes that all clients share', () => {
    expect(warnings({ QUOTE_PARTITION: 'none' })).toEqual([
      expect.stringContaining('QUOTE_PARTITION=none shares'),
    ])
  })

  test('a connect timeout above the total', () => {
    const given = { UPSTREAM_TOTAL_TIMEOUT_MS: '2000' }
    expect(warnings({ ...given, UPSTREAM_CONNECT_TIMEOUT_MS: '2001' })).toEqual([
      expect.stringContaining(
        'UPSTREAM_CONNECT_TIMEOUT_MS=2001 is more than UPSTREAM_TOTAL_TIMEOUT_MS (2000)',
      ),
    ])
    expect(warnings({ ...given, UPSTREAM_CONNECT_TIMEOUT_MS: '2000' })).toEqual([])
  })

  test.each(['HTTPS_PROXY', 'https_proxy'])('%s, which has no effect', (name) => {
    const given = { SWAP_BASE_URL: swap, [name]: 'http://me:hunter2@proxy.example:3128' }
    const loaded = loadConfig(given)
    expect(loaded.warnings).toEqual([
      expect.stringContaining(`${name} is set, and quotegate does not read it`),
    ])
    expect(loaded.warnings.join()).not.toContain('hunter2')
    expect(loaded.config.proxy).toBeUndefined()
    expect(warnings({ ...given, UPSTREAM_PROXY: 'http://proxy.example:3128' })).toEqual([])
  })

  test('an http upstream that does not go through the proxy', () => {
    const given = { SWAP_BASE_URL: swap, UPSTREAM_PROXY: 'http://proxy.example:3128' }
    expect(warnings({ ...given, WEBHOOKS_BASE_URL: 'http://hooks.example' })).toEqual([
      expect.stringContaining('WEBHOOKS_BASE_URL=http://hooks.example is connected to directly'),
    ])
    expect(warnings({ ...given, WEBHOOKS_BASE_URL: 'http://localhost:9000' })).toEqual([])
  })
})

describe('a setting without effect is named with the reason', () => {
  const pem = () => Buffer.from('')
  test.each([
    [{ QUOTE_PARTITION_HEADER: 'cf-ipcountry' }, 'QUOTE_PARTITION is not header'],
    [{ CLIENT_IP_HEADER: 'x-forwarded-for' }, 'TRUST_PROXY is not set'],
    [{ RATE_LIMIT_BY: 'both' }, 'RATE_LIMIT_PER_MINUTE is 0'],
    [{ RATE_LIMIT_HITS: 'on' }, 'RATE_LIMIT_PER_MINUTE is 0'],
    [{ VALKEY_KEY_PREFIX: 'mine:' }, 'VALKEY_URL is not set'],
    [{ VALKEY_TIMEOUT_MS: '51' }, 'VALKEY_URL is not set'],
    [{ VALKEY_LOCK_WAIT_MS: '1' }, 'VALKEY_URL is not set'],
    [{ UPSTREAM_PROXY: 'http://proxy.example:3128' }, 'no upstream has an https URL'],
    [{ PAYMENTS_PATHS: '/pay', SWAP_BASE_URL: swap }, 'PAYMENTS_BASE_URL is not set'],
  ])('%j: %s', (given: Record<string, string>, reason) => {
    const [name = ''] = Object.keys(given)
    expect(loadConfig(given, { readFile: pem }).warnings).toEqual([
      expect.stringMatching(`^${name} is set and has no effect, because ${reason}.*, or remove ${name}\\.$`),
    ])
  })

  test('a setting with its default value is not reported', () => {
    expect(
      warnings({
        RATE_LIMIT_BY: 'app-name',
        RATE_LIMIT_HITS: 'off',
        VALKEY_TIMEOUT_MS: '50',
        CLIENT_IP_HEADER: 'Forwarded',
      }),
    ).toEqual([])
  })

  test('each has an effect, and no warning, with the setting that it needs', () => {
    expect(
      warnings({
        ...{ TRUST_PROXY: 'loopback', CLIENT_IP_HEADER: 'x-forwarded-for' },
        ...{ RATE_LIMIT_PER_MINUTE: '1', RATE_LIMIT_BY: 'both', RATE_LIMIT_HITS: 'on' },
        ...{ VALKEY_URL: 'redis://store', VALKEY_TIMEOUT_MS: '51' },
        ...{ SWAP_BASE_URL: swap, UPSTREAM_PROXY: 'http://proxy.example:3128' },
        ...{ PAYMENTS_BASE_URL: 'https://pay.example', PAYMENTS_PATHS: '/pay' },
      }),
    ).toEqual([])
  })
})

test('a startup logs each warning once', async () => {
  const log = await keptLog()
  const given = { QUOTE_PARTITION: 'none', https_proxy: 'http://proxy.example', TRUST_PROXY: '::/0' }
  const gateway = await startGateway(given, { logger: log.logger })
  await gateway.close()
  const said = log.lines(levels.warn).map(({ msg }) => msg.split(/[ =]/)[0])
  expect(said.sort()).toEqual(['QUOTE_PARTITION', 'TRUST_PROXY', 'https_proxy'])
})
