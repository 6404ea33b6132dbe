import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import { blocksOf } from '../readme/commands.ts'
import { environmentOf } from '../support/deploy/compose.ts'
import { imageEnv, repository } from '../support/deploy/dockerfile.ts'

const read = (path: string) => readFileSync(join(repository, path), 'utf8')

// Without CLIENT_IP_HEADER, and with HOST on loopback, a start warns.
test.each([
  ['README.md', {}, '127.0.0.1'],
  ['docs/operations.md', {}, undefined],
  ['docs/containers.md', imageEnv(), undefined],
])(
  'the command of %s names the proxies and their header, and gives no warning',
  (path, beside, adminHost) => {
    const [command = '', ...more] = blocksOf(read(path))
      .map(({ text }) => text)
      .filter((text) => text.includes('TRUST_PROXY='))
    expect(more).toEqual([])
    const pairs = [...command.matchAll(/\b([A-Z_]+)=(\S+)/g)].map(([, name, value]) => [
      name,
      value?.replace('$PWD', '/srv/quotegate'),
    ])
    const { config, warnings } = loadConfig({ ...beside, ...Object.fromEntries(pairs) })
    expect([config.client.ipHeader, warnings]).toEqual(['x-forwarded-for', []])
    expect(config.traffic.host).toBe('0.0.0.0')
    // A newcomer's command opens the traffic listener alone to other machines.
    if (adminHost !== undefined) expect(config.admin.host).toBe(adminHost)
  },
)

test('compose.yaml names the header that its own comment sends', () => {
  const { TRUST_PROXY, CLIENT_IP_HEADER } = environmentOf('quotegate')
  expect([TRUST_PROXY, CLIENT_IP_HEADER]).toEqual(['uniquelocal', 'forwarded'])
  expect(read('compose.yaml')).toContain(
    'for=203.0.113.7 is a client in a restricted place',
  )
})
