import { describe, expect, test } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import { namesOf } from './support.ts'

const swap = 'https://swap.example'
const trusting = { TRUST_PROXY: 'loopback', CLIENT_IP_HEADER: 'forwarded' }

describe('cross-checks of settings', () => {
  test('in production the gateway does not start without a swap upstream, or with a sandbox', () => {
    const NODE_ENV = 'production'
    expect(namesOf({ NODE_ENV })).toEqual(['SWAP_BASE_URL'])
    expect(namesOf({ NODE_ENV, SWAP_BASE_URL: 'sandbox' })).toEqual(['SWAP_BASE_URL'])
    expect(namesOf({ NODE_ENV, SWAP_BASE_URL: swap, PAYMENTS_BASE_URL: 'Sandbox' })).toEqual([
      'PAYMENTS_BASE_URL',
    ])
    const { config } = loadConfig({ NODE_ENV, SWAP_BASE_URL: swap })
    expect([config.production, config.upstreams.payments.baseUrl]).toEqual([true, undefined])
  })

  test.each([
    [{ PORT: '8081' }, ['PORT']],
    [{ PORT: '9000', ADMIN_PORT: '9000' }, ['ADMIN_PORT']],
    [{ ADMIN_PORT: '8080', ADMIN_HOST: '0.0.0.0' }, ['ADMIN_PORT']],
    [{ ADMIN_PORT: '8080', ADMIN_HOST: 'localhost' }, ['ADMIN_PORT']],
  ])('two listeners cannot share one address: %j', (given, names) => {
    expect(namesOf(given)).toEqual(names)
  })

  test('and the error says where the other port comes from', () => {
    expect(() => loadConfig({ PORT: '8081' })).toThrow("from ADMIN_PORT (8081, that setting's default)")
    expect(() => loadConfig({ PORT: '9000', ADMIN_PORT: '9000' })).toThrow(/from PORT \(9000\)$/)
  })

  test('the listener of a wrong host is not what a base URL leads to', () => {
    expect(namesOf({ HOST: 'a b', SWAP_BASE_URL: 'http://localhost:8081' })).toEqual(['HOST'])
  })

  test('but beside a wrong HOST, the operations listener of an ADMIN_HOST of its own is', () => {
    const given = { HOST: 'a b', ADMIN_HOST: '127.0.0.1' }
    expect(namesOf({ ...given, SWAP_BASE_URL: 'http://localhost:8081' })).toEqual(['HOST', 'SWAP_BASE_URL'])
    expect(namesOf({ ...given, SWAP_BASE_URL: 'http://localhost:8080' })).toEqual(['HOST'])
  })

  test.each([
    { PORT: '0', ADMIN_PORT: '0' },
    { ADMIN_PORT: '8080', ADMIN_HOST: '10.0.0.1' },
  ])('two listeners may have one port at different addresses: %j', (given) =>
    expect(() => loadConfig(given)).not.toThrow(),
  )

  test.each([
    [{}, 'http://localhost:8080/api'],
    [{}, 'http://127.9.9.9:8081'],
    [{}, 'http://[::1]:8080'],
    [{}, 'http://0.0.0.0:8080'],
    [{}, 'http://[::ffff:127.0.0.1]:8080'],
    [{ PORT: '443' }, 'https://localhost'],
    [{ HOST: '10.0.0.5' }, 'http://10.0.0.5:8080'],
    [{ HOST: 'Gate.internal' }, 'http://gate.internal.:8081'],
    [{ HOST: '::' }, 'http://localhost:8080'],
  ])(
    'a base URL that leads to the gateway itself is refused: %j %s',
    (given: Record<string, string>, url) => {
      for (const name of ['SWAP_BASE_URL', 'PAYMENTS_BASE_URL', 'WEBHOOKS_BASE_URL']) {
        expect(namesOf({ ...given, [name]: url })).toEqual([name])
      }
    },
  )

  test.each([
    [{}, 'http://localhost:9000'],
    [{}, 'http://10.0.0.5:8080'],
    [{ HOST: '10.0.0.5' }, 'http://localhost:8080'],
    // Whether it is an address of this machine is not looked up: a request that comes back is answered 508.
    [{ HOST: '0.0.0.0' }, 'http://10.0.0.5:8080'],
    [{ PORT: '0' }, 'http://localhost:8080'],
  ])('another port or machine is accepted as an upstream: %j %s', (given: Record<string, string>, url) => {
    expect(loadConfig({ ...given, SWAP_BASE_URL: url }).config.upstreams.swap.baseUrl).toBe(url)
  })

  test('a header in which trusted proxies describe the client cannot be sent to the provider with a quote', () => {
    const proxyHeaders = { CLIENT_IP_HEADER: 'X-Edge-Client', QUOTE_PARTITION_HEADER: 'X-Edge-Place' }
    const keyed = (names: string) => namesOf({ ...proxyHeaders, QUOTE_KEY_HEADERS: `app-name,${names}` })
    expect(keyed('x-edge-client')).toEqual(['CLIENT_IP_HEADER'])
    expect(keyed('x-edge-place')).toEqual(['QUOTE_PARTITION_HEADER'])
    expect(keyed('x-tier')).toEqual([])
    const two = { QUOTE_PARTITION_HEADER: 'X-Edge-Country,X-Edge-Region' }
    for (const name of ['x-edge-country', 'x-edge-region'])
      expect(namesOf({ ...two, QUOTE_KEY_HEADERS: `app-name,${name}` })).toEqual(['QUOTE_PARTITION_HEADER'])
  })

  describe('a region without its country', () => {
    const warnings = (names: string, mode = 'header') =>
      loadConfig({ ...trusting, QUOTE_PARTITION: mode, QUOTE_PARTITION_HEADER: names }).warnings

    test.each([
      'CloudFront-Viewer-Country-Region',
      'x-vercel-ip-country-region',
      'x-region',
      'x-region-code',
      'cloudfront-viewer-country-region-name',
      'x-vercel-ip-country-region,x-city',
      'x-vercel-ip-country-region,cloudfront-viewer-country-region',
    ])('is warned about: %s', (names) => {
      expect(warnings(names)).toEqual([
        expect.stringContaining(
          `QUOTE_PARTITION_HEADER=${names.toLowerCase()} names a region without its country`,
        ),
      ])
    })

    test.each([
      'cf-ipcountry',
      'cloudfront-viewer-country,cloudfront-viewer-country-region',
      'x-vercel-ip-country-region, X-Vercel-IP-Country',
      'cf-region-code,cf-ipcountry',
      'x-geo-country_code,x-geo-region',
      'x-regional-office',
    ])('is not reported in %s', (names) => expect(warnings(names)).toEqual([]))

    test('is reported as without effect with QUOTE_PARTITION=ip', () => {
      expect(warnings('x-region', 'ip')).toEqual([expect.stringContaining('is set and has no effect')])
    })
  })
})
