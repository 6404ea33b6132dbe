import { describe, expect, test } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import type { SettingValue } from '../../src/config/problems.ts'
import { namesOf } from './support.ts'

describe('each kind of value', () => {
  const accepted: [string, SettingValue][] = [
    ['PORT', '0'],
    ['PORT', ' 65535 '],
    ['HOST', '::'],
    ['HOST', 'localhost'],
    ['UPSTREAM_HEADERS_TIMEOUT_MS', 86_400_000],
    ['ACCESS_LOG', 'OFF'],
    ['ACCESS_LOG', '1'],
    ['ACCESS_LOG', true],
    ['ACCESS_LOG', 'Orders'],
    ['LOG_LEVEL', 'Silent'],
    ['LOG_FORMAT', 'JSON'],
    ['PAYMENTS_PATHS', '/'],
    ['PAYMENTS_PATHS', '/v3x, /pay/v4, /webhooks-old,'],
    ['CLIENT_IP_HEADER', 'CF-Connecting-IP'],
    ['SWAP_APP_NAME', 'Acme Wallet/1.0 (test)'],
    ['SWAP_BASE_URL', 'https://[2001:db8::1]:8443/api'],
    ['SWAP_BASE_URL', 'https://swap.example./api'],
    ['SWAP_BASE_URL', 'https://münchen.example'],
    ['SWAP_BASE_URL', 'http://swap_api:3000'],
    ['SWAP_AUTHORIZATION', 'x'.repeat(4096)],
    ['VALKEY_KEY_PREFIX', 'staging/quotes:'],
    ['DRAIN_DELAY_MS', 0],
    ['METRICS_PAIRS', Array.from({ length: 20 }, (_, index) => `P${index}`)],
    ...[
      'redis://localhost',
      'REDIS://:p%40ss@[::1]:6380/3',
      'valkeys://user:pass@store.example',
      'rediss+sentinel://:pass@a:26379,b:26379/quotes/2?sentinelPassword=other',
      'redis+cluster://10.0.0.1:7000,10.0.0.2:7001',
    ].map((url): [string, string] => ['VALKEY_URL', url]),
    ...[
      '0.0.0.0/0',
      '::/0',
      '::1',
      'loopback, LinkLocal,uniquelocal',
      '10.1.2.3/8',
      '::ffff:10.0.0.0/104',
    ].map((entry): [string, string] => ['TRUST_PROXY', entry]),
    ...['HTTPS://Swap.Example', 'http://10.0.0.1:9000/a/b/', 'sandbox'].map((url): [string, string] => [
      'SWAP_BASE_URL',
      url,
    ]),
  ]
  test.each(accepted)('%s accepts %j', (name, value) => {
    expect(() => loadConfig({ [name]: value })).not.toThrow()
  })

  const refused: [string, SettingValue][] = [
    ['SWAP_BASE_URL', 'https://a.example,https://b.example'],
    ['SWAP_BASE_URL', 'https://*.example'],
    ['QUOTE_PARTITION_HEADER', 'content-type'],
    ['QUOTE_PARTITION_HEADER', 'Content-Length'],
    ['QUOTE_PARTITION_HEADER', 'cf-ipcountry,Host'],
    ['QUOTE_PARTITION_HEADER', 'cf-ipcountry,x region'],
    ['QUOTE_PARTITION_HEADER', ','],
    ...['1e3', '0x10', '-1', '1.5', '65536', '8 0', 'tcp://10.0.0.1:80', Number.NaN, true].map(
      (value): [string, SettingValue] => ['PORT', value],
    ),
    ['UPSTREAM_HEADERS_TIMEOUT_MS', '0'],
    ['UPSTREAM_HEADERS_TIMEOUT_MS', '86400001'],
    ['UPSTREAM_CONNECTIONS', '0'],
    ...['127.0.0.1:80', 'http://localhost', '127.1', '*', 'a b', '256.1.1.1'].map(
      (value): [string, string] => ['HOST', value],
    ),
    ['ACCESS_LOG', 'maybe'],
    ['LOG_LEVEL', 'verbose'],
    ...[
      'checkouts',
      '/a/',
      '/a//b',
      '/a?b',
      '/a#b',
      '/a/../b',
      '/.',
      '/%61',
      '/ä',
      '/v3',
      '/v3/x',
      '/v4',
      '/v4/x',
      '/V4',
      '/v4.1',
      '/v30',
      '/V3',
      '/v4;a=b',
      '/;a/v4',
      '/,/v4',
      '/webhooks',
      ',',
    ].map((value): [string, string] => ['PAYMENTS_PATHS', value]),
    ...['10.0.0.0/33', '::/129', '10.0.0.0/08', '10.0.0.0/', '10.0.0.0/255.0.0.0', 'private', '0x7f.1'].map(
      (value): [string, string] => ['TRUST_PROXY', value],
    ),
    ['TRUST_PROXY', '::ffff:10.0.0.0/95'],
    ['TRUST_PROXY', 'fe80::1%eth0'],
    ...['host', 'Authorization', 'cookie', 'x y', 'x-forwarded-host', 'ä'].map((value): [string, string] => [
      'CLIENT_IP_HEADER',
      value,
    ]),
    ...['a\r\nb', 'ä', 'a\tb', 'x'.repeat(4097)].map((value): [string, string] => [
      'SWAP_APP_VERSION',
      value,
    ]),
    ...[
      'ftp://x',
      'x',
      'https:x',
      'http://u:p@x',
      'http://@x',
      'http://x?',
      'http://x#',
      'http://x:0',
      'http://x\\y',
      'http://x/../y',
    ].map((value): [string, string] => ['WEBHOOKS_BASE_URL', value]),
    ['WEBHOOKS_BASE_URL', 'sandbox'],
    ...[
      'localhost:6379',
      'http://localhost:6379',
      'redis://',
      'redis://:0',
      'redis://a:0',
      'redis://a:65536',
      'redis://a,b',
      'redis://secret@a',
      'redis://:%zz@a',
      'redis://a/quotes',
      'redis://a/1/2',
      'redis://a b',
      'redis://a?db=1',
      'redis+cluster://a:1,b:2/1',
      'redis+cluster://a:1,,b:2',
      'redis+sentinel://a:1,b:2',
      'redis+sentinel://a:1/quotes?password=x',
      'redis+ring://a:1',
    ].map((value): [string, string] => ['VALKEY_URL', value]),
    ...['two words', 'quotes{1}:', 'x'.repeat(65), 'ä'].map((value): [string, string] => [
      'VALKEY_KEY_PREFIX',
      value,
    ]),
    ['VALKEY_TIMEOUT_MS', '0'],
    ['METRICS_PAIRS', Array.from({ length: 21 }, (_, index) => `P${index}`)],
  ]
  test.each(refused)('%s refuses %j', (name, value) => {
    expect(namesOf({ [name]: value })).toEqual([name])
  })

  test.each([
    [
      'SWAP_BASE_URL',
      'without user and password (SWAP_AUTHORIZATION is for keys); or, outside production, sandbox',
    ],
    ['PAYMENTS_BASE_URL', 'without user and password; or, outside production, sandbox'],
    ['WEBHOOKS_BASE_URL', 'without user and password'],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'without user and password (OTEL_EXPORTER_OTLP_HEADERS is for keys)'],
  ])('%s says where keys belong', (name, text) => {
    expect(() => loadConfig({ [name]: 'https://me:secret@api.example' })).toThrow(
      new RegExp(`, ${text.replace(/[()]/g, '.')}$`),
    )
  })

  test('a base URL keeps its path prefix and loses its trailing slash', () => {
    expect(loadConfig({ SWAP_BASE_URL: 'HTTPS://Swap.Example:443/api/' }).config.upstreams.swap.baseUrl).toBe(
      `https://swap.example/api`,
    )
    expect(loadConfig({ SWAP_BASE_URL: 'https://swap.example/' }).config.upstreams.swap.baseUrl).toBe(
      'https://swap.example',
    )
  })

  test('lists lose blanks and duplicates', () => {
    const { config } = loadConfig({
      PAYMENTS_PATHS: ' /a, /b,/a,',
      TRUST_PROXY: 'Loopback,loopback,FE80::/10',
    })
    expect(config.upstreams.payments.paths).toEqual(['/a', '/b'])
    expect(config.client.trustProxy).toEqual(['loopback', 'fe80::/10'])
  })
})
