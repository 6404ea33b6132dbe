import { describe, expect, test } from 'vitest'
import type { SharedStore } from '../../src/replicas/store.ts'
import { storeAt, valkey, valkeyCluster, valkeySentinels } from '../support/stores/valkey.ts'

async function expectToShare(store: SharedStore, other: SharedStore): Promise<void> {
  // Enough keys for every server of a Cluster to have some.
  for (let index = 0; index < 30; index++) {
    const key = `quotegate:key-${index}`
    await store.run('quote-set', (client) => client.set(key, `value-${index}`, 'PX', 60_000))
    expect(await other.run('quote-get', (client) => client.get(key))).toBe(`value-${index}`)
  }
  expect(await store.run('quote-get', (client) => client.get('quotegate:none'))).toBe(null)
}

describe('two replicas share what one store keeps', { tags: ['redis-server'] }, () => {
  test('a single server', async () => {
    const { url } = await valkey()
    await expectToShare(await storeAt(url), await storeAt(url))
  })

  test('a server with a password that no URL holds unescaped, in a database of its own', async () => {
    const server = await valkey({ password: 'p@ss:w/rd%' })
    await expectToShare(await storeAt(`${server.url}/3`), await storeAt(`${server.url}/3`))
    expect(await server.ask('DBSIZE')).toBe(0)
  })

  test('a Cluster of three', async () => {
    const { url, servers } = await valkeyCluster()
    await expectToShare(await storeAt(url), await storeAt(url))
    for (const server of servers) expect(await server.ask('DBSIZE')).toBeGreaterThan(0)
  })

  test('the master that Sentinels name, each side with a password of its own', async () => {
    const { url, master } = await valkeySentinels({ ofServers: 'one', ofSentinels: 'two' })
    await expectToShare(await storeAt(url), await storeAt(url))
    expect(await master.ask('DBSIZE')).toBeGreaterThan(0)
  })
})
