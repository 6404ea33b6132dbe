import { resolve } from 'node:path'
import { describe, expect, test } from 'vitest'
import { startGateway } from '../support/gateways/gateway.ts'
import { keptLog, levels } from '../support/observing/log-lines.ts'
import { errorOf, namesOf, warningsOf } from './support.ts'

type Texts = Record<string, string>

const swap = 'https://swap.example'
const trusting = {
  TRUST_PROXY: '10.0.0.1',
  CLIENT_IP_HEADER: 'x-forwarded-for',
  HOST: '0.0.0.0',
}
const production = { NODE_ENV: 'production', SWAP_BASE_URL: swap, ...trusting }

describe('settings that are refused together', () => {
  const proxyHeaders = {
    CLIENT_IP_HEADER: 'X-Edge-Client',
    QUOTE_PARTITION_HEADER: 'X-Edge-Place,X-Edge-Area',
  }
  const alsoKeyed = (name: string) => ({
    ...proxyHeaders,
    QUOTE_KEY_HEADERS: `app-name,${name}`,
  })
  const inProduction = (given: Texts) => ({ NODE_ENV: 'production', ...given })

  test.each<[Texts, ...refused: string[]]>([
    [inProduction({}), 'SWAP_BASE_URL'],
    [inProduction({ SWAP_BASE_URL: 'sandbox' }), 'SWAP_BASE_URL'],
    [
      inProduction({ SWAP_BASE_URL: swap, PAYMENTS_BASE_URL: 'Sandbox' }),
      'PAYMENTS_BASE_URL',
    ],
    [inProduction({ SWAP_BASE_URL: swap })],
    // Two listeners cannot share one address.
    [{ PORT: '8081' }, 'PORT'],
    [{ PORT: '9000', ADMIN_PORT: '9000' }, 'ADMIN_PORT'],
    [{ ADMIN_PORT: '8080', ADMIN_HOST: '0.0.0.0' }, 'ADMIN_PORT'],
    [{ ADMIN_PORT: '8080', ADMIN_HOST: 'localhost' }, 'ADMIN_PORT'],
    [{ ADMIN_PORT: '8080', ADMIN_HOST: '10.0.0.1' }],
    [{ PORT: '0', ADMIN_PORT: '0' }],
    // A header in which a trusted proxy describes the user cannot be sent to the provider with a quote.
    [alsoKeyed('x-edge-client'), 'CLIENT_IP_HEADER'],
    [alsoKeyed('x-edge-place'), 'QUOTE_PARTITION_HEADER'],
    [alsoKeyed('x-edge-area'), 'QUOTE_PARTITION_HEADER'],
    [alsoKeyed('x-tier')],
    [{ QUOTE_PARTITION: 'header' }, 'QUOTE_PARTITION_HEADER'],
    // Where one is refused by itself, nothing is said of the default that stands in for it.
    [{ PORT: 'abc', SWAP_BASE_URL: 'http://localhost:8080' }, 'PORT'],
    [{ HOST: 'a b', SWAP_BASE_URL: 'http://localhost:8081' }, 'HOST'],
    [
      { HOST: 'a b', ADMIN_HOST: '127.0.0.1', SWAP_BASE_URL: 'http://localhost:8080' },
      'HOST',
    ],
    [
      { HOST: 'a b', ADMIN_HOST: '::1', SWAP_BASE_URL: 'http://localhost:8081' },
      'HOST',
      'SWAP_BASE_URL',
    ],
    [inProduction({ SWAP_BASE_URL: 'nonsense' }), 'SWAP_BASE_URL'],
    // A URL cannot lead to the gateway itself. Whether it is an address of this machine is not looked up: a swap request
    // that comes back is answered 508.
    [{ SWAP_BASE_URL: 'http://localhost:8080/api' }, 'SWAP_BASE_URL'],
    [{ PAYMENTS_BASE_URL: 'http://127.9.9.9:8081' }, 'PAYMENTS_BASE_URL'],
    [{ WEBHOOKS_BASE_URL: 'http://[::1]:8080' }, 'WEBHOOKS_BASE_URL'],
    [
      { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://0.0.0.0:8080' },
      'OTEL_EXPORTER_OTLP_ENDPOINT',
    ],
    [{ SWAP_BASE_URL: swap, UPSTREAM_PROXY: 'http://localhost:8080' }, 'UPSTREAM_PROXY'],
    [{ SWAP_BASE_URL: 'http://[::ffff:127.0.0.1]:8080' }, 'SWAP_BASE_URL'],
    [{ SWAP_BASE_URL: 'https://localhost', PORT: '443' }, 'SWAP_BASE_URL'],
    [{ SWAP_BASE_URL: 'http://10.0.0.5:8080', HOST: '10.0.0.5' }, 'SWAP_BASE_URL'],
    [
      { SWAP_BASE_URL: 'http://gate.internal.:8081', HOST: 'Gate.internal' },
      'SWAP_BASE_URL',
    ],
    [{ SWAP_BASE_URL: 'http://localhost:8080', HOST: '::' }, 'SWAP_BASE_URL'],
    [{ SWAP_BASE_URL: 'http://localhost:8080', HOST: '10.0.0.5' }],
    [{ SWAP_BASE_URL: 'http://localhost:8080', PORT: '0' }],
    [{ SWAP_BASE_URL: 'http://localhost:9000' }],
    [{ SWAP_BASE_URL: 'http://10.0.0.5:8080' }],
    [{ SWAP_BASE_URL: 'http://10.0.0.5:8080', HOST: '0.0.0.0' }],
  ])('%j: %s', (given, ...refused) => expect(namesOf(given, 'start')).toEqual(refused))

  test('are said with what would be right, of each setting what was found first', () => {
    const nonsense = errorOf(inProduction({ SWAP_BASE_URL: 'nonsense' }))
    expect(nonsense?.message).toContain('expected: an http or https URL such as')
    expect(errorOf({ PORT: '8081' })?.message).toContain(
      "from ADMIN_PORT (8081, that setting's default)",
    )
    expect(errorOf({ PORT: '9000', ADMIN_PORT: '9000' })?.message).toMatch(
      /from PORT \(9000\)$/,
    )
  })
})

describe('a start warns of', () => {
  const toPayments = (url: string, paths = '/checkouts') => {
    return {
      SWAP_BASE_URL: swap,
      PAYMENTS_BASE_URL: `https://pay.example${url}`,
      PAYMENTS_PATHS: paths,
    }
  }
  const trusts = (TRUST_PROXY: string) => ({ ...production, TRUST_PROXY })
  const onLoopback = (TRUST_PROXY: string) => ({
    CLIENT_IP_HEADER: 'forwarded',
    TRUST_PROXY,
  })
  const places = (QUOTE_PARTITION_HEADER: string) => {
    return {
      ...onLoopback('loopback'),
      QUOTE_PARTITION: 'header',
      QUOTE_PARTITION_HEADER,
    }
  }
  const { TRUST_PROXY: _trusted, CLIENT_IP_HEADER: _header, ...trustingNone } = production
  const staging = { ADMIN_HOST: '127.0.0.1', NODE_ENV: 'staging' }
  const payments = { PAYMENTS_BASE_URL: 'https://pay.example' }
  const token = { SWAP_BASE_URL: swap, ADMIN_TOKEN: 'a-token-of-16-characters' }
  const few = { ORDER_UNKNOWN_QUOTE: 'refuse', QUOTE_CACHE_ENTRIES: '500' }
  const key = {
    SWAP_AUTHORIZATION: 'Bearer hidden',
    SWAP_BASE_URL: swap,
    ADMIN_HOST: 'localhost',
  }
  const proxied = { SWAP_BASE_URL: swap, UPSTREAM_PROXY: 'http://proxy.example:3128' }
  const traced = (url: string, more: Texts = {}) => ({
    OTEL_EXPORTER_OTLP_ENDPOINT: url,
    ...more,
  })
  const collectorKey = { OTEL_EXPORTER_OTLP_HEADERS: 'api-key=hidden' }
  const share = { OTEL_TRACES_SAMPLER_ARG: '0.5' }

  const everyAddress = 'trusts every address'
  const otherMachines = 'names other machines alone, and HOST=127.0.0.1 accepts'
  const region = 'names a region without its country'
  const invented = '/v3 goes to the built-in sandbox, whose prices are invented; '

  /** A value, and then, without a warning, those next to it. */
  test.each<[given: Texts, ...warnings: string[]]>([
    [
      { SWAP_BASE_URL: `${swap}/v3` },
      `SWAP_BASE_URL=${swap}/v3 ends in /v3, and the paths`,
    ],
    [{ SWAP_BASE_URL: `${swap}/api/V3/` }, 'ends in /v3'],
    [{ SWAP_BASE_URL: `${swap}/v3/proxy` }],
    [{ SWAP_BASE_URL: 'https://v3' }],
    [
      { WEBHOOKS_BASE_URL: 'https://hooks.example/webhooks' },
      'is sent as /webhooks/webhooks',
    ],
    [toPayments('/api/Checkouts'), 'is sent as /checkouts/checkouts'],
    [toPayments('/mycheckouts')],
    [toPayments('/v3')],
    [toPayments('/pay/in', '/pay/in,/refunds'), 'is sent as /pay/in/pay/in'],
    [toPayments('/checkouts', '/')],
    [toPayments('', '/')],

    [
      { ...production, SWAP_BASE_URL: 'http://a.example' },
      'SWAP_BASE_URL=http://a.example is not encrypted',
    ],
    [
      { ...production, PAYMENTS_BASE_URL: 'http://a.example' },
      'PAYMENTS_BASE_URL=http://a.example is not',
    ],
    [{ ...production, SWAP_BASE_URL: 'http://127.0.0.1:9000' }],
    [{ SWAP_BASE_URL: 'http://a.example' }],
    [
      { ...proxied, WEBHOOKS_BASE_URL: 'http://a.example' },
      'is connected to directly, not through',
    ],
    [{ ...proxied, WEBHOOKS_BASE_URL: 'http://localhost:9000' }],
    [
      { SWAP_BASE_URL: swap, HTTPS_PROXY: 'http://me:hidden@a' },
      'HTTPS_PROXY is set, and',
    ],
    [
      { SWAP_BASE_URL: swap, https_proxy: 'http://a' },
      'https_proxy is set, and quotegate does not read it',
    ],
    [{ ...proxied, HTTPS_PROXY: 'http://proxy.example' }],

    [trustingNone, 'TRUST_PROXY is not set in production'],
    [production],
    [{ SWAP_BASE_URL: swap }],
    [trusts('0.0.0.0/0'), everyAddress],
    [trusts('10.1.2.3/0'), everyAddress],
    [trusts('::ffff:0.0.0.0/96'), everyAddress],
    [trusts('10.0.0.1,::/0'), everyAddress],
    ...['0.0.0.0/1', 'loopback', '::ffff:10.0.0.0/104', '::'].map((all): [Texts] => [
      trusts(all),
    ]),
    [{ TRUST_PROXY: 'loopback' }, 'only the header Forwarded of these proxies is read'],
    [
      { TRUST_PROXY: 'loopback', CLIENT_IP_HEADER: '' },
      'TRUST_PROXY is set and CLIENT_IP_HEADER is not',
    ],
    [onLoopback('10.0.0.0/8'), otherMachines],
    [onLoopback('uniquelocal,linklocal'), otherMachines],
    [onLoopback('::ffff:10.0.0.1'), otherMachines],
    [onLoopback('2001:db8::/32'), otherMachines],
    [onLoopback('126.0.0.0/8,128.0.0.0/1'), otherMachines],
    [
      { ...onLoopback('10.0.0.0/8'), HOST: 'localhost' },
      'names other machines alone, and HOST=localhost',
    ],
    [
      {
        ...onLoopback('10.0.0.0/8'),
        HOST: '0.0.0.0',
        ADMIN_HOST: '127.0.0.1',
        SWAP_BASE_URL: swap,
      },
    ],
    ...['10.0.0.0/8,loopback', 'Loopback', '127.0.0.1', '127.8.0.0/16'].map(
      (all): [Texts] => [onLoopback(all)],
    ),
    ...['::1', '::ffff:127.0.0.0/104', '0.0.0.0/1', '::/8'].map((all): [Texts] => [
      onLoopback(all),
    ]),

    [
      payments,
      `SWAP_BASE_URL is not set, or empty, so ${invented}PAYMENTS_BASE_URL=https://`,
    ],
    [{ ...payments, SWAP_BASE_URL: '' }, `${invented}PAYMENTS_BASE_URL`],
    [
      { ...staging, SWAP_BASE_URL: ' ', HOST: '0.0.0.0' },
      `${invented}HOST=0.0.0.0 is reachable`,
    ],
    [
      { ...staging, ...payments, HOST: '::' },
      `${invented}PAYMENTS_BASE_URL=https://pay.example is not; HOST`,
    ],
    [{ ...payments, SWAP_BASE_URL: 'sandbox' }],
    [{ PAYMENTS_BASE_URL: 'sandbox' }],
    [{ ...staging, SWAP_BASE_URL: 'sandbox', HOST: '0.0.0.0' }],
    [{ HOST: '::1' }],
    [
      { SWAP_BASE_URL: swap, HOST: '0.0.0.0' },
      'HOST=0.0.0.0 is reachable from other machines and ADMIN_TOKEN',
    ],
    [{ SWAP_BASE_URL: swap, ADMIN_HOST: '10.0.0.1' }, 'ADMIN_HOST=10.0.0.1 is reachable'],
    [{ ...token, HOST: '0.0.0.0' }],
    [{ ...token, ADMIN_HOST: '10.0.0.1' }],
    [{ SWAP_BASE_URL: swap, HOST: '0.0.0.0', ADMIN_HOST: '127.0.0.1' }],
    [
      { ...key, HOST: '0.0.0.0' },
      'reachable from other machines and SWAP_AUTHORIZATION is',
    ],
    [{ ...key, HOST: 'localhost' }],
    [{ NODE_ENV: 'prod' }, 'NODE_ENV=prod has no effect; only NODE_ENV=production'],
    [{ NODE_ENV: 'Producton' }, 'only NODE_ENV=production'],
    [{ NODE_ENV: 'Production', SWAP_BASE_URL: swap, ...trusting }],
    [{ NODE_ENV: 'test' }],

    [
      places('X-Vercel-IP-Country-Region'),
      `QUOTE_PARTITION_HEADER=x-vercel-ip-country-region ${region}`,
    ],
    [places('x-region'), region],
    [places('x-region-code'), region],
    [places('x-city,cloudfront-viewer-country-region-name'), region],
    // A second region does not name the country either.
    [places('x-region,cloudfront-viewer-country-region'), region],
    [places('x-vercel-ip-country-region, X-Vercel-IP-Country')],
    [places('x-geo-region,x-geo-country_code')],
    [places('cf-ipcountry')],
    [places('x-regional-office')],
    [
      { ...places('x-region'), QUOTE_PARTITION: 'ip' },
      'QUOTE_PARTITION_HEADER is set and has no effect',
    ],
    [{ QUOTE_PARTITION: 'none' }, 'QUOTE_PARTITION=none shares'],

    // Counted from where QUOTE_MIN_VALIDITY_MS ends.
    [{ QUOTE_MIN_VALIDITY_MS: '3000', QUOTE_REFRESH_AHEAD_MS: '100' }],
    [
      { ORDER_EXPIRY_MARGIN_MS: '2000', QUOTE_MIN_VALIDITY_MS: '1999' },
      'that orders can no longer use',
    ],
    [{ ORDER_EXPIRY_MARGIN_MS: '2000', QUOTE_MIN_VALIDITY_MS: '2000' }],
    [
      { ORDER_EXPIRY_MARGIN_MS: '100', QUOTE_MIN_VALIDITY_MS: '0' },
      'QUOTE_MIN_VALIDITY_MS (0)',
    ],
    [
      { ORDER_EXPIRY_MARGIN_MS: '5001' },
      'QUOTE_MIN_VALIDITY_MS (at most 5000 by default)',
    ],
    [{ ORDER_EXPIRY_MARGIN_MS: '5000' }],

    // Seconds, written where milliseconds are meant.
    [
      { UPSTREAM_TOTAL_TIMEOUT_MS: '15' },
      'UPSTREAM_TOTAL_TIMEOUT_MS=15 is 15 milliseconds. Set it to 15000 if 15 seconds are',
    ],
    [{ UPSTREAM_HEADERS_TIMEOUT_MS: '99' }, 'UPSTREAM_HEADERS_TIMEOUT_MS=99 is 99 milli'],
    [{ UPSTREAM_HEADERS_TIMEOUT_MS: '100' }],
    [{ DRAIN_TIMEOUT_MS: '25' }, 'Set it to 25000 if 25 seconds are meant'],
    [{ DRAIN_TIMEOUT_MS: '0', DRAIN_DELAY_MS: '0', UPSTREAM_TOTAL_TIMEOUT_MS: '' }],
    [{ VALKEY_TIMEOUT_MS: '20', VALKEY_URL: 'redis://store' }],
    // No usual quote lives for so long.
    [
      { QUOTE_MIN_VALIDITY_MS: '60000' },
      'QUOTE_MIN_VALIDITY_MS=60000 is at least as long as most quotes live (30 seconds)',
    ],
    [{ QUOTE_MIN_VALIDITY_MS: '30000' }, 'no such quote is served from memory'],
    [{ QUOTE_MIN_VALIDITY_MS: '29999' }],
    [
      { ORDER_EXPIRY_MARGIN_MS: '30000', QUOTE_MIN_VALIDITY_MS: '30000' },
      'no such quote is served from memory',
      'every order for such a quote is refused as expired',
    ],

    [{ STATE_DIRECTORY: 'state' }, `leads to ${resolve('state')} here, and to another`],
    [{ STATE_DIRECTORY: '../state' }, 'Write the whole path'],
    [{ STATE_DIRECTORY: resolve('state') }],
    [{ ...few, LEDGER_ENTRIES: '499' }, 'LEDGER_ENTRIES=499 is less'],
    [{ ...few, LEDGER_ENTRIES: '500' }],
    [{ ...few, LEDGER_ENTRIES: '499', ORDER_UNKNOWN_QUOTE: 'forward' }],
    [
      { ...production, ORDER_EXPIRED_QUOTE: 'report' },
      'ORDER_EXPIRED_QUOTE=report, in production',
    ],
    [
      { ...production, ORDER_EXPIRED_QUOTE: 'report:shop' },
      'ORDER_EXPIRED_QUOTE=report:shop, in production',
    ],
    [{ ORDER_EXPIRED_QUOTE: 'report' }],

    [traced('http://localhost:4317'), 'has the usual port for gRPC'],
    [traced('http://localhost:4318', collectorKey)],
    [
      traced('http://a.example:4318', collectorKey),
      'not encrypted and OTEL_EXPORTER_OTLP_HEADERS is set',
    ],
    [traced('http://a.example:4318')],
    [
      traced('http://localhost', { OTEL_TRACES_SAMPLER: 'always_on', ...share }),
      'SAMPLER is always_on',
    ],
    [traced('http://localhost', { OTEL_TRACES_SAMPLER: 'traceidratio', ...share })],
  ])('%j: %s', (given, ...expected) => {
    const warnings = warningsOf(given)
    expect(warnings).toEqual(expected.map((text) => expect.stringContaining(text)))
    expect(warnings.join()).not.toContain('hidden')
  })
})

describe('a setting without effect is named with the reason', () => {
  test.each<[Texts, string]>([
    [{ QUOTE_PARTITION_HEADER: 'cf-ipcountry' }, 'QUOTE_PARTITION is not header'],
    [{ CLIENT_IP_HEADER: 'x-forwarded-for' }, 'TRUST_PROXY is not set'],
    [{ RATE_LIMIT_BY: 'both' }, 'RATE_LIMIT_PER_MINUTE is 0'],
    [{ VALKEY_KEY_PREFIX: 'mine:' }, 'VALKEY_URL is not set'],
    [{ VALKEY_TIMEOUT_MS: '51' }, 'VALKEY_URL is not set'],
    [{ UPSTREAM_PROXY: 'http://proxy.example:3128' }, 'no upstream has an https URL'],
    [{ PAYMENTS_PATHS: '/pay', SWAP_BASE_URL: swap }, 'PAYMENTS_BASE_URL is not set'],
    [
      { OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json' },
      'OTEL_EXPORTER_OTLP_ENDPOINT is not set',
    ],
    [{ OTEL_TRACES_SAMPLER: 'always_on' }, 'OTEL_EXPORTER_OTLP_ENDPOINT is not set'],
  ])('%j: %s', (given, reason) => {
    const [name = ''] = Object.keys(given)
    expect(warningsOf(given)).toEqual([
      expect.stringMatching(
        `^${name} is set and has no effect, because ${reason}.*, or remove ${name}\\.$`,
      ),
    ])
  })

  test.each<Texts>([
    { RATE_LIMIT_BY: 'app-name', VALKEY_TIMEOUT_MS: '50', CLIENT_IP_HEADER: 'Forwarded' },
    {
      TRUST_PROXY: 'loopback',
      CLIENT_IP_HEADER: 'x-forwarded-for',
      RATE_LIMIT_PER_MINUTE: '1',
      RATE_LIMIT_BY: 'both',
      VALKEY_URL: 'redis://store',
      VALKEY_TIMEOUT_MS: '51',
      SWAP_BASE_URL: swap,
      UPSTREAM_PROXY: 'http://proxy.example:3128',
      PAYMENTS_BASE_URL: 'https://pay.example',
      PAYMENTS_PATHS: '/pay',
    },
  ])('but not a default, and not one beside the setting that it needs: %j', (given) => {
    expect(warningsOf(given)).toEqual([])
  })
})

test('a startup logs each warning once', async () => {
  const log = await keptLog()
  const given = {
    SWAP_BASE_URL: 'sandbox',
    QUOTE_PARTITION: 'none',
    https_proxy: 'http://proxy.example',
    TRUST_PROXY: '::/0',
    CLIENT_IP_HEADER: 'forwarded',
  }
  const gateway = await startGateway(given, { logger: log.logger })
  await gateway.close()
  const said = log.lines(levels.warn).map(({ msg }) => msg.split(/[ =]/)[0])
  expect(said.sort()).toEqual(['QUOTE_PARTITION', 'TRUST_PROXY', 'https_proxy'])
})
