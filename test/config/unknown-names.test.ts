import { describe, expect, test } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import { ownBeginnings } from '../../src/config/names.ts'
import { SettingsError } from '../../src/config/problems.ts'
import { settingNames } from '../../src/config/settings.ts'

const warnings = (name: string, value = 'x') => loadConfig({ [name]: value }, { nearMisses: 'warn' }).warnings

describe('a name that is not a setting and begins as settings do', () => {
  test.each([
    ['STATE_DIR', 'STATE_DIRECTORY'],
    ['STATE_FOLDER', 'STATE_DIRECTORY'],
    ['TRUSTED_PROXY', 'TRUST_PROXY'],
    ['TRUSTED_PROXIES', 'TRUST_PROXY'],
    ['SWAP_API_URL', 'SWAP_BASE_URL'],
    ['ORDER_MARGIN_MS', 'ORDER_EXPIRY_MARGIN_MS'],
    ['ORDER_ID_FIELD', 'ORDER_QUOTE_ID_FIELDS'],
    ['order-margin-ms', 'ORDER_EXPIRY_MARGIN_MS'],
    ['QUOTEGATE_STATE_DIR', 'STATE_DIRECTORY'],
    // All upstreams have these in common.
    ['SWAP_CONNECTIONS', 'UPSTREAM_CONNECTIONS'],
    ['PAYMENTS_PROXY', 'UPSTREAM_PROXY'],
    ['QUOTE_CACHE_SIZE', 'QUOTE_CACHE_ENTRIES'],
    ['EXPIRY_MARGIN_MS', 'ORDER_EXPIRY_MARGIN_MS'],
    ['MIN_VALIDITY_MS', 'QUOTE_MIN_VALIDITY_MS'],
  ])('is pointed out with the one that was meant: %s, %s', (name, meant) => {
    expect(warnings(name)).toEqual([`${name} is not a setting. Did you mean ${meant}?`])
  })

  test('is pointed out with all that it may mean: SWAP_TIMEOUT_MS', () => {
    const [warning, ...more] = warnings('SWAP_TIMEOUT_MS')
    expect(more).toEqual([])
    const timeouts = settingNames.filter((name) => /^UPSTREAM_.*TIMEOUT_MS$/.test(name))
    expect(warning).toBe(
      `SWAP_TIMEOUT_MS is not a setting. Did you mean ${timeouts.slice(0, -1).join(', ')} or ${timeouts.at(-1)}?`,
    )
  })

  test.each([
    ['LEDGER_SIZE', 'The settings that begin with LEDGER_ are LEDGER_ENTRIES and LEDGER_RETENTION_MS.'],
    ['QUOTE_TTL_MS', 'The settings that begin with QUOTE_ are QUOTE_PARTITION, '],
    ['SWAP_BASE_URL_FILE', 'Only secrets may be in files: ADMIN_TOKEN_FILE, '],
    // The file of a TLS key is not what a key to the API belongs into.
    ['SWAP_KEY', 'The settings that begin with SWAP_ are SWAP_BASE_URL, '],
  ])(
    'is pointed out with those that begin so, if it is like none of them, or what else is right: %s',
    (name, text) => {
      expect(warnings(name)).toEqual([expect.stringContaining(`${name} is not a setting. ${text}`)])
    },
  )

  test.each(ownBeginnings)('is found by %s', (beginning) => {
    expect(warnings(`${beginning}XYZZY`)).toEqual([
      expect.stringMatching(new RegExp(`^${beginning}XYZZY is not a setting\\. `)),
    ])
  })

  test('is a warning by default, an error where it is asked for, and its value is never shown', () => {
    const given = { PAYMENTS_API_KEY: 'sk_live_1' }
    const { warnings: said } = loadConfig(given)
    expect(said).toEqual([expect.stringContaining('PAYMENTS_API_KEY is not a setting. ')])
    const asked = () => loadConfig(given, { unknownNames: 'error' })
    expect(asked).toThrow(SettingsError)
    expect(asked).toThrow('PAYMENTS_API_KEY is not a setting. ')
    expect(asked).not.toThrow('sk_live_1')
    expect(said.join()).not.toContain('sk_live_1')
  })

  test('is reported once, beside the setting that it means too', () => {
    expect(warnings('SWAP_BASEURL')).toHaveLength(1)
    const both = { SWAP_URL: 'https://a.example', SWAP_BASE_URL: 'https://swap.example' }
    expect(loadConfig(both).warnings).toEqual(['SWAP_URL is not a setting. Did you mean SWAP_BASE_URL?'])
  })
})

describe('not looked at are', () => {
  test('all settings', () => {
    expect(loadConfig({ STATE_DIRECTORY: '/var/lib/quotegate' }).warnings).toEqual([])
  })

  test.each([
    'SWAP',
    'VALKEY',
    'ADMIN_UI',
    'SWAP_API',
    'PAYMENTS_WEBHOOKS',
    'ORDER_SERVICE',
    'QUOTEGATE_ADMIN_UI',
  ])('the variables that Kubernetes makes of a Service: %s', (service) => {
    const links = {
      [`${service}_SERVICE_HOST`]: '10.0.0.1',
      [`${service}_SERVICE_PORT`]: '6379',
      [`${service}_SERVICE_PORT_HTTP_ALT`]: '6379',
      [`${service}_PORT`]: 'tcp://10.0.0.1:6379',
      [`${service}_PORT_6379_TCP`]: 'tcp://10.0.0.1:6379',
      [`${service}_PORT_6379_TCP_PROTO`]: 'tcp',
      [`${service}_PORT_6379_TCP_PORT`]: '6379',
      [`${service}_PORT_6379_TCP_ADDR`]: '10.0.0.1',
    }
    expect(loadConfig(links, { unknownNames: 'error' }).warnings).toEqual([])
  })

  test.each(['METRICS_PORT', 'VALKEY_PORT', 'ADMIN_HTTP_PORT'])('but a number in %s is', (name) => {
    expect(warnings(name, '6379')).toEqual([expect.stringContaining(`${name} is not a setting. `)])
  })

  test.each(['tcp', 'udp', 'sctp'])(
    'but ADMIN_PORT is a setting: what Kubernetes sets there is an error that says so: %s',
    (protocol) => {
      const links = { ADMIN_SERVICE_HOST: '10.0.0.1', ADMIN_PORT: `${protocol}://10.0.0.1:80` }
      expect(() => loadConfig(links)).toThrow(
        `ADMIN_PORT=${protocol}://10.0.0.1:80 - expected: a port number; this one was set by Kubernetes' service links ` +
          '(enableServiceLinks: false)',
      )
    },
  )

  test.each([
    ...['APP_NAME', 'APP_VERSION', 'BASE_URL', 'CACHE_ENTRIES', 'KEY_PREFIX', 'HEADERS_TIMEOUT_MS'],
    ...['TRUSTSTORE_PASSWORD', 'SWAPPINESS', 'ORDERS_URL', 'LOG_FILE', 'CLIENT_ID', 'NODE_PATH', 'HOST_IP'],
  ])('variables of other programs: %s', (name) => expect(warnings(name)).toEqual([]))
})
