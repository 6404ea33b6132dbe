import { describe, expect, test } from 'vitest'
import { nearMiss, ownBeginnings } from '../../src/config/names.ts'
import { settingNames } from '../../src/config/settings.ts'
import { errorOf, file, warningsOf } from './support.ts'

const warnings = (name: string, value = 'x') => warningsOf({ [name]: value })

describe('a name that is nearly right', () => {
  test.each<[string, string, by?: 'check']>([
    ['port', 'PORT'],
    ['LOG-LEVEL', 'LOG_LEVEL'],
    ['TRUST__PROXY', 'TRUST_PROXY'],
    ['QUOTEGATE_PORT', 'PORT'],
    ['SWAP_BASE_URI', 'SWAP_BASE_URL'],
    ['QUOTEGATE_SWAP_BASE_ULR', 'SWAP_BASE_URL'],
    ['LOG_LEVLE', 'LOG_LEVEL'],
    ['PAYMENT_BASE_URL', 'PAYMENTS_BASE_URL'],
    ['UPSTREAM_CONECTIONS', 'UPSTREAM_CONNECTIONS'],
    ['SWAP_URL', 'SWAP_BASE_URL'],
    // Of other programs: an app may have these in its environment, and embed the gateway.
    ['REDIS_URL', 'VALKEY_URL', 'check'],
    ['QUOTEGATE_REDIS_URL', 'VALKEY_URL', 'check'],
    ['PAYMENTS_URL', 'PAYMENTS_BASE_URL', 'check'],
    ['RATE_LIMIT', 'RATE_LIMIT_PER_MINUTE', 'check'],
  ])(
    'is a warning at startup, and an error in a library or of --check-config: %s, for %s %s',
    (...row) => {
      const [written, meant, by = 'library'] = row
      const message = `${written} is not a setting. Did you mean ${meant}?`
      expect(warnings(written)).toEqual([message])
      expect(errorOf({ [written]: 'x' }, by)?.message).toContain(`\n  ${message}`)
      if (by === 'check') expect(errorOf({ [written]: 'x' })).toBeUndefined()
    },
  )

  test("does not say so of a REDIS_URL beside VALKEY_URL, or beside its file: it is another program's", () => {
    const others = { REDIS_URL: 'redis://cache' }
    expect(warningsOf({ ...others, VALKEY_URL: 'redis://store' })).toEqual([])
    expect(warningsOf({ ...others, VALKEY_URL_FILE: file('redis://store') })).toEqual([])
  })

  test('is none of a setting, of an ordinary variable, of one that is unset or empty', () => {
    const ordinary = `_ APP_NAME APP_VERSION BASE_URL BASH CI COLORTERM COLUMNS DATABASE_URL DEBUG DISPLAY EDITOR
      FORCE_COLOR GIT_EDITOR GPG_TTY HOME HOSTNAME HOSTS HOSTTYPE HTTP_PROXY HTTPS_PROXY INIT_CWD IFS
      KUBERNETES_PORT KUBERNETES_SERVICE_HOST KUBERNETES_SERVICE_PORT LANG LANGUAGE LC_ALL LINES LOGNAME
      LS_COLORS MACHTYPE MAIL NODE NODE_EXTRA_CA_CERTS NODE_OPTIONS NODE_PATH NODE_VERSION NO_COLOR NO_PROXY
      NVM_DIR OLDPWD OSTYPE PATH PGHOST PGPORT PORTS POST PS1 PWD REDIS_HOST REDIS_PORT SHELL SHLVL
      SORT SSH_AUTH_SOCK SSH_CONNECTION SUDO_USER TEMP TERM TERM_PROGRAM TMP TMPDIR TZ USER USERNAME VIRTUAL_ENV
      VITEST VITEST_POOL_ID XDG_RUNTIME_DIR XPC_SERVICE_NAME YARN_VERSION http_proxy https_proxy no_proxy
      npm_config_loglevel npm_config_user_agent npm_package_name npm_lifecycle_event __proto__ constructor`
    const names = [...settingNames, ...ordinary.split(/\s+/)]
    expect(names.filter((name) => nearMiss(name, 'x') !== undefined)).toEqual([])
    expect(warningsOf({ LOGLEVEL: '', QUOTEGATE_PORT: undefined })).toEqual([])
    // Kubernetes sets these in every pod beside a service named "quotegate".
    expect(nearMiss('QUOTEGATE_PORT', 'tcp://10.0.0.1:8080')).toBeUndefined()
    expect(nearMiss('QUOTEGATE_SERVICE_HOST', '10.0.0.1')).toBeUndefined()
  })
})

describe('a name that is not a setting and begins as settings do', () => {
  const timeouts = settingNames.filter((name) => /^UPSTREAM_.*TIMEOUT_MS$/.test(name))

  test.each([
    ['STATE_DIR', 'Did you mean STATE_DIRECTORY?'],
    // The only one that begins so.
    ['STATE_FOLDER', 'Did you mean STATE_DIRECTORY?'],
    ['TRUSTED_PROXIES', 'Did you mean TRUST_PROXY?'],
    ['SWAP_API_URL', 'Did you mean SWAP_BASE_URL?'],
    ['ORDER_ID_FIELD', 'Did you mean ORDER_QUOTE_ID_FIELDS?'],
    ['order-margin-ms', 'Did you mean ORDER_EXPIRY_MARGIN_MS?'],
    ['QUOTEGATE_STATE_DIR', 'Did you mean STATE_DIRECTORY?'],
    // All upstreams have these in common.
    ['PAYMENTS_PROXY', 'Did you mean UPSTREAM_PROXY?'],
    [
      'SWAP_TIMEOUT_MS',
      `Did you mean ${timeouts.slice(0, -1).join(', ')} or ${timeouts.at(-1)}?`,
    ],
    // Without its beginning.
    ['EXPIRY_MARGIN_MS', 'Did you mean ORDER_EXPIRY_MARGIN_MS?'],
    ['LEDGER_SIZE', 'Did you mean LEDGER_ENTRIES?'],
    ['QUOTE_CACHE_TTL', 'Each quote is served until its own expiry'],
    ['cache-ttl-ms', 'Each quote is served until its own expiry'],
    ['SWAP_BASE_URL_FILE', 'Only secrets may be in files: ADMIN_TOKEN_FILE, '],
    // The file of a TLS key is not what a key to the API belongs into.
    ['SWAP_KEY', 'The settings that begin with SWAP_ are SWAP_BASE_URL, '],
  ])(
    'is pointed out with the one that was meant, or with all that it may mean: %s, %s',
    (name, text) => {
      expect(warnings(name)).toEqual([
        expect.stringContaining(`${name} is not a setting. ${text}`),
      ])
    },
  )

  test.each(ownBeginnings)('is found by %s', (beginning) => {
    const name = `${beginning}XYZZY`
    expect(warnings(name)).toEqual([
      expect.stringContaining(`${name} is not a setting. `),
    ])
  })

  test('is a warning by default, an error where it is asked for, and its value is never shown', () => {
    const given = { PAYMENTS_API_KEY: 'sk_live_1' }
    const said = [...warningsOf(given), errorOf(given, 'check')?.message]
    for (const text of said) expect(text).toContain('PAYMENTS_API_KEY is not a setting. ')
    expect(said.join()).not.toContain('sk_live_1')
  })

  test('is pointed out beside the setting that it means, too', () => {
    const both = { SWAP_URL: 'https://a.example', SWAP_BASE_URL: 'https://swap.example' }
    expect(warningsOf(both)).toEqual([
      'SWAP_URL is not a setting. Did you mean SWAP_BASE_URL?',
    ])
  })

  test.each(['SWAP', 'ADMIN_UI', 'QUOTEGATE_ADMIN_UI'])(
    'is not looked at if Kubernetes makes it of a Service: %s',
    (service) => {
      const links = {
        [`${service}_SERVICE_HOST`]: '10.0.0.1',
        [`${service}_SERVICE_PORT`]: '6379',
        [`${service}_SERVICE_PORT_HTTP_ALT`]: '6379',
        [`${service}_PORT`]: 'tcp://10.0.0.1:6379',
        [`${service}_PORT_6379_TCP_ADDR`]: '10.0.0.1',
      }
      expect(warningsOf(links, { by: 'check' })).toEqual([])
    },
  )

  test('but a number in VALKEY_PORT is', () =>
    expect(warnings('VALKEY_PORT', '6379').join()).toMatch(
      /^VALKEY_PORT is not a setting\. /,
    ))

  test.each([
    'APP_NAME',
    'APP_VERSION',
    'BASE_URL',
    'CACHE_ENTRIES',
    'KEY_PREFIX',
    'HEADERS_TIMEOUT_MS',
    'TRUSTSTORE_PASSWORD',
    'SWAPPINESS',
    'ORDERS_URL',
    'LOG_FILE',
    'CLIENT_ID',
    'NODE_PATH',
    'HOST_IP',
  ])('is not looked at if it is of another program: %s', (name) =>
    expect(warnings(name)).toEqual([]),
  )
})
