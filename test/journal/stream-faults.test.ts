import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
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
  valkeySentinels,
} from '../support/stores/valkey.ts'
import { lineTo } from '../support/stores/watched-store.ts'

/** What is in the stream, at a replica that starts now. */
async function expectToHave(url: string, names: readonly string[]): Promise<void> {
  const later = await streamReplica(url)
  await until(() => later.knows(names), 'all records at a replica that starts later', 20_000)
}

async function stage(url: string) {
  const [a, b, c] = await Promise.all([streamReplica(url), streamReplica(url), streamReplica(url)])
  await untilCaughtUp(a, b, c)
  return [a, b, c] as const
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

const emptied: [string, (server: ValkeyServer) => Promise<unknown>][] = [
  ['FLUSHALL', (server) => server.ask('FLUSHALL')],
  ['DEL of the stream', (server) => server.ask('DEL', streamKey)],
  ['a restart', (server) => server.restartEmpty()],
]

describe('the store was emptied', { tags: ['redis-server'] }, () => {
  test.each(emptied)(
    '(%s): every record is there again, also those of a replica that is gone',
    async (_how, empty) => {
      const server = await valkey()
      const [a, b, c] = await stage(server.url)
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
      await empty(server)
      expect(await a.journal.caughtUp()).toBe(false)
      await pause(3_000)
      const noted = [...early, ...(await stop())]
      await untilCaughtUp(a, b)
      expect([a, b].map((replica) => replica.knows(noted))).toEqual([true, true])
      const later = await streamReplica(server.url)
      await until(() => later.knows(noted), 'all of it', 20_000)
      expect(later.reader.used.has('early-3')).toBe(true)
      expect(a.complaints()).toContainEqual(expect.stringContaining('the shared store has lost records'))
      // Each of the two had to append the third one's, and did not both.
      expect(Number(await server.ask('XLEN', streamKey))).toBeLessThan(noted.length + 1 + 600 + 100)
    },
  )
})

describe('the store fails while replicas note', { tags: ['redis-server'] }, () => {
  test('and is killed: no record is lost, no client waits, and nothing is said to be caught up', async () => {
    const server = await valkey()
    const replicas = await stage(server.url)
    const stop = noting(replicas)
    await pause(200)
    await server.kill()
    await until(() => !replicas[0].store.up, 'the fault to be seen')
    expect(await replicas[0].journal.caughtUp()).toBe(false)
    expect(replicas[0].journal.append({ kind: 'used', quote: { id: 'u', expiresAtMs: 1 } })).toBe(undefined)
    await pause(500)
    expect(replicas[0].journal.facts.awaySinceMs).toBeGreaterThan(0)
    await server.restartEmpty()
    await pause(500)
    const noted = await stop()
    await untilCaughtUp(...replicas)
    expect(replicas.map((replica) => replica.knows(noted))).toEqual([true, true, true])
    await expectToHave(server.url, noted)
    expect(replicas[0].journal.facts).toMatchObject({ waiting: 0, awaySinceMs: undefined })
  })

  // A deadline of ioredis's own would reject what is in the socket, and may still arrive.
  test('and is frozen: what is in the socket is not sent a second time', async () => {
    const server = await valkey()
    const [a] = [await streamReplica(server.url, { timeoutMs: 2_000 }), await streamReplica(server.url)]
    await untilCaughtUp(a)
    server.freeze()
    await Promise.all(ids('used', 3).map((id) => a.use(id)))
    await until(() => !a.store.up, 'the fault to be seen')
    expect(await a.journal.caughtUp()).toBe(false)
    await a.use('used-3')
    server.thaw()
    await untilCaughtUp(a)
    // The first entry says nothing.
    expect(await server.ask('XLEN', streamKey)).toBe(5)
  })

  test('and is frozen: a quote that lives is said again where the answer was late, with what is left then', async () => {
    const server = await valkey()
    const [a, b] = [await streamReplica(server.url), await streamReplica(server.url)]
    await untilCaughtUp(a, b)
    server.freeze()
    const beganMs = performance.now()
    await a.note(['first'])
    expect(performance.now() - beganMs).toBeGreaterThan(400)
    await a.note(['second'])
    server.thaw()
    await untilCaughtUp(a, b)
    await expectToHave(server.url, ['first', 'second'])
    const leftMs = (id: string) => (b.reader.quotes.get(id)?.quote.refusedFromMs ?? Number.NaN) - Date.now()
    const tookMs = performance.now() - beganMs
    expect(leftMs('first')).toBeLessThanOrEqual(60_000 - tookMs + 300)
  })

  test.each([
    ['full', ['CONFIG', 'SET', 'maxmemory', '1'], ['CONFIG', 'SET', 'maxmemory', '0']],
    ['a replica', ['REPLICAOF', '127.0.0.1', '1'], ['REPLICAOF', 'NO', 'ONE']],
    [
      'without enough replicas',
      ['CONFIG', 'SET', 'min-replicas-to-write', '1'],
      ['CONFIG', 'SET', 'min-replicas-to-write', '0'],
    ],
  ])('and is %s: it is away, and has everything once it takes writes again', async (_what, breaks, mends) => {
    const server = await valkey()
    const replicas = await stage(server.url)
    const [a, b] = replicas
    await a.note(['before'])
    await server.ask(...breaks)
    await a.note(['first'])
    await until(() => !a.store.up, 'the fault to be seen')
    await Promise.all([a.note(ids('during', 20)), b.note(ids('there', 20))])
    expect(await a.journal.caughtUp()).toBe(false)
    await server.ask(...mends)
    await untilCaughtUp(...replicas)
    const noted = ['before', 'first', ...ids('during', 20), ...ids('there', 20)]
    expect(replicas.map((replica) => replica.knows(noted))).toEqual([true, true, true])
    await expectToHave(server.url, noted)
  })

  test('and cuts one replica off: it is not caught up, and catches up when it is back', async () => {
    const server = await valkey()
    const line = await lineTo(server.port)
    const [a, b] = [await streamReplica(line.url), await streamReplica(server.url)]
    await untilCaughtUp(a, b)
    const stop = noting([a, b])
    line.swallow()
    await until(() => !a.store.up, 'the fault to be seen')
    await untilCaughtUp(b)
    await until(() => a.store.up, 'a new connection', 20_000)
    expect(await a.journal.caughtUp()).toBe(false)
    const noted = await stop()
    await untilCaughtUp(a, b)
    expect([a, b].map((replica) => replica.knows(noted))).toEqual([true, true])
    await expectToHave(server.url, noted)
  })

  test('and a server takes over that lacks the last writes: they are appended again', async () => {
    const [old, next] = [await valkey(), await valkey()]
    await next.ask('REPLICAOF', '127.0.0.1', old.port)
    const lines = [await lineTo(old.port), await lineTo(old.port)]
    const [a, b] = await Promise.all(lines.map(({ url }) => streamReplica(url)))
    if (a === undefined || b === undefined) throw new RangeError('two')
    await untilCaughtUp(a, b)
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
    await untilCaughtUp(a, b)
    const noted = ['before', ...ids('lost-a', 30), ...ids('lost-b', 30), ...ids('new', 90)]
    await until(() => [a, b, c].every((replica) => replica.knows(noted)), 'all records everywhere', 20_000)
    await expectToHave(next.url, noted)
  })

  test('and Sentinels promote another server', async () => {
    const { url, master } = await valkeySentinels()
    const replicas = await stage(url)
    const stop = noting(replicas)
    await pause(300)
    await master.kill()
    await until(() => !replicas[0].store.up, 'the fault to be seen')
    await until(() => replicas.every(({ store }) => store.up), 'a new master', 40_000)
    const noted = await stop()
    await untilCaughtUp(...replicas)
    await until(() => replicas.every((replica) => replica.knows(noted)), 'all records everywhere', 20_000)
    await expectToHave(url, noted)
  }, 90_000)

  test('and its Cluster moves the stream to another server: nothing is lost', async () => {
    const { url, servers } = await valkeyCluster()
    const [a, b] = [await streamReplica(url), await streamReplica(url)]
    await untilCaughtUp(a, b)
    const stop = noting([a, b])
    await pause(200)
    const slot = Number(await servers[0]?.ask('CLUSTER', 'KEYSLOT', streamKey))
    const from = servers[Math.min(2, Math.floor(slot / 5_461.4))] as ValkeyServer
    await moveSlot(servers, slot, from)
    await pause(300)
    const noted = await stop()
    await untilCaughtUp(a, b)
    expect([a, b].map((replica) => replica.knows(noted))).toEqual([true, true])
    await expectToHave(url, noted)
    expect(a.complaints().filter((line) => line.includes('lost records'))).toEqual([])
  }, 90_000)
})

test('a replica that was trimmed past is careful for as long as quotes live', {
  tags: ['redis-server'],
}, async () => {
  const server = await valkey()
  const line = await lineTo(server.port)
  const [a, b] = [
    await streamReplica(line.url, { maxEntries: 40 }),
    await streamReplica(server.url, { maxEntries: 40, timeoutMs: 5_000 }),
  ]
  a.reader.longestLifeMs = 6_000
  await untilCaughtUp(a, b)
  line.swallow()
  await until(() => !a.store.up, 'the fault to be seen')
  await b.note(ids('quote', 2_000))
  await until(() => a.store.up, 'a new connection', 20_000)
  const backAtMs = performance.now()
  await untilCaughtUp(a)
  expect(performance.now() - backAtMs).toBeGreaterThan(4_000)
  expect(a.knows(['quote-1999'])).toBe(true)
})

describe('a server that cannot hold a journal', () => {
  /** Says that it is this version, and takes every command. */
  async function serverOf(version: string): Promise<string> {
    const server = createServer((socket) => {
      socket.on('error', () => {})
      socket.on('data', (bytes) => {
        for (const [, name = ''] of bytes
          .toString('latin1')
          .matchAll(/\r\n(eval|info|xinfo|xread|xadd|set|time)\r\n/gi)) {
          const info = `redis_version:${version}\r\nmaxmemory_policy:noeviction\r\n`
          if (/^info$/i.test(name)) socket.write(`$${info.length}\r\n${info}\r\n`)
          else if (/^xinfo$/i.test(name))
            socket.write('*4\r\n+length\r\n:1\r\n+last-generated-id\r\n+1-0\r\n')
          else if (/^xread$/i.test(name)) socket.write('*-1\r\n')
          else if (/^time$/i.test(name)) socket.write('*2\r\n:1\r\n:1\r\n')
          else socket.write('+OK\r\n')
        }
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    return `redis://127.0.0.1:${(server.address() as AddressInfo).port}`
  }

  test('because it does not count its entries, ends the start with its version', async () => {
    await expect(streamReplica(await serverOf('6.2.14'))).rejects.toThrow(
      /Valkey, or Redis 7 or later: it is Redis 6\.2\.14/,
    )
    await expect(streamReplica(await serverOf('7.0.0-fork'))).rejects.toThrow(/do not count their entries/)
  })

  test('because it may evict the journal, gets one warning', { tags: ['redis-server'] }, async () => {
    const { url } = await valkey({ config: ['maxmemory 100mb', 'maxmemory-policy allkeys-lru'] })
    const here = await streamReplica(url)
    await pause(300)
    expect(here.complaints()).toEqual([
      expect.stringContaining('may evict the journal of the replicas (maxmemory-policy allkeys-lru)'),
    ])
  })
})

test('a store that is not there at the start holds up no start, and is used when it comes', {
  tags: ['redis-server'],
}, async () => {
  const port = await freePort()
  const startedAtMs = performance.now()
  const here = await streamReplica(`redis://127.0.0.1:${port}`, { mayBeDown: true })
  expect(performance.now() - startedAtMs).toBeLessThan(5_000)
  await here.note(['early'])
  expect(here.journal.facts.waiting).toBe(1)
  const server = await valkey({ port })
  await untilCaughtUp(here)
  await expectToHave(server.url, ['early'])
})
