import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { settingTypes } from '../../scripts/setting-types.ts'
import { beforeProductionPage, settingsPage } from '../../scripts/settings-page.ts'
import { helpText, printConfig } from '../../src/config/help.ts'
import { loadConfig } from '../../src/config/load.ts'
import { settingNames } from '../../src/config/settings.ts'
import { errorOf, type Given } from './support.ts'

describe('texts about the settings', () => {
  test.each([
    ['docs/settings.md', settingsPage],
    ['docs/before-production.md', beforeProductionPage],
    ['src/gateway/settings.ts', settingTypes],
  ])('%s matches the settings (if not: npm run docs)', (path, generated) => {
    const text = readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
    expect(text, `${path} is out of date: run \`npm run docs\``).toBe(generated())
  })

  test('help and page name every setting once, and help fits into 100 columns', () => {
    for (const name of settingNames) {
      expect(helpText().match(new RegExp(`^  ${name} `, 'gm'))).toHaveLength(1)
      expect(settingsPage().match(new RegExp(`^\\| \`${name}\` \\|`, 'gm'))).toHaveLength(
        1,
      )
    }
    expect(helpText()).not.toMatch(/.{101}/)
  })

  test('the printed config shows each value in effect and its source', () => {
    const given = {
      HOST: '10.0.0.1',
      ACCESS_LOG: '0',
      SWAP_BASE_URL: 'https://x.example/',
    }
    const lines = printConfig(loadConfig(given)).split('\n')
    for (const line of [
      'HOST=10.0.0.1  (environment)',
      'ADMIN_HOST=10.0.0.1  (derived from HOST)',
      'PORT=8080  (default)',
      'ACCESS_LOG=off  (environment)',
      'SWAP_BASE_URL=https://x.example  (environment)',
      'PAYMENTS_BASE_URL=  (derived from SWAP_BASE_URL: none)',
      'SWAP_AUTHORIZATION=  (default: none)',
    ])
      expect(lines).toContain(line)
  })
})

describe('a secret', () => {
  test.each([
    ['SWAP_AUTHORIZATION', 'Bearer hunter2', '****'],
    [
      'VALKEY_URL',
      'rediss+sentinel://me:hunter2@a:1,b:2/quotes?sentinelPassword=hunter2',
      'rediss+sentinel://****@a:1,b:2/quotes?****',
    ],
    [
      'UPSTREAM_PROXY',
      'http://me:hunter2@proxy.example:3128',
      'http://****@proxy.example:3128',
    ],
  ])('is masked wherever %s is shown', (name, value, shown) => {
    const loaded = loadConfig({
      SWAP_BASE_URL: 'https://a',
      HOST: '0.0.0.0',
      [name]: value,
    })
    const printed = printConfig(loaded)
    expect(printed).toContain(`\n${name}=${shown}  (environment)\n`)
    expect(printed + loaded.warnings.join() + JSON.stringify(loaded.sources)).not.toMatch(
      /hunter2|me:/,
    )
  })

  test.each([
    ['redis://:hunter2', 'redis://:****'],
    ['redis://me:hunter2:6379', 'redis://me:****'],
    ['rediss://me:hunter2/0', 'rediss://me:****'],
    ['redis://store:6379/x', 'redis://store:6379/x'],
    ['redis://[::1]:6379/x', 'redis://[::1]:6379/x'],
  ])('is masked also in a URL without a host, and nothing else is: %s', (url, shown) => {
    expect(errorOf({ VALKEY_URL: url })?.message).toContain(
      `VALKEY_URL=${shown} - expected`,
    )
  })

  test.each<Given>([
    { SWAP_AUTHORIZATION: 'hunter2\nhunter2' },
    { SWAP_AUTHORISATION: 'hunter2' },
    // The secret itself, where the path of its file belongs.
    { SWAP_AUTHORIZATION_FILE: 'Bearer hunter2' },
    { ADMIN_TOKEN_FILE: '/hunter2+and+more==' },
    { VALKEY_URL_FILE: 'redis://:hunter2@a' },
    { SWAP_KEY_FILE: '-----BEGIN PRIVATE KEY-----\nhunter2', SWAP_CERT_FILE: '/' },
    { VALKEY_URL: 'redis://hunter2@a' },
    { VALKEY_URL: 'redis://:hunter2%@a' },
    { VALKEY_URL: 'redis://:hun/hunter2@a' },
    { VALKEY_URL: 'http://:hunter2@a:6379' },
    { UPSTREAM_PROXY: 'https://me:hunter2@proxy' },
    { UPSTREAM_PROXY: 'http://me:hunter2' },
    { UPSTREAM_PROXY: 'me:hunter2' },
    { UPSTREAM_PROXY: 'socks5://me:hunter2' },
    { UPSTREAM_PROXY: 'http://me:1/hunter2@proxy' },
    { UPSTREAM_PROXY: 'http://me:1#hunter2@proxy' },
    { SWAP_BASE_URL: 'user:hunter2@swap.example' },
    { PAYMENTS_BASE_URL: 'https://pay.example/?key=hunter2' },
    { WEBHOOKS_BASE_URL: 'https://u:a/hunter2\n@hooks.example#hunter2' },
  ])('is in no problem: %j', (given) => {
    const error = errorOf(given)
    expect(error).toBeDefined()
    expect(`${error?.message}${JSON.stringify(error?.problems)}`).not.toContain('hunter2')
  })
})
