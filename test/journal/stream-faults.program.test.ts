import { describe, expect, test } from 'vitest'
import { pause, until } from '../support/gateways/between.ts'
import { freePort } from '../support/machine/free-port.ts'
import {
  ids,
  type StreamReplica,
  streamKey,
  streamReplica,
  untilCaughtUp,
} from '../support/stores/stream-stage.ts'
import {
  moveSlot,
  type ValkeyServer,
  valkey,
  valkeyCluster,
} from '../support/stores/valkey.ts'
import { lineTo } from '../support/stores/watched-store.ts'

// What the journal makes of such faults, in any order: stream-schedules.test.ts. Here it is a server that has them.

async function stage(...urls: readonly string[]): Promise<StreamReplica[]> {
  const replicas = await Promise.all(urls.map((url) => streamReplica(url)))
  await untilCaughtUp(...replicas)
  return replicas
}

/** All of them have it, and so has one that starts now. */
async function expectToHave(
  url: string,
  replicas: readonly StreamReplica[],
  names: readonly string[],
) {
  await untilCaughtUp(...replicas)
  const later = await streamReplica(url)
  const all = [...replicas, later]
  await until(
    () => all.every((replica) => replica.knows(names)),
    'all records everywhere',
    20_000,
  )
  return later
}

/** Each replica notes one after the other until it is stopped. */
function noting(replicas: readonly StreamReplica[]) {
  const noted: string[] = []
  let isOver = false
  const all = replicas.map(async (replica, index) => {
    for (let turn = 0; !isOver; turn += 1) {
      const id = `${index}-${turn}`
      noted.push(id)
      await replica.note([id])
      await pause(5)
    }
  })
  return async () => {
    isOver = true
    await Promise.all(all)
    return noted
  }
}

describe('where the store', { tags: ['redis-server'] }, () => {
  test('is killed and back empty, every record is there again, also those of a replica that is gone', async () => {
    const server = await valkey()
    const [a, b, c] = (await stage(server.url, server.url, server.url)) as [
      StreamReplica,
      StreamReplica,
      StreamReplica,
    ]
    const early = ids('early', 1_500)
    await Promise.all([
      a.note(early.slice(0, 700)),
      b.note(early.slice(700, 1_200)),
      c.note(early.slice(1_200)),
    ])
    await a.use('early-3')
    await untilCaughtUp(a, b)
    await c.journal.close()
    await c.store.close()
    const stop = noting([a, b])
    await pause(200)
    await server.kill()
    await until(() => !a.store.up, 'the fault to be seen')
    expect(await a.journal.caughtUp()).toBe(false)
    // No caller waits for it.
    expect(a.journal.append({ kind: 'used', quote: { id: 'u', expiresAtMs: 1 } })).toBe(
      undefined,
    )
    await until(() => a.journal.facts.awaySinceMs !== undefined, 'the journal to be away')
    await server.restartEmpty()
    await pause(3_000)
    const noted = [...early, ...(await stop())]
    const later = await expectToHave(server.url, [a, b], noted)
    expect(later.reader.used.has('early-3')).toBe(true)
    expect(a.complaints()).toContainEqual(
      expect.stringContaining('the shared store has lost records'),
    )
    expect(a.journal.facts).toMatchObject({ waiting: 0, awaySinceMs: undefined })
    // Each of the two had to append the third one's, and did not both.
    expect(Number(await server.ask('XLEN', streamKey))).toBeLessThan(
      noted.length + 2 + 600 + 100,
    )
  })

  // A deadline of ioredis's own would reject what is in the socket, and may still arrive.
  test('is frozen, what is in the socket is not sent again; but a quote that lives, with what is left then', async () => {
    const server = await valkey()
    const [a, b] = [
      await streamReplica(server.url, { timeoutMs: 2_000 }),
      await streamReplica(server.url),
    ]
    await untilCaughtUp(a, b)
    server.freeze()
    const beganMs = performance.now()
    const late = Promise.all([
      ...ids('used', 3).map((id) => a.use(id)),
      a.note(['quote']),
    ])
    await until(() => !a.store.up, 'the fault to be seen')
    expect(await a.journal.caughtUp()).toBe(false)
    await late
    // Its caller has waited for VALKEY_TIMEOUT_MS.
    expect(performance.now() - beganMs).toBeGreaterThan(1_900)
    await a.use('used-3')
    server.thaw()
    await untilCaughtUp(a, b)
    const tookMs = performance.now() - beganMs
    const { refusedFromMs = Number.NaN } = b.reader.quotes.get('quote')?.quote ?? {}
    expect(refusedFromMs - Date.now()).toBeLessThanOrEqual(60_000 - tookMs + 300)
    // The first entry says nothing; four used; the quote twice.
    expect(await server.ask('XLEN', streamKey)).toBe(7)
  })

  test('has a server take over that lacks the last writes, they are appended again', async () => {
    const [old, next] = [await valkey(), await valkey()]
    await next.ask('REPLICAOF', '127.0.0.1', old.port)
    const lines = [await lineTo(old.port), await lineTo(old.port)]
    const [a, b] = (await stage(...lines.map(({ url }) => url))) as [
      StreamReplica,
      StreamReplica,
    ]
    await a.note(['before'])
    await pause(1_200)
    await next.ask('REPLICAOF', 'NO', 'ONE')
    await Promise.all([a.note(ids('lost-a', 30)), b.note(ids('lost-b', 30))])
    await untilCaughtUp(a, b)
    // More new ones than were lost, before the two have seen it: neither the last id nor the length shows a loss.
    const c = await streamReplica(next.url)
    await c.note(ids('new', 90))
    for (const line of lines) line.moveTo(next.port)
    await old.kill()
    await until(() => a.store.up && b.store.up, 'the new server', 20_000)
    const noted = [
      'before',
      ...ids('lost-a', 30),
      ...ids('lost-b', 30),
      ...ids('new', 90),
    ]
    await expectToHave(next.url, [a, b, c], noted)
  })

  test('cuts one replica off in a black hole, that one is not caught up, and catches up when it is back', async () => {
    const server = await valkey()
    const line = await lineTo(server.port)
    const replicas = await stage(line.url, server.url)
    const [a, b] = replicas as [StreamReplica, StreamReplica]
    const stop = noting(replicas)
    line.swallow()
    await until(() => !a.store.up, 'the fault to be seen')
    await untilCaughtUp(b)
    await until(() => a.store.up, 'a new connection', 20_000)
    expect(await a.journal.caughtUp()).toBe(false)
    await expectToHave(server.url, replicas, await stop())
  })

  test('is a Cluster that moves the stream to another server, nothing is lost', async () => {
    const { url, servers } = await valkeyCluster()
    const replicas = await stage(url, url)
    const stop = noting(replicas)
    await pause(200)
    const slot = Number(await servers[0]?.ask('CLUSTER', 'KEYSLOT', streamKey))
    await moveSlot(
      servers,
      slot,
      servers[Math.min(2, Math.floor(slot / 5_461.4))] as ValkeyServer,
    )
    await pause(300)
    await expectToHave(url, replicas, await stop())
    expect(
      replicas[0]?.complaints().filter((line) => line.includes('lost records')),
    ).toEqual([])
  })

  test.each([
    ['volatile-lru', 'the keys of orders'],
    ['volatile-lfu', 'the keys of orders'],
    ['volatile-random', 'the keys of orders'],
    ['allkeys-lru', 'the journal and the keys of orders'],
  ])('evicts by %s, a start warns once that it drops %s', async (policy, drops) => {
    const { url } = await valkey({ config: [`maxmemory-policy ${policy}`] })
    const here = await streamReplica(url)
    await untilCaughtUp(here)
    expect(here.complaints()).toEqual([
      `a full shared store drops ${drops}, so orders are sent twice (maxmemory-policy ${policy}): use volatile-ttl`,
    ])
  })

  test.each(['volatile-ttl', 'noeviction'])(
    'evicts by %s, nothing warns, and a reconnection warns of another policy',
    async (policy) => {
      const server = await valkey({ config: [`maxmemory-policy ${policy}`] })
      const here = await streamReplica(server.url)
      await untilCaughtUp(here)
      expect(here.complaints()).toEqual([])
      await server.ask('CONFIG', 'SET', 'maxmemory-policy', 'volatile-lru')
      const warned = () =>
        here.complaints().filter((line) => line.includes('use volatile-ttl')).length
      for (let connections = 1; connections <= 2; connections += 1) {
        await server.ask('CLIENT', 'KILL', 'TYPE', 'normal')
        await until(() => warned() === connections, 'the warning')
        await untilCaughtUp(here)
      }
      expect(warned()).toBe(2)
    },
  )

  test('is not there at the start, it holds up no start, and is used when it comes', async () => {
    const port = await freePort()
    const startedAtMs = performance.now()
    const here = await streamReplica(`redis://127.0.0.1:${port}`, { mayBeDown: true })
    expect(performance.now() - startedAtMs).toBeLessThan(5_000)
    await here.note(['early'])
    expect(here.journal.facts.waiting).toBe(1)
    const server = await valkey({ port })
    await expectToHave(server.url, [here], ['early'])
  })
})
