import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import { blocksOf } from '../readme/commands.ts'
import { environmentOf } from '../support/deploy/compose.ts'
import { imageEnv } from '../support/deploy/dockerfile.ts'

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

/** Of the one command of the page that names the trusted proxies. */
function settingsIn(path: string): Record<string, string> {
  const [command = '', ...more] = blocksOf(read(path))
    .map(({ text }) => text)
    .filter((text) => text.includes('TRUST_PROXY='))
  expect(more).toEqual([])
  return Object.fromEntries(
    [...command.matchAll(/\b([A-Z_]+)=(\S+)/g)].map(([, name, value]) => [name, value]),
  )
}

// Without CLIENT_IP_HEADER, and with HOST on loopback, a start warns.
test.each([
  ['README.md', {}],
  ['docs/operations.md', {}],
  ['docs/containers.md', imageEnv()],
])('the command of %s names the proxies and their header, and gives no warning', (path, beside) => {
  const settings = settingsIn(path)
  const { config, warnings } = loadConfig({ ...beside, ...settings })
  expect([settings.CLIENT_IP_HEADER, warnings]).toEqual(['x-forwarded-for', []])
  expect(config.traffic.host).toBe('0.0.0.0')
})

test('the command of the README opens the traffic listener alone to other machines', () => {
  expect(loadConfig(settingsIn('README.md')).config.admin.host).toBe('127.0.0.1')
})

test('compose.yaml names the header that its own comment sends', () => {
  const { TRUST_PROXY, CLIENT_IP_HEADER } = environmentOf('quotegate')
  expect([TRUST_PROXY, CLIENT_IP_HEADER]).toEqual(['uniquelocal', 'forwarded'])
  expect(read('compose.yaml')).toContain('for=203.0.113.7 is a client in a restricted place')
})
