import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { pause, until } from '../support/gateways/between.ts'
import { valkeyCluster, valkeySentinels } from '../support/stores/valkey.ts'
import { get, set, watched } from '../support/stores/watched-store.ts'

/** The near ends of this machine's connections to a port of it. */
function openConnectionsTo(port: number): string[] {
  const far = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const lines = readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
  // 01: established (proc_pid_net(5)).
  return lines
    .filter(([, , remote = '', state]) => remote.endsWith(far) && state === '01')
    .map(([, local = '']) => local)
}

describe('of several servers', { tags: ['redis-server'] }, () => {
  test('one of a Cluster is frozen: nothing waits for it more than once, and it is used again afterwards', async () => {
    const { url, servers } = await valkeyCluster()
    const { store, outcomes } = await watched(url)
    const [frozen] = servers
    frozen?.freeze()
    for (let index = 0; index < 50; index++) {
      await store.run('quote-get', (client) => client.get(`quotegate:key-${index}`))
    }
    expect(store.up).toBe(false)
    expect(outcomes.filter((outcome) => outcome === 'timeout').length).toBeLessThanOrEqual(1)
    frozen?.thaw()
    await until(() => store.up, 'a Cluster that is whole', 10_000)
    for (let index = 0; index < 50; index++) {
      expect(await store.run('quote-get', (client) => client.get(`quotegate:key-${index}`))).toBe(null)
    }
  })

  test('one of a Cluster stays frozen: connections to it do not pile up', async () => {
    const { url, servers } = await valkeyCluster()
    const { store } = await watched(url, { timeoutMs: 50, mayBeDown: true })
    await until(() => store.up, 'a Cluster that is up')
    const [frozen] = servers
    frozen?.freeze()
    const port = frozen?.port ?? 0
    // Each of them is replaced after two or three seconds. Where they piled up, four of nine stayed open.
    const seen = new Set<string>()
    while (seen.size < 9) {
      for (const address of openConnectionsTo(port)) seen.add(address)
      await pause(50)
    }
    const counts: number[] = []
    for (let turn = 0; turn < 20; turn++) {
      counts.push(openConnectionsTo(port).length)
      await pause(100)
    }
    // One, but for the moment at which it is replaced.
    expect(Math.min(...counts)).toBeLessThanOrEqual(2)
  }, 90_000)

  test('the master dies: the master that the Sentinels name next is used', async () => {
    const { url, master, replica } = await valkeySentinels()
    const { store } = await watched(url)
    await set(store)
    await master.kill()
    await until(() => !store.up, 'a store that is down')
    await until(() => store.up, 'a new master', 25_000)
    await set(store)
    expect(await replica.ask('GET', 'quotegate:key')).toBe('1')
    expect(await get(store)).toBe('1')
  }, 60_000)
})
