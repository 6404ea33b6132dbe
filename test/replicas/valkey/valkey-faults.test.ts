import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { SharedStore, StoreOutcome } from '../../../src/replicas/store.ts'
import { pause, until } from '../../support/gateways/between.ts'
import { freePort } from '../../support/machine/free-port.ts'
import { keptLog, levels } from '../../support/observing/log-lines.ts'
import { type StoreLine, startStoreLine } from '../../support/stores/store-line.ts'
import {
  privateCertificate,
  storeAt,
  valkey,
  valkeyCluster,
  valkeyIsInstalled,
  valkeySentinels,
} from '../../support/stores/valkey.ts'

const get = (store: SharedStore) => store.run('quote-get', (client) => client.get('quotegate:key'))
const set = (store: SharedStore) => store.run('quote-set', (client) => client.set('quotegate:key', '1'))

/** A store with what it tells its observer and its log. */
async function watched(url: string, options: { timeoutMs?: number; mayBeDown?: boolean } = {}) {
  const log = await keptLog('info')
  const outcomes: StoreOutcome[] = []
  const observer = { operationEnded: (_: unknown, outcome: StoreOutcome) => outcomes.push(outcome) }
  const store = await storeAt(url, { timeoutMs: 500, ...options, log: log.logger, observer })
  return { store, outcomes, log, complaints: () => log.lines(levels.warn).map(({ msg }) => msg) }
}

/** Of this machine. */
function openConnectionsTo(port: number): number {
  const far = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const lines = readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
  // 01: established (proc_pid_net(5)).
  return lines.filter(([, , remote = '', state]) => remote.endsWith(far) && state === '01').length
}

async function lineTo(port: number): Promise<StoreLine> {
  const line = await startStoreLine(port)
  onTestFinished(() => line.end())
  return line
}

describe.skipIf(!valkeyIsInstalled())('a store that', () => {
  test('is killed fails nothing, is not asked while it is away, and is shared again when it is back', async () => {
    const server = await valkey()
    const { store, outcomes, complaints, log } = await watched(server.url)
    await set(store)
    await server.kill()
    await until(() => !store.up, 'a store that is down, though nobody asks it')
    outcomes.length = 0
    expect(await Promise.all([get(store), get(store)])).toEqual([undefined, undefined])
    expect(outcomes).toEqual(['skipped', 'skipped'])
    await server.restartEmpty()
    await until(() => store.up, 'a store that is back', 10_000)
    expect(await get(store)).toBe(null)
    const [first, ...further] = complaints()
    expect(first).toMatch(/shared store is down.*(connection|nothing listens)/)
    expect(further.every((line) => line.startsWith('the shared store is still down: '))).toBe(true)
    expect(new Set(further).size).toBe(further.length)
    await until(() => log.text().includes('is back'), 'a line that says so')
  })

  // The connection breaks first, whatever is the matter: on call one needs to know what keeps the store down.
  test('stays down for another reason than it went: the log names that one too, once', async () => {
    const server = await valkey()
    const { store, complaints } = await watched(server.url)
    await set(store)
    // On one line: a second one would be asked for the password.
    const operator = connect(server.port, '127.0.0.1')
    onTestFinished(() => void operator.destroy())
    operator.write('CONFIG SET requirepass secret\r\nCLIENT KILL TYPE normal\r\n')
    await until(() => complaints().some((line) => line.includes('wants a password')), 'the reason', 10_000)
    await pause(2_500)
    expect(complaints().filter((line) => line.includes('wants a password'))).toHaveLength(1)
    expect(store.up).toBe(false)
  })

  test('is frozen holds up one call, and only that long; none while it stays frozen', async () => {
    const server = await valkey()
    const { store, outcomes, complaints } = await watched(server.url)
    await set(store)
    outcomes.length = 0
    server.freeze()
    const together = await Promise.all([get(store), get(store), get(store)])
    expect(together).toEqual([undefined, undefined, undefined])
    expect(outcomes.filter((outcome) => outcome === 'timeout').length).toBeGreaterThan(0)
    expect(outcomes).not.toContain('failed')
    expect(store.up).toBe(false)
    // Long enough for several probes, and for the connection to be doubted.
    const skippedFrom = outcomes.length
    for (let turn = 0; turn < 40; turn++) {
      expect(await get(store)).toBe(undefined)
      await pause(100)
    }
    expect(new Set(outcomes.slice(skippedFrom))).toEqual(new Set(['skipped']))
    server.thaw()
    await until(() => store.up, 'a store that has thawed', 10_000)
    expect(await get(store)).toBe('1')
    expect(complaints()).toEqual([expect.stringContaining('no answer within 500 ms (VALKEY_TIMEOUT_MS)')])
  })

  // A new connection waits for its password to be taken, and what is said when it is given up is the client's own.
  test('is frozen and wants a password is down for that one reason, however many connections are tried', async () => {
    const server = await valkey({ password: 'secret' })
    const { store, complaints } = await watched(server.url, { timeoutMs: 50 })
    await set(store)
    server.freeze()
    await until(() => !store.up, 'a store that is down')
    await pause(7_000)
    server.thaw()
    await until(() => store.up, 'a store that has thawed', 10_000)
    expect(complaints()).toEqual([expect.stringContaining('no answer within 50 ms (VALKEY_TIMEOUT_MS)')])
  })

  test('is too slow is left alone until it is fast again', async () => {
    const line = await lineTo((await valkey()).port)
    const { store, outcomes } = await watched(line.url)
    expect(await set(store)).toBe('OK')
    line.delayMs = 1_500
    expect(await get(store)).toBe(undefined)
    expect(outcomes).toEqual(['ok', 'timeout'])
    await pause(2_500)
    expect(store.up).toBe(false)
    line.delayMs = 0
    await until(() => store.up, 'a store that is fast again', 10_000)
    expect(await get(store)).toBe('1')
  })

  test('stalls for a moment is shared again as soon as it answers', async () => {
    const server = await valkey({ config: ['enable-debug-command yes'] })
    const { store, outcomes } = await watched(server.url)
    await set(store)
    const stall = server.ask('DEBUG', 'SLEEP', '1.2')
    while (store.up) await get(store)
    expect(await stall).toBe('OK')
    expect(outcomes.filter((outcome) => outcome === 'timeout')).toHaveLength(1)
    await until(() => store.up, 'a store that is awake', 10_000)
    expect(await get(store)).toBe('1')
  })

  test('answered while this process was busy is not blamed for that', async () => {
    const { store } = await watched((await valkey()).url)
    await set(store)
    const asked = get(store)
    const untilMs = performance.now() + 1_200
    while (performance.now() < untilMs);
    expect(await asked).toBe('1')
    expect(store.up).toBe(true)
  })

  // A length that no list can have; lists without a name, which only a connection that listens takes amiss.
  test.each(['*99999999999\r\n', '*0\r\n', '*2\r\n$-1\r\n$0\r\n\r\n'])(
    'says %j, which is no answer, ends nothing, and is asked over a new connection',
    async (bytes) => {
      const line = await lineTo((await valkey()).port)
      const { store } = await watched(line.url)
      let gaps = 0
      store.subscribe('quotegate:news', { onMessage() {}, onGap: () => (gaps += 1) })
      await until(() => gaps === 1, 'a subscription')
      // An error that nobody catches fails the run.
      line.say(bytes)
      await until(() => gaps === 2 && store.up, 'new connections', 10_000)
      expect(await set(store)).toBe('OK')
    },
  )

  test('moved behind a connection that leads nowhere any more is found over a new one', async () => {
    const line = await lineTo((await valkey()).port)
    const { store } = await watched(line.url)
    await set(store)
    line.swallow()
    await until(() => !store.up, 'a store that is down')
    await until(() => store.up, 'a store that is found again', 10_000)
    expect(await get(store)).toBe('1')
  })

  test('is not there at the start is taken in as soon as it is', async () => {
    const port = await freePort()
    const { store, complaints } = await watched(`redis://127.0.0.1:${port}`, { mayBeDown: true })
    expect(store.up).toBe(false)
    expect(await get(store)).toBe(undefined)
    await until(() => complaints().length > 0, 'a line about it')
    await pause(1_500)
    expect(complaints()).toEqual([expect.stringContaining('nothing listens there')])
    await valkey({ port })
    await until(() => store.up, 'a store that has come', 10_000)
    expect(await set(store)).toBe('OK')
  })

  test('is frozen at the start is taken in when it thaws', async () => {
    const server = await valkey()
    server.freeze()
    const { store, complaints } = await watched(server.url, { mayBeDown: true })
    await until(() => complaints().length > 0, 'a line about it')
    server.thaw()
    await until(() => store.up, 'a store that has thawed', 10_000)
    expect(complaints()).toEqual([expect.stringContaining('no answer within')])
  })

  test.each([
    ['no password', (url: string) => url.replace(/:[^/]*@/, ''), /wants a password, and VALKEY_URL has none/],
    ['a wrong one', (url: string) => url.replace('hunter2', 'hunter3'), /refuses the user or the password/],
  ])('is given %s is down, and the log says why, once and without it', async (_, changed, reason) => {
    const server = await valkey({ password: 'hunter2' })
    const { store, log, complaints } = await watched(changed(server.url), { mayBeDown: true })
    await until(() => complaints().length > 0, 'a line about it')
    await pause(1_500)
    expect(complaints()).toEqual([expect.stringMatching(reason)])
    expect(store.up).toBe(false)
    expect(log.text()).not.toMatch(/hunter/)
  })

  test('cuts a connection that was held for a while is asked again without a pause', async () => {
    const server = await valkey()
    const { store } = await watched(server.url)
    const pausesMs: number[] = []
    // The shortest of several, on a machine that has other work; whoever paused would never be that quick.
    for (let cuts = 1; cuts <= 4; cuts += 1) {
      await pause(1_000)
      await until(() => store.up, 'the store', 10_000)
      const cutAtMs = performance.now()
      await server.ask('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
      // To see the cut; it may be over by then.
      await pause(50)
      await until(() => store.up, 'the store to be back', 10_000)
      pausesMs.push(performance.now() - cutAtMs)
    }
    expect(Math.min(...pausesMs)).toBeLessThan(450)
  })

  test('has no such database is down: number 0 may be that of another stage', async () => {
    const server = await valkey({ config: ['databases 2'] })
    const { store, complaints } = await watched(`${server.url}/2`, { mayBeDown: true })
    await until(() => complaints().length > 0, 'a line about it')
    for (let looks = 0; looks < 15; looks += 1) {
      await pause(100)
      expect(store.up).toBe(false)
    }
    expect(complaints()).toEqual([expect.stringContaining('has no such database')])
    const { store: other } = await watched(`${server.url}/1`)
    await set(other)
    expect(await server.ask('EXISTS', 'quotegate:key')).toBe(0)
  })

  test('became a replica is down for writes and reads alike, and back when it is a master again', async () => {
    const server = await valkey()
    const { store, complaints } = await watched(server.url)
    await set(store)
    await server.ask('REPLICAOF', '127.0.0.1', await freePort())
    await until(() => !store.up, 'a store that may not be written')
    await pause(1_500)
    expect(store.up).toBe(false)
    expect(await get(store)).toBe(undefined)
    await server.ask('REPLICAOF', 'NO', 'ONE')
    await until(() => store.up, 'a store that may be written again', 10_000)
    expect(complaints()).toEqual([expect.stringContaining('a replica that takes no writes')])
  })

  test('has no memory left is down, and the log says why', async () => {
    const server = await valkey()
    const { store, complaints } = await watched(server.url)
    await server.ask('CONFIG', 'SET', 'maxmemory', '1')
    await until(() => !store.up, 'a store that is full')
    expect(complaints()).toEqual([expect.stringMatching(/takes no writes \(OOM/)])
    await server.ask('CONFIG', 'SET', 'maxmemory', '0')
    await until(() => store.up, 'a store that has room', 10_000)
  })

  test('refuses one odd command now and then stays up', async () => {
    const { store, outcomes } = await watched((await valkey()).url)
    await set(store)
    for (let turn = 0; turn < 20; turn++) {
      await store.run('rate-limit', (client) => client.lpush('quotegate:key', 'no list'))
      for (let good = 0; good < 9; good++) await get(store)
    }
    expect(outcomes.filter((outcome) => outcome === 'failed')).toHaveLength(20)
    expect(outcomes).not.toContain('skipped')
    expect(store.up).toBe(true)
  })

  test('refuses every command of ours is left alone', async () => {
    const { store, outcomes } = await watched((await valkey()).url)
    await set(store)
    for (let turn = 0; turn < 20; turn++) {
      await store.run('rate-limit', (client) => client.lpush('quotegate:key', 'no list'))
    }
    expect(outcomes).toContain('skipped')
  })

  test('answers to TLS with a certificate of nobody we know is down, and the log says what to do', async () => {
    const server = await valkey({ tls: privateCertificate() })
    const { store, complaints } = await watched(server.url, { mayBeDown: true })
    await until(() => complaints().length > 0, 'a line about it')
    expect(complaints()[0]).toMatch(/certificate is not trusted \(NODE_EXTRA_CA_CERTS/)
    expect(store.up).toBe(false)
  })

  test('is closed while it is frozen does not hold up the end', async () => {
    const server = await valkey()
    const { store } = await watched(server.url)
    store.subscribe('quotegate:news', { onMessage() {}, onGap() {} })
    server.freeze()
    const asked = get(store)
    await store.close()
    expect(await asked).toBe(undefined)
  })
})

describe.skipIf(!valkeyIsInstalled())('the messages of', () => {
  async function listening(url: string) {
    const { store, complaints } = await watched(url, { timeoutMs: 1_000 })
    const heard: string[] = []
    const state = { store, complaints, heard, gaps: 0 }
    store.subscribe('quotegate:news', {
      onMessage: (message) => heard.push(message),
      onGap: () => {
        state.gaps += 1
      },
    })
    await until(() => state.gaps === 1, 'a subscription')
    return state
  }
  const publish = (store: SharedStore, message: string) =>
    store.run('quote-forget', (client) => client.publish('quotegate:news', message))

  test('a store that is restarted come again, after word of the gap', async () => {
    const server = await valkey()
    const state = await listening(server.url)
    await server.restartEmpty()
    await until(() => state.gaps === 2 && state.store.up, 'a new subscription', 10_000)
    await publish(state.store, 'after')
    await until(() => state.heard.length === 1, 'the message')
    expect(state.heard).toEqual(['after'])
  })

  test('a connection that was cut alone come again, after word of the gap', async () => {
    const server = await valkey()
    const state = await listening(server.url)
    await server.ask('CLIENT', 'KILL', 'TYPE', 'pubsub')
    await until(() => state.gaps === 2, 'a new subscription', 10_000)
    expect(state.store.up).toBe(true)
    await publish(state.store, 'after')
    await until(() => state.heard.length === 1, 'the message')
  })

  test('a connection that had been heard for a while and was cut come again without a pause', async () => {
    const server = await valkey()
    const state = await listening(server.url)
    const pausesMs: number[] = []
    // The shortest of several, on a machine that has other work; whoever paused would never be that quick.
    for (let cuts = 1; cuts <= 4; cuts += 1) {
      await pause(1_000)
      const cutAtMs = performance.now()
      await server.ask('CLIENT', 'KILL', 'TYPE', 'pubsub')
      await until(() => state.gaps === cuts + 1, 'a new subscription', 10_000)
      pausesMs.push(performance.now() - cutAtMs)
    }
    expect(Math.min(...pausesMs)).toBeLessThan(450)
  })

  // With a database the server's word is the answer to SELECT, and the listener hears of a closed connection only.
  test.each(['', '/1'])(
    'a connection that the server has no room for (%j): the store is down until there is room',
    async (database) => {
      const server = await valkey()
      const { store } = await listening(`${server.url}${database}`)
      // Its connection lets us make room again.
      const other = await storeAt(server.url)
      const ask = (...[name, ...words]: [string, ...string[]]) =>
        other.run('quote-get', (client) => client.call(name, ...words))
      await ask('CONFIG', 'SET', 'maxclients', '1')
      await ask('CLIENT', 'KILL', 'TYPE', 'pubsub')
      await until(() => !store.up, 'the store to be down')
      for (let looks = 0; looks < 15; looks += 1) {
        await pause(100)
        expect(store.up).toBe(false)
      }
      await ask('CONFIG', 'SET', 'maxclients', '1000')
      await until(() => store.up, 'a store that is back', 10_000)
    },
  )

  test.each([
    ['the old one takes no writes any more', ['REPLICAOF', '127.0.0.1', '1']],
    ['the old one cut those that listen', ['CLIENT', 'KILL', 'TYPE', 'pubsub']],
  ])(
    'a store whose name leads to a new server (%s) and one connection stays: it is down until both are there',
    async (_, moved) => {
      const [old, next] = [await valkey(), await valkey()]
      const line = await lineTo(old.port)
      const state = await listening(line.url)
      line.moveTo(next.port)
      await old.ask(...moved)
      await until(
        () => state.complaints().some((said) => /another server/.test(`${said}`)),
        'the doubt',
        10_000,
      )
      expect(state.store.up).toBe(false)
      await until(() => state.gaps >= 2 && state.store.up, 'both connections to be there', 15_000)
      await publish(state.store, 'after')
      await until(() => state.heard.includes('after'), 'the message')
      await set(state.store)
      expect(await next.ask('GET', 'quotegate:key')).toBe('1')
    },
    40_000,
  )

  test('a store that was frozen come again, after word of the gap', async () => {
    const server = await valkey()
    const state = await listening(server.url)
    server.freeze()
    await pause(2_500)
    server.thaw()
    await until(() => state.gaps >= 2 && state.store.up, 'a new subscription', 10_000)
    await publish(state.store, 'after')
    await until(() => state.heard.includes('after'), 'the message')
  })
})

describe.skipIf(!valkeyIsInstalled())('of several servers', () => {
  test('one of a Cluster is frozen: nothing waits for it more than once, and it is taken in again', async () => {
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
    await pause(25_000)
    const counts: number[] = []
    for (let turn = 0; turn < 20; turn++) {
      counts.push(openConnectionsTo(frozen?.port ?? 0))
      await pause(100)
    }
    // One, but for the moment at which it is replaced.
    expect(Math.min(...counts)).toBeLessThanOrEqual(2)
  }, 60_000)

  test('the master dies: the one that Sentinels name next is used', async () => {
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
