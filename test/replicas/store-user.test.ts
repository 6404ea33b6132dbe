import { readFileSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { startSandbox } from '../../src/sandbox/sandbox.ts'
import { pause, until } from '../support/gateways/between.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import { everyKindOfRequest } from '../support/stores/store-users.ts'
import { valkey, valkeyCluster } from '../support/stores/valkey.ts'
import { set, watched } from '../support/stores/watched-store.ts'

/** The one that docs/operations.md recommends. */
function recommendedUser(): string[] {
  const page = readFileSync(new URL('../../docs/operations.md', import.meta.url), 'utf8')
  const [, command = ''] = /`ACL (SETUSER quotegate [^`]+)`/.exec(page) ?? []
  return command.split(' ')
}

test('the user that docs/operations.md recommends may do all that a gateway does', {
  tags: ['redis-server'],
}, async () => {
  const server = await valkey()
  await server.ask('ACL', ...recommendedUser())
  const sandbox = await startSandbox()
  onTestFinished(() => sandbox.close())
  const url = server.url.replace('//', '//quotegate:password@')
  const replica = async () => {
    const gateway = await startGateway({
      SWAP_BASE_URL: sandbox.url,
      PAYMENTS_BASE_URL: sandbox.url,
      VALKEY_URL: url,
      VALKEY_TIMEOUT_MS: 2_000,
      RATE_LIMIT_PER_MINUTE: 1_000,
    })
    onTestFinished(() => gateway.close())
    return gateway
  }
  const replicas = [await replica(), await replica()]
  let pages = ''
  for (const gateway of replicas) {
    await expect.poll(gateway.metrics, { timeout: 10_000 }).toMatch(/^quotegate_store_up 1$/m)
    expect((await everyKindOfRequest(gateway)).filter(({ good }) => !good)).toEqual([])
    pages += await gateway.metrics()
  }
  expect(await server.ask('ACL', 'LOG')).toEqual([])
  const total = (outcome: string) =>
    [...pages.matchAll(/^quotegate_store_operations_total\{op="([\w-]+)",outcome="(\w+)"\} (\d+)$/gm)]
      .filter(([, , is]) => is === outcome)
      .reduce((sum, [, , , count]) => sum + Number(count), 0)
  expect(total('failed')).toBe(0)
  expect(total('failed')).toBe(0)
  expect(total('ok')).toBeGreaterThan(0)
})

test('a store whose user may run no scripts is down, and the log says why', {
  tags: ['redis-server'],
}, async () => {
  const server = await valkey()
  await server.ask('ACL', 'SETUSER', 'limited', 'on', '>password', '~*', '+@all', '-@scripting')
  const { store, complaints } = await watched(server.url.replace('//', '//limited:password@'), {
    mayBeDown: true,
  })
  await until(() => complaints().length > 0, 'a line about it')
  for (let looks = 0; looks < 15; looks += 1) {
    await pause(100)
    expect(store.up).toBe(false)
  }
  expect(complaints()).toEqual([expect.stringContaining('the user of VALKEY_URL may not do this (NOPERM')])
  await server.ask('ACL', 'SETUSER', 'limited', '+@all')
  await until(() => store.up, 'a store that is back', 10_000)
})

test('on a Cluster the user may also ask which server has which keys', {
  tags: ['redis-server'],
}, async () => {
  const { url, servers } = await valkeyCluster()
  for (const server of servers) await server.ask('ACL', ...recommendedUser(), '+cluster|slots')
  const { store } = await watched(url.replace('//', '//quotegate:password@'))
  expect(await set(store)).toBe('OK')
})
