import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import type { SettingValue } from '../../src/config/problems.ts'
import { readProxyUrl, readStoreUrl } from '../../src/config/urls.ts'
import { errorOf } from './support.ts'

const pairs = (count: number) => Array.from({ length: count }, (_, index) => `P${index}`)

const accepted: [name: string, ...values: SettingValue[]][] = [
  ['PORT', '0', ' 65535 '],
  ['UPSTREAM_HEADERS_TIMEOUT_MS', 86_400_000],
  ['DRAIN_DELAY_MS', 0],
  ['HOST', '::', 'localhost'],
  ['ACCESS_LOG', 'OFF', '1', true, 'Orders'],
  ['ORDER_EXPIRED_QUOTE', 'Refuse', 'REPORT', 'report:Shop', 'report: a b , c'],
  ['LOG_LEVEL', 'Silent'],
  ['PAYMENTS_PATHS', '/', '/v3x, /pay/v4, /webhooks-old,'],
  ['TRUST_PROXY', '0.0.0.0/0', '::/0', '::1', '10.1.2.3/8', '::ffff:10.0.0.0/104'],
  ['TRUST_PROXY', 'loopback, LinkLocal,uniquelocal'],
  ['CLIENT_IP_HEADER', 'CF-Connecting-IP'],
  ['SWAP_APP_NAME', 'Acme Wallet/1.0 (test)'],
  ['SWAP_AUTHORIZATION', 'x'.repeat(4096)],
  [
    'SWAP_BASE_URL',
    'sandbox',
    'https://[2001:db8::1]:8443/api',
    'https://swap.example./api',
  ],
  [
    'SWAP_BASE_URL',
    'https://münchen.example',
    'http://swap_api:3000',
    'http://10.0.0.1:9000/a/b/',
  ],
  ['VALKEY_KEY_PREFIX', 'staging/quotes:'],
  ['METRICS_PAIRS', pairs(20)],
]

test.each(
  accepted.flatMap(([name, ...values]) => values.map((value) => [name, value] as const)),
)('%s accepts %j', (name, value) =>
  expect(() => loadConfig({ [name]: value })).not.toThrow(),
)

const proxyHost = 'the http URL of a proxy'
const storeForms = 'redis+cluster://host:port,host:port'

/** Each with a part of what the error says would be right. */
const refused: [name: string, expected: string, ...values: SettingValue[]][] = [
  [
    'PORT',
    'from 0 to 65535',
    '1e3',
    '0x10',
    '-1',
    '1.5',
    '65536',
    '8 0',
    Number.NaN,
    true,
  ],
  [
    'ADMIN_PORT',
    'enableServiceLinks: false',
    'tcp://10.0.0.1:80',
    'udp://10.0.0.1:80',
    'sctp://10.0.0.1:80',
  ],
  ['UPSTREAM_HEADERS_TIMEOUT_MS', 'from 1 to 86400000', '0', '86400001'],
  ['UPSTREAM_CONNECTIONS', 'from 1 to 65535', '0'],
  ['VALKEY_TIMEOUT_MS', 'from 1 to 10000', '0'],
  ['OTEL_TRACES_SAMPLER_ARG', 'a number from 0 to 1', '1.5', 'all'],
  [
    'HOST',
    'an IP address or host name',
    '127.0.0.1:80',
    'http://a',
    '127.1',
    '*',
    'a b',
    '256.1.1.1',
  ],
  ['ACCESS_LOG', 'one of off, orders, on', 'maybe'],
  [
    'ORDER_EXPIRED_QUOTE',
    'without an empty name',
    'report:',
    'report:a,,b',
    'report:a, ',
    'refuse:a',
    'shop',
  ],
  ['OTEL_EXPORTER_OTLP_PROTOCOL', 'one of http/protobuf, http/json', 'grpc'],
  ['PAYMENTS_PATHS', 'does not start with /', 'checkouts'],
  ['PAYMENTS_PATHS', 'ends with /', '/a/'],
  ['PAYMENTS_PATHS', 'plain path segments', '/a//b', '/a?b', '/a#b', '/%61', '/ä'],
  ['PAYMENTS_PATHS', 'has a dot segment', '/a/../b', '/.'],
  ['PAYMENTS_PATHS', 'goes to another upstream', '/v3', '/v3/x', '/webhooks'],
  [
    'PAYMENTS_PATHS',
    'is a version',
    '/v4',
    '/v4/x',
    '/V3',
    '/v4.1',
    '/v4;a=b',
    '/;a/v4',
    '/,/v4',
  ],
  ['PAYMENTS_PATHS', 'at least one entry', ','],
  [
    'TRUST_PROXY',
    'addresses, CIDRs or loopback',
    '10.0.0.0/33',
    '::/129',
    '::ffff:10.0.0.0/95',
    'private',
  ],
  [
    'TRUST_PROXY',
    'addresses, CIDRs or loopback',
    '10.0.0.0/08',
    '10.0.0.0/',
    '0x7f.1',
    'fe80::1%eth0',
  ],
  ['TRUST_PROXY', 'Express, which counts proxies or trusts all', '1', 'true'],
  ['CLIENT_IP_HEADER', 'a header name such as forwarded', 'x y', 'ä'],
  [
    'CLIENT_IP_HEADER',
    'means something else',
    'host',
    'Authorization',
    'cookie',
    'x-forwarded-host',
  ],
  [
    'QUOTE_PARTITION_HEADER',
    "holds no user's place",
    'content-type',
    'cf-ipcountry,Host',
  ],
  ['QUOTE_PARTITION_HEADER', 'is not a header name', 'cf-ipcountry,x region'],
  ['QUOTE_PARTITION_HEADER', 'at least one entry', ','],
  ['QUOTE_KEY_HEADERS', 'with app-name in it', 'user-agent'],
  [
    'SWAP_APP_VERSION',
    'at most 4096 visible ASCII',
    'a\r\nb',
    'ä',
    'a\tb',
    'x'.repeat(4097),
  ],
  ['METRICS_PAIRS', 'at most 20 pairs', pairs(21)],

  [
    'WEBHOOKS_BASE_URL',
    'an http or https URL',
    'sandbox',
    'ftp://x',
    'x',
    'https:x',
    'http://x\\y',
  ],
  [
    'WEBHOOKS_BASE_URL',
    'an http or https URL',
    'http://a,b',
    'http://a,http://b',
    'https://*.example',
  ],
  ['WEBHOOKS_BASE_URL', ', without query and fragment', 'http://x?', 'http://x#'],
  ['WEBHOOKS_BASE_URL', ', without dot segments', 'http://x/../y'],
  ['WEBHOOKS_BASE_URL', ', with a port that can be connected to', 'http://x:0'],
  ['WEBHOOKS_BASE_URL', ', without user and password', 'http://u:p@x', 'http://@x'],
  [
    'PAYMENTS_BASE_URL',
    ', without user and password; or, outside production, sandbox',
    'http://u:p@x',
  ],
  [
    'SWAP_BASE_URL',
    '(SWAP_AUTHORIZATION is for keys); or, outside production, sandbox',
    'http://u:p@x',
  ],
  [
    'OTEL_EXPORTER_OTLP_ENDPOINT',
    '(OTEL_EXPORTER_OTLP_HEADERS is for keys)',
    'http://u:p@x',
  ],
  [
    'OTEL_EXPORTER_OTLP_ENDPOINT',
    '/v1/traces is appended',
    'http://localhost:4318/v1/traces',
  ],

  [
    'UPSTREAM_PROXY',
    'TLS to the proxy itself is not supported',
    'https://proxy.example:3128',
  ],
  [
    'UPSTREAM_PROXY',
    proxyHost,
    'a:3128',
    'socks5://a:1080',
    'http://',
    'http://a,b:3128',
  ],
  ['UPSTREAM_PROXY', proxyHost, 'http://a:0', 'http://a:70000', 'http://me:pass word@a'],
  [
    'UPSTREAM_PROXY',
    ', without path, query and fragment',
    'http://a/b',
    'http://a?b',
    'http://a#b',
  ],
  [
    'UPSTREAM_PROXY',
    'whose user has no colon',
    'http://me%3Ayou:password@a',
    'http://me:pass%0d%0aword@a',
  ],
  ['UPSTREAM_PROXY', 'percent-encoded UTF-8', 'http://me:pass%zz@a', 'http://me:%ff@a'],
  // A / in a password ends the host, and what stands between it and the colon is then not a port.
  ['UPSTREAM_PROXY', proxyHost, 'http://me:pass/word@a'],

  [
    'VALKEY_URL',
    storeForms,
    'a:6379',
    'http://a',
    'redis://',
    'redis://a b',
    'redis+ring://a',
  ],
  ['VALKEY_URL', 'a colon before the password', 'redis://secret@a'],
  [
    'VALKEY_URL',
    'each host is a name',
    'redis://:0',
    'redis://999.1.1.1',
    'redis://[::1',
    'redis+cluster://a,',
  ],
  [
    'VALKEY_URL',
    'a port is a number from 1',
    'redis://a:0',
    'redis://a:65536',
    'redis+cluster://a,b:0',
  ],
  ['VALKEY_URL', 'several hosts need +sentinel or +cluster', 'redis://a,b'],
  ['VALKEY_URL', 'the name of the master', 'redis+sentinel://a:1,b:2'],
  ['VALKEY_URL', 'the database is a number', 'redis://a/quotes', 'redis://a/1/2'],
  ['VALKEY_URL', 'a Cluster has no database but 0', 'redis+cluster://a:1,b:2/1'],
  [
    'VALKEY_URL',
    'only sentinelPassword',
    'redis://a?db=1',
    'redis+sentinel://a:1/quotes?password=x',
  ],
  [
    'VALKEY_URL',
    'a % that is not part of an escape',
    'redis://:%zz@a',
    'redis://:100%@a',
  ],
  [
    'VALKEY_KEY_PREFIX',
    'at most 64 letters',
    'two words',
    'quotes{1}:',
    'x'.repeat(65),
    'ä',
  ],
]

test.each(
  refused.flatMap(([name, expected, ...values]) =>
    values.map((value) => [name, value, expected] as const),
  ),
)('%s refuses %j: %s', (name, value, expected) => {
  const problem = { name, expected: expect.stringContaining(expected) }
  expect(errorOf({ [name]: value })?.problems).toEqual([expect.objectContaining(problem)])
})

test('a base URL keeps its path prefix and loses its trailing slash', () => {
  const baseUrl = (url: string) =>
    loadConfig({ SWAP_BASE_URL: url }).config.upstreams.swap.baseUrl
  expect(baseUrl('HTTPS://Swap.Example:443/api/')).toBe('https://swap.example/api')
  expect(baseUrl('https://swap.example/')).toBe('https://swap.example')
})

test('lists lose blanks and duplicates', () => {
  const lists = {
    PAYMENTS_PATHS: ' /a, /b,/a,',
    TRUST_PROXY: 'Loopback,loopback,FE80::/10',
  }
  const { upstreams, client } = loadConfig(lists).config
  expect([upstreams.payments.paths, client.trustProxy]).toEqual([
    ['/a', '/b'],
    ['loopback', 'fe80::/10'],
  ])
})

describe('the URL of a proxy', () => {
  test.each([
    ['HTTP://Proxy.example:3128/', 'proxy.example', 3128],
    ['http://10.0.0.1', '10.0.0.1', 80],
    ['http://[2001:db8::1]:3128', '2001:db8::1', 3128],
  ])('%s is %s, port %i', (url, host, port) => {
    expect(readProxyUrl(url)).toEqual({ host, port, authorization: undefined })
  })

  test('has any user and password, percent-encoded', () => {
    const text = fc
      .string({ unit: 'grapheme' })
      .filter((value) => !/[\u0000-\u001f\u007f]/.test(value))
    const user = text.filter((value) => value !== '' && !value.includes(':'))
    fc.assert(
      fc.property(user, text, (name, password) => {
        const url = `http://${encodeURIComponent(name)}:${encodeURIComponent(password)}@proxy.example:3128`
        const basic = Buffer.from(`${name}:${password}`).toString('base64')
        expect(readProxyUrl(url).authorization).toBe(`Basic ${basic}`)
      }),
    )
  })
})

const ofMaster = {
  password: 'secret',
  masterName: 'the master',
  sentinelPassword: 'other',
}

test.each([
  ['REDIS://localhost', 'localhost 6379', {}],
  ['valkeys://[::1]:1', '::1 1', { tls: true }],
  [
    'rediss://me:p%40ss%3A%2F@a/3',
    'a 6379',
    { tls: true, username: 'me', password: 'p@ss:/', database: 3 },
  ],
  [
    'redis+sentinel://:secret@a:1,b/the%20master/2?sentinelPassword=other',
    'a 1,b 26379',
    { kind: 'sentinel', database: 2, ...ofMaster },
  ],
  ['rediss+cluster://a,b:7001', 'a 6379,b 7001', { kind: 'cluster', tls: true }],
])('the URL of a store is parsed: %s', (url, expectedNodes, more) => {
  const { nodes, ...rest } = readStoreUrl(url)
  expect(nodes.map(({ host, port }) => `${host} ${port}`).join()).toBe(expectedNodes)
  // toEqual takes what is undefined for absent.
  expect(rest).toEqual({ kind: 'single', tls: false, database: 0, ...more })
})
