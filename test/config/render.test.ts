import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { settingsPage } from '../../scripts/settings-page.ts'
import { helpText, printConfig } from '../../src/config/help.ts'
import { loadConfig } from '../../src/config/load.ts'
import { SettingsError } from '../../src/config/problems.ts'
import { settingNames } from '../../src/config/settings.ts'

describe('texts about the settings', () => {
  test('docs/settings.md matches the settings (if not: npm run docs)', () => {
    const page = readFileSync(new URL('../../docs/settings.md', import.meta.url), 'utf8')
    expect(page, 'docs/settings.md is out of date: run `npm run docs`').toBe(settingsPage())
  })

  test('help and page name every setting once', () => {
    for (const name of settingNames) {
      expect(helpText('all').match(new RegExp(`^  ${name} `, 'gm'))).toHaveLength(1)
      expect(settingsPage().match(new RegExp(`^\\| \`${name}\` \\|`, 'gm'))).toHaveLength(1)
    }
  })

  test('help fits into 100 columns', () => {
    expect(
      helpText('all')
        .split('\n')
        .filter((line) => line.length > 100),
    ).toEqual([])
  })

  test('the printed config shows each value in effect and its source', () => {
    const lines = printConfig(
      loadConfig({ HOST: '10.0.0.1', ACCESS_LOG: '0', SWAP_BASE_URL: 'https://x.example/' }),
    )
    for (const line of [
      'HOST=10.0.0.1  (environment)',
      'ADMIN_HOST=10.0.0.1  (derived from HOST)',
      'PORT=8080  (default)',
      'ACCESS_LOG=off  (environment)',
      'SWAP_BASE_URL=https://x.example  (environment)',
      'PAYMENTS_BASE_URL=  (derived from SWAP_BASE_URL: none)',
      'SWAP_AUTHORIZATION=  (default: none)',
    ]) {
      expect(lines.split('\n')).toContain(line)
    }
  })

  test('secrets appear in no output', () => {
    const loaded = loadConfig({ SWAP_AUTHORIZATION: 'Bearer hunter2', HOST: '0.0.0.0' })
    expect(printConfig(loaded)).toContain('SWAP_AUTHORIZATION=****  (environment)')
    expect(printConfig(loaded) + loaded.warnings.join() + JSON.stringify(loaded.sources)).not.toContain(
      'hunter2',
    )
  })

  test.each([
    ['redis://:hunter2', 'redis://:****'],
    ['redis://me:hunter2:6379', 'redis://me:****'],
    ['rediss://me:hunter2/0', 'rediss://me:****'],
    ['redis://store:6379/x', 'redis://store:6379/x'],
    ['redis://[::1]:6379/x', 'redis://[::1]:6379/x'],
  ])('a password is masked also in a URL without a host: %s', (url, shown) => {
    expect(() => loadConfig({ VALKEY_URL: url })).toThrow(`VALKEY_URL=${shown} - expected`)
  })

  test('the store is shown without its passwords', () => {
    const { sources, config } = loadConfig({
      VALKEY_URL: 'rediss+sentinel://me:hunter2@a:1,b:2/quotes?sentinelPassword=hunter2',
    })
    expect(sources.VALKEY_URL.value).toBe('rediss+sentinel://****@a:1,b:2/quotes?****')
    expect(config.store?.url).toContain('hunter2')
  })

  test('the proxy is shown without its credentials', () => {
    const loaded = loadConfig({
      SWAP_BASE_URL: 'https://a',
      UPSTREAM_PROXY: 'http://me:hunter2@proxy.example:3128',
    })
    expect(loaded.sources.UPSTREAM_PROXY.value).toBe('http://****@proxy.example:3128')
    expect(printConfig(loaded) + loaded.warnings).not.toMatch(/hunter2|me:/)
  })

  test.each([
    { SWAP_AUTHORIZATION: 'hunter2\nhunter2' },
    { VALKEY_URL: 'redis://hunter2@a' },
    { VALKEY_URL: 'redis://:hunter2%@a' },
    { VALKEY_URL: 'redis://:hun/hunter2@a' },
    { VALKEY_URL: 'redis://:hunter2@a/x' },
    { VALKEY_URL: 'http://:hunter2@a:6379' },
    { SWAP_AUTHORIZATION: 'hunter2ä' },
    // The secret itself, where the path of its file belongs.
    { SWAP_AUTHORIZATION_FILE: 'Bearer hunter2' },
    { VALKEY_URL_FILE: 'redis://:hunter2@a' },
    { SWAP_KEY_FILE: '-----BEGIN PRIVATE KEY-----\nhunter2', SWAP_CERT_FILE: '/' },
    { UPSTREAM_PROXY: 'http://me:hunter2@proxy/path' },
    { UPSTREAM_PROXY: 'https://me:hunter2@proxy' },
    { UPSTREAM_PROXY: 'http://me:hunter2%@proxy' },
    { UPSTREAM_PROXY: 'http://me:hunter2' },
    { UPSTREAM_PROXY: 'me:hunter2' },
    { UPSTREAM_PROXY: 'socks5://me:hunter2' },
    { UPSTREAM_PROXY: 'http://me:1/hunter2@proxy' },
    { UPSTREAM_PROXY: 'http://me:1#hunter2@proxy' },
    { SWAP_AUTHORISATION: 'hunter2' },
    { SWAP_BASE_URL: 'https://user:hunter2@swap.example' },
    { SWAP_BASE_URL: 'user:hunter2@swap.example' },
    { PAYMENTS_BASE_URL: 'https://pay.example/?key=hunter2' },
    { WEBHOOKS_BASE_URL: 'https://u:a/hunter2\n@hooks.example#hunter2' },
  ])('secrets appear in no problem: %j', (given) => {
    try {
      loadConfig({ ...given })
      expect.unreachable()
    } catch (error) {
      if (!(error instanceof SettingsError)) throw error
      expect(error.message + JSON.stringify(error.problems)).not.toContain('hunter2')
    }
  })
})
