import { readFileSync } from 'node:fs'
import { describe, expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import type { SharedStore } from '../../src/memory/store.ts'
import { startSandbox } from '../../src/sandbox/sandbox.ts'
import { gatewayTo, pause, until } from '../support/gateways/between.ts'
import { startGatewayProcess } from '../support/gateways/gateway-process.ts'
import { eventually } from '../support/gateways/replicas.ts'
import { freePort } from '../support/machine/free-port.ts'
import { aQuote } from '../support/stores/a-quote.ts'
import { copyOf } from '../support/stores/copy-of.ts'
import { everyKindOfRequest } from '../support/stores/store-users.ts'
import {
  privateCertificate,
  storeAt,
  valkey,
  valkeyCluster,
  valkeySentinels,
} from '../support/stores/valkey.ts'
import { get, set, watched } from '../support/stores/watched-store.ts'

async function expectToShare(store: SharedStore, other: SharedStore): Promise<void> {
  for (let index = 0; index < 10; index += 1) {
    const key = `quotegate:key-${index}`
    await store.run('quote-set', (client) =>
      client.set(key, `value-${index}`, 'PX', 60_000),
    )
    expect(await other.run('quote-get', (client) => client.get(key))).toBe(
      `value-${index}`,
    )
  }
  expect(await store.run('quote-get', (client) => client.get('quotegate:none'))).toBe(
    null,
  )
}

/** The one that docs/operations.md recommends. */
function recommendedUser(): string[] {
  const page = readFileSync(new URL('../../docs/operations.md', import.meta.url), 'utf8')
  const [, command = ''] = /`ACL (SETUSER quotegate [^`]+)`/.exec(page) ?? []
  return command.split(' ')
}

const asUser = (url: string) => url.replace('//', '//quotegate:password@')

/** The near ends of this machine's connections to a port of it. */
function openConnectionsTo(port: number): string[] {
  const far = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  // 01: established (proc_pid_net(5)).
  const established = new RegExp(`^ *\\d+: (\\S+) \\S+${far} 01 `, 'gm')
  return [...readFileSync('/proc/net/tcp', 'utf8').matchAll(established)].map(
    ([, local = '']) => local,
  )
}

describe('replicas share', { tags: ['redis-server'] }, () => {
  test('a server with a password that no URL holds unescaped, in a database of its own', async () => {
    const server = await valkey({ password: 'p@ss:w/rd%' })
    await expectToShare(
      await storeAt(`${server.url}/3`),
      await storeAt(`${server.url}/3`),
    )
    expect(await server.ask('DBSIZE')).toBe(0)
  })

  test('all servers of a Cluster, where the recommended user may also ask which has which keys', async () => {
    const { url, servers } = await valkeyCluster()
    for (const server of servers)
      await server.ask('ACL', ...recommendedUser(), '+cluster|slots')
    const [here, there] = [await storeAt(asUser(url)), await storeAt(asUser(url))]
    for (let index = 0; index < 50; index += 1) {
      const key = `key ${index}`
      const [put, found] = [here, there].map((store) =>
        copyOf({ store, clock: systemClock, key }),
      )
      expect(await put?.put(aQuote({ id: key }))).toBe(true)
      expect(await found?.look()).toMatchObject({ quote: { id: key } })
    }
    for (const server of servers)
      expect(Number(await server.ask('DBSIZE'))).toBeGreaterThan(5)
  })

  test('the master that Sentinels name, with passwords on either side, and the next one when it dies', async () => {
    const { url, master, replica } = await valkeySentinels({
      ofServers: 'one',
      ofSentinels: 'two',
    })
    const { store } = await watched(url)
    await expectToShare(store, await storeAt(url))
    expect(await master.ask('DBSIZE')).toBeGreaterThan(0)
    await master.kill()
    await until(() => !store.up, 'a store that is down')
    await until(() => store.up, 'a new master', 25_000)
    await set(store)
    expect(await replica.ask('GET', 'quotegate:key')).toBe('1')
    expect(await get(store)).toBe('1')
  }, 60_000)

  test('a Cluster of which one is frozen: nothing waits for it twice, no connections pile up, and it is used again', async () => {
    const { url, servers } = await valkeyCluster()
    const { store, outcomes } = await watched(url)
    const [frozen] = servers
    frozen?.freeze()
    const keys = Array.from({ length: 50 }, (_, index) => `quotegate:key-${index}`)
    const askAll = () =>
      Promise.all(keys.map((key) => store.run('quote-get', (client) => client.get(key))))
    await askAll()
    expect(store.up).toBe(false)
    outcomes.length = 0
    await askAll()
    expect(new Set(outcomes)).toEqual(new Set(['skipped']))
    const port = frozen?.port ?? 0
    // Each of them is replaced after two or three seconds. Where they piled up, four of nine stayed open.
    const seen = new Set<string>()
    while (seen.size < 7) {
      for (const address of openConnectionsTo(port)) seen.add(address)
      await pause(50)
    }
    const counts: number[] = []
    for (let turn = 0; turn < 20; turn += 1) {
      counts.push(openConnectionsTo(port).length)
      await pause(100)
    }
    // One, but for the moment at which it is replaced.
    expect(Math.min(...counts)).toBeLessThanOrEqual(2)
    frozen?.thaw()
    // Its servers have to agree first that it is back.
    await eventually('a Cluster that is whole', async () =>
      (await askAll()).every((answer) => answer === null),
    )
  }, 90_000)

  test('a server with a certificate whose authority NODE_EXTRA_CA_CERTS names, and no other', {
    tags: ['openssl'],
  }, async () => {
    const tls = privateCertificate()
    const server = await valkey({ tls, password: 'secret' })
    const { store, complaints } = await watched(server.url, { mayBeDown: true })
    await until(() => complaints().length > 0, 'a line about it')
    expect(complaints()[0]).toMatch(
      /certificate of the store is not trusted \(set NODE_EXTRA_CA_CERTS/,
    )
    expect(store.up).toBe(false)
    const adminPort = String(await freePort())
    await startGatewayProcess({
      VALKEY_URL: server.url,
      NODE_EXTRA_CA_CERTS: tls.authority,
      ADMIN_PORT: adminPort,
      SWAP_BASE_URL: 'http://127.0.0.1:9',
    })
    await eventually('the store to be up', async () => {
      const answer = await fetch(`http://127.0.0.1:${adminPort}/status`)
      return ((await answer.json()) as { store: { up: boolean } }).store.up
    })
  })

  test('a server of which the recommended user may do all that a gateway does', async () => {
    const server = await valkey()
    await server.ask('ACL', ...recommendedUser())
    const sandbox = await startSandbox()
    onTestFinished(() => sandbox.close())
    const own = {
      VALKEY_URL: asUser(server.url),
      VALKEY_TIMEOUT_MS: 2_000,
      RATE_LIMIT_PER_MINUTE: 1_000,
    }
    const replicas = [
      await gatewayTo(sandbox.url, own),
      await gatewayTo(sandbox.url, own),
    ]
    let pages = ''
    for (const gateway of replicas) {
      await expect
        .poll(gateway.metrics, { timeout: 10_000 })
        .toMatch(/^quotegate_store_up 1$/m)
      expect((await everyKindOfRequest(gateway)).filter(({ good }) => !good)).toEqual([])
      pages += await gateway.metrics()
    }
    expect(await server.ask('ACL', 'LOG')).toEqual([])
    expect(pages).toMatch(/^quotegate_store_operations_total\{.*outcome="ok"\} [1-9]/m)
    expect(pages).not.toMatch(
      /^quotegate_store_operations_total\{.*outcome="failed"\} [1-9]/m,
    )
  })
})
