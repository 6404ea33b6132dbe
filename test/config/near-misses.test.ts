import { describe, expect, test } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import { nearMiss } from '../../src/config/names.ts'
import { SettingsError } from '../../src/config/problems.ts'
import { settingNames } from '../../src/config/settings.ts'
import { file } from './support.ts'

describe('names that are nearly right', () => {
  test.each([
    ['port', 'PORT'],
    ['LOGLEVEL', 'LOG_LEVEL'],
    ['LOG-LEVEL', 'LOG_LEVEL'],
    ['TRUST__PROXY', 'TRUST_PROXY'],
    ['Swap_Base_Url', 'SWAP_BASE_URL'],
    ['QUOTEGATE_PORT', 'PORT'],
    ['QUOTEGATE_SWAP_BASE_ULR', 'SWAP_BASE_URL'],
    ['SWAP_BASE_URI', 'SWAP_BASE_URL'],
    ['SWAP_AUTHORISATION', 'SWAP_AUTHORIZATION'],
    ['PAYMENT_BASE_URL', 'PAYMENTS_BASE_URL'],
    ['UPSTREAM_CONECTIONS', 'UPSTREAM_CONNECTIONS'],
  ])('%s points to %s', (written, meant) => {
    expect(nearMiss(written, 'x')).toBe(meant)
  })

  test.each([
    ['REDIS_URL', 'VALKEY_URL'],
    ['SWAP_URL', 'SWAP_BASE_URL'],
    ['PAYMENTS_URL', 'PAYMENTS_BASE_URL'],
    ['TRUST_PROXIES', 'TRUST_PROXY'],
    ['RATE_LIMIT_PER_MIN', 'RATE_LIMIT_PER_MINUTE'],
    ['UPSTREAM_TIMEOUT_MS', 'UPSTREAM_TOTAL_TIMEOUT_MS'],
    ['QUOTEGATE_REDIS_URL', 'VALKEY_URL'],
  ])('%s, a name of other programs, points to %s', (written, meant) => {
    expect(loadConfig({ [written]: 'x' }, { nearMisses: 'warn' }).warnings).toContain(
      `${written} is not a setting. Did you mean ${meant}?`,
    )
    expect(() => loadConfig({ [written]: 'x' })).toThrow(`Did you mean ${meant}?`)
  })

  test("a REDIS_URL beside VALKEY_URL, or beside its file, is another program's", () => {
    const others = { REDIS_URL: 'redis://cache' }
    expect(loadConfig({ ...others, VALKEY_URL: 'redis://store' }).warnings).toEqual([])
    expect(loadConfig({ ...others, VALKEY_URL_FILE: file('redis://store') }).warnings).toEqual([])
  })

  test('no setting is reported as a near-miss of another', () => {
    expect(settingNames.filter((name) => nearMiss(name, 'x') !== undefined)).toEqual([])
  })

  test('ordinary environment variables are not reported', () => {
    const ordinary = `_ APP_NAME APP_VERSION BASE_URL BASH CI COLORTERM COLUMNS DATABASE_URL DEBUG DISPLAY EDITOR
      FORCE_COLOR GIT_EDITOR GPG_TTY HOME HOSTNAME HOSTS HOSTTYPE HTTP_PROXY HTTPS_PROXY INIT_CWD IFS
      KUBERNETES_PORT KUBERNETES_SERVICE_HOST KUBERNETES_SERVICE_PORT LANG LANGUAGE LC_ALL LINES LOGNAME
      LS_COLORS MACHTYPE MAIL NODE NODE_EXTRA_CA_CERTS NODE_OPTIONS NODE_PATH NODE_VERSION NO_COLOR NO_PROXY
      NVM_DIR OLDPWD OSTYPE PATH PGHOST PGPORT PORTS POST PS1 PWD REDIS_HOST REDIS_PORT SHELL SHLVL
      SORT SSH_AUTH_SOCK SSH_CONNECTION SUDO_USER TEMP TERM TERM_PROGRAM TMP TMPDIR TZ USER USERNAME VIRTUAL_ENV
      VITEST VITEST_POOL_ID XDG_RUNTIME_DIR XPC_SERVICE_NAME YARN_VERSION http_proxy https_proxy no_proxy
      npm_config_loglevel npm_config_user_agent npm_package_name npm_lifecycle_event __proto__ constructor`
    expect(ordinary.split(/\s+/).filter((name) => nearMiss(name, 'x') !== undefined)).toEqual([])
  })

  // Kubernetes sets these in every pod beside a service named "quotegate".
  test('a service link of the same name is not reported', () => {
    expect(nearMiss('QUOTEGATE_PORT', 'tcp://10.0.0.1:8080')).toBeUndefined()
    expect(nearMiss('QUOTEGATE_SERVICE_HOST', '10.0.0.1')).toBeUndefined()
  })

  test("near-misses are warnings at startup, and errors in a library's settings", () => {
    const given = { SWAP_AUTHORISATION: 'Bearer hidden' }
    const { warnings } = loadConfig(given, { nearMisses: 'warn' })
    expect(warnings).toEqual(['SWAP_AUTHORISATION is not a setting. Did you mean SWAP_AUTHORIZATION?'])
    expect(() => loadConfig(given)).toThrow(SettingsError)
    expect(() => loadConfig(given)).toThrow(
      'SWAP_AUTHORISATION is not a setting. Did you mean SWAP_AUTHORIZATION?',
    )
  })

  test('an unset or empty one is ignored', () => {
    expect(loadConfig({ LOGLEVEL: '', QUOTEGATE_PORT: undefined }).warnings).toEqual([])
  })
})
