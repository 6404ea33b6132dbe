import { describe, expect, test } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import { keptLog, levels } from '../support/observing/log-lines.ts'

const swap = 'https://swap.example'
const trusting = { TRUST_PROXY: '10.0.0.1', CLIENT_IP_HEADER: 'x-forwarded-for', HOST: '0.0.0.0' }
const production = { NODE_ENV: 'production', SWAP_BASE_URL: swap, ...trusting }

const warnings = (given: Record<string, string>) => loadConfig(given).warnings

describe('a start warns of', () => {
  test.each([
    [{ SWAP_BASE_URL: `${swap}/v3` }, `SWAP_BASE_URL=${swap}/v3 ends in /v3, and the paths`],
    [{ SWAP_BASE_URL: `${swap}/api/V3/` }, 'ends in /v3, and the paths'],
    [
      { WEBHOOKS_BASE_URL: 'https://hooks.example/webhooks' },
      'a request for /webhooks is sent as /webhooks/webhooks',
    ],
    [
      { SWAP_BASE_URL: swap, PAYMENTS_BASE_URL: 'https://pay.example/api/Checkouts' },
      'a request for /checkouts is sent as /checkouts/checkouts',
    ],
    [
      {
        SWAP_BASE_URL: swap,
        PAYMENTS_BASE_URL: 'https://pay.example/pay/in',
        PAYMENTS_PATHS: '/pay/in,/refunds',
      },
      'a request for /pay/in is sent as /pay/in/pay/in',
    ],
  ])('a base URL that ends in the prefix of its paths: %j', (given, text) => {
    expect(warnings(given)).toEqual([expect.stringContaining(text)])
  })

  test.each([
    { SWAP_BASE_URL: `${swap}/v3/proxy` },
    { SWAP_BASE_URL: 'https://v3' },
    // Its paths begin with /checkouts and the like.
    { SWAP_BASE_URL: swap, PAYMENTS_BASE_URL: 'https://pay.example/v3' },
    { SWAP_BASE_URL: swap, PAYMENTS_BASE_URL: 'https://pay.example/mycheckouts' },
    { SWAP_BASE_URL: swap, PAYMENTS_BASE_URL: 'https://pay.example/checkouts', PAYMENTS_PATHS: '/' },
    { SWAP_BASE_URL: swap, PAYMENTS_BASE_URL: 'https://pay.example', PAYMENTS_PATHS: '/' },
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
    const { TRUST_PROXY: _, CLIENT_IP_HEADER: __, ...without } = production
    expect(warnings(without)).toEqual([expect.stringContaining('TRUST_PROXY is not set in production')])
    expect(warnings(production)).toEqual([])
    expect(warnings({ SWAP_BASE_URL: swap })).toEqual([])
  })

  test.each(['0.0.0.0/0', '::/0', '10.1.2.3/0', '::ffff:0.0.0.0/96', '10.0.0.1,::/0'])(
    'a TRUST_PROXY that trusts every address: %s',
    (trusted) => {
      expect(warnings({ ...production, TRUST_PROXY: trusted })).toEqual([
        expect.stringContaining(`TRUST_PROXY=${trusted} trusts every address`),
      ])
    },
  )

  test.each(['0.0.0.0/1', 'loopback', '::ffff:10.0.0.0/104', '::'])('no other TRUST_PROXY: %s', (trusted) =>
    expect(warnings({ ...production, TRUST_PROXY: trusted })).toEqual([]),
  )

  test.each([{}, { CLIENT_IP_HEADER: '' }])(
    'TRUST_PROXY beside a forgotten CLIENT_IP_HEADER: %j',
    (given) => {
      const text = 'TRUST_PROXY is set and CLIENT_IP_HEADER is not: only the header Forwarded'
      expect(warnings({ TRUST_PROXY: 'loopback', ...given })).toEqual([expect.stringContaining(text)])
      expect(warnings({ TRUST_PROXY: 'loopback', CLIENT_IP_HEADER: 'forwarded' })).toEqual([])
    },
  )

  test.each([
    '10.0.0.0/8',
    'uniquelocal,linklocal',
    '::ffff:10.0.0.1',
    '2001:db8::/32',
    '126.0.0.0/8,128.0.0.0/1',
  ])('a HOST that none of the trusted proxies can reach: %s', (trusted) => {
    const given = { CLIENT_IP_HEADER: 'forwarded', TRUST_PROXY: trusted }
    const text = `TRUST_PROXY=${trusted} names other machines alone, and HOST=127.0.0.1 accepts`
    expect(warnings(given)).toEqual([expect.stringContaining(text)])
    expect(warnings({ ...given, HOST: 'localhost' })).toEqual([expect.stringContaining('HOST=localhost')])
    const open = { HOST: '0.0.0.0', ADMIN_HOST: '127.0.0.1', SWAP_BASE_URL: swap }
    expect(warnings({ ...given, ...open })).toEqual([])
  })

  test.each([
    '10.0.0.0/8,loopback',
    'Loopback',
    '127.0.0.1',
    '127.8.0.0/16',
    '::1',
    '::ffff:127.0.0.0/104',
    '0.0.0.0/1',
    '::/8',
  ])('a HOST on loopback that one of the trusted proxies may reach: %s: nothing', (trusted) => {
    expect(warnings({ CLIENT_IP_HEADER: 'forwarded', TRUST_PROXY: trusted })).toEqual([])
  })

  test.each([
    [{ PAYMENTS_BASE_URL: 'https://pay.example' }, ['PAYMENTS_BASE_URL=https://pay.example']],
    [
      { SWAP_BASE_URL: '', PAYMENTS_BASE_URL: 'https://pay.example' },
      ['PAYMENTS_BASE_URL=https://pay.example'],
    ],
    [{ SWAP_BASE_URL: ' ', HOST: '0.0.0.0' }, ['HOST=0.0.0.0']],
    [{ HOST: '::', PAYMENTS_BASE_URL: 'https://pay.example' }, ['HOST=::', 'PAYMENTS_BASE_URL=']],
  ])('invented prices beside what is real: %j', (given: Record<string, string>, named) => {
    const beside = { ADMIN_HOST: '127.0.0.1', NODE_ENV: 'staging', ...given }
    const [warning = '', ...more] = warnings(beside)
    expect(more).toEqual([])
    expect(warning).toMatch(
      /^SWAP_BASE_URL is not set, or empty, so \/v3 goes to the built-in sandbox, whose prices/,
    )
    for (const name of named) expect(warning).toContain(name)
    expect(warnings({ ...beside, SWAP_BASE_URL: 'sandbox' })).toEqual([])
    expect(warnings({ ...beside, SWAP_BASE_URL: swap })).toEqual([])
  })

  test.each([{}, { HOST: '::1' }, { PAYMENTS_BASE_URL: 'sandbox' }])(
    'nothing for a sandbox that is tried on one machine: %j',
    (given) => expect(warnings(given)).toEqual([]),
  )

  test.each([
    [{ HOST: '0.0.0.0' }, 'HOST=0.0.0.0 is reachable from other machines and ADMIN_TOKEN is not set'],
    [{ HOST: '::' }, 'HOST=:: is reachable'],
    [{ ADMIN_HOST: '10.0.0.1' }, 'ADMIN_HOST=10.0.0.1 is reachable'],
  ])('a console that is open to other machines: %j', (given, text) => {
    const beside = { SWAP_BASE_URL: swap, ...given }
    expect(warnings(beside)).toEqual([expect.stringContaining(text)])
    expect(warnings({ ...beside, ADMIN_TOKEN: 'a-token-of-16-characters' })).toEqual([])
    // There it is read-only without a token, and shows no requests.
    expect(warnings({ ...production, ...given })).toEqual([])
  })

  test('nothing if only the traffic listener is open to other machines', () => {
    expect(warnings({ SWAP_BASE_URL: swap, HOST: '0.0.0.0', ADMIN_HOST: '127.0.0.1' })).toEqual([])
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
})

describe('a start warns of one value, and not of the next to it:', () => {
  const ahead = { QUOTE_MIN_VALIDITY_MS: '3000' }
  const margin = { ORDER_EXPIRY_MARGIN_MS: '2000' }
  const few = { ORDER_UNKNOWN_QUOTE: 'refuse', QUOTE_CACHE_ENTRIES: '500' }
  const key = { SWAP_AUTHORIZATION: 'Bearer hidden', SWAP_BASE_URL: swap, ADMIN_HOST: 'localhost' }
  const proxied = { SWAP_BASE_URL: swap, UPSTREAM_PROXY: 'http://proxy.example:3128' }
  test.each<[text: string, warned: Record<string, string>, ...good: Record<string, string>[]]>([
    ['NODE_ENV=production', { NODE_ENV: 'prod' }, { NODE_ENV: 'test' }],
    [
      'QUOTE_REFRESH_AHEAD_MS=3000 has no effect',
      { ...ahead, QUOTE_REFRESH_AHEAD_MS: '3000' },
      { ...ahead, QUOTE_REFRESH_AHEAD_MS: '3001' },
      { ...ahead, QUOTE_REFRESH_AHEAD_MS: '0' },
    ],
    [
      'that orders can no longer use',
      { ...margin, QUOTE_MIN_VALIDITY_MS: '1999' },
      { ...margin, QUOTE_MIN_VALIDITY_MS: '2000' },
    ],
    ['LEDGER_RETENTION_MS=0 forgets', { LEDGER_RETENTION_MS: '0' }, { LEDGER_RETENTION_MS: '1' }],
    [
      'LEDGER_ENTRIES=499 is less',
      { ...few, LEDGER_ENTRIES: '499' },
      { ...few, LEDGER_ENTRIES: '500' },
      { ...few, LEDGER_ENTRIES: '499', ORDER_UNKNOWN_QUOTE: 'forward' },
    ],
    [
      'HOST=0.0.0.0 is reachable from other machines and SWAP_AUTHORIZATION is set',
      { ...key, HOST: '0.0.0.0' },
      { ...key, HOST: 'localhost' },
      { SWAP_BASE_URL: swap, ADMIN_HOST: 'localhost', HOST: '0.0.0.0' },
    ],
    [
      'ORDER_EXPIRED_QUOTE=report, in production',
      { ...production, ORDER_EXPIRED_QUOTE: 'report' },
      { ...production, ORDER_EXPIRED_QUOTE: 'refuse' },
      { ORDER_EXPIRED_QUOTE: 'report' },
    ],
    ['QUOTE_PARTITION=none shares', { QUOTE_PARTITION: 'none' }, { QUOTE_PARTITION: 'ip' }],
    [
      'WEBHOOKS_BASE_URL=http://hooks.example is connected to directly',
      { ...proxied, WEBHOOKS_BASE_URL: 'http://hooks.example' },
      { ...proxied, WEBHOOKS_BASE_URL: 'http://localhost:9000' },
    ],
  ])('%s', (text, warned, ...good) => {
    expect(warnings(warned)).toEqual([expect.stringContaining(text)])
    for (const given of good) expect(warnings(given)).toEqual([])
  })
})

describe('a setting without effect is named with the reason', () => {
  test.each([
    [{ QUOTE_PARTITION_HEADER: 'cf-ipcountry' }, 'QUOTE_PARTITION is not header'],
    [{ CLIENT_IP_HEADER: 'x-forwarded-for' }, 'TRUST_PROXY is not set'],
    [{ RATE_LIMIT_BY: 'both' }, 'RATE_LIMIT_PER_MINUTE is 0'],
    [{ VALKEY_KEY_PREFIX: 'mine:' }, 'VALKEY_URL is not set'],
    [{ VALKEY_TIMEOUT_MS: '51' }, 'VALKEY_URL is not set'],
    [{ UPSTREAM_PROXY: 'http://proxy.example:3128' }, 'no upstream has an https URL'],
    [{ PAYMENTS_PATHS: '/pay', SWAP_BASE_URL: swap }, 'PAYMENTS_BASE_URL is not set'],
  ])('%j: %s', (given: Record<string, string>, reason) => {
    const [name = ''] = Object.keys(given)
    expect(loadConfig(given).warnings).toEqual([
      expect.stringMatching(`^${name} is set and has no effect, because ${reason}.*, or remove ${name}\\.$`),
    ])
  })

  test('a setting with its default value is not reported', () => {
    expect(
      warnings({
        RATE_LIMIT_BY: 'app-name',
        VALKEY_TIMEOUT_MS: '50',
        CLIENT_IP_HEADER: 'Forwarded',
      }),
    ).toEqual([])
  })

  test('each has an effect, and no warning, with the setting that it needs', () => {
    expect(
      warnings({
        ...{ TRUST_PROXY: 'loopback', CLIENT_IP_HEADER: 'x-forwarded-for' },
        ...{ RATE_LIMIT_PER_MINUTE: '1', RATE_LIMIT_BY: 'both' },
        ...{ VALKEY_URL: 'redis://store', VALKEY_TIMEOUT_MS: '51' },
        ...{ SWAP_BASE_URL: swap, UPSTREAM_PROXY: 'http://proxy.example:3128' },
        ...{ PAYMENTS_BASE_URL: 'https://pay.example', PAYMENTS_PATHS: '/pay' },
      }),
    ).toEqual([])
  })
})

test('a startup logs each warning once', async () => {
  const log = await keptLog()
  const given = {
    ...{ QUOTE_PARTITION: 'none', https_proxy: 'http://proxy.example' },
    ...{ TRUST_PROXY: '::/0', CLIENT_IP_HEADER: 'forwarded' },
  }
  const gateway = await startGateway(given, { logger: log.logger })
  await gateway.close()
  const said = log.lines(levels.warn).map(({ msg }) => msg.split(/[ =]/)[0])
  expect(said.sort()).toEqual(['QUOTE_PARTITION', 'TRUST_PROXY', 'https_proxy'])
})
