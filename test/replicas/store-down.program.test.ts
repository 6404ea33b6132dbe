import { connect, createServer, type Socket } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { reasonOf } from '../../src/memory/failure.ts'
import { pause, until } from '../support/gateways/between.ts'
import { freePort } from '../support/machine/free-port.ts'
import { listening } from '../support/machine/listening.ts'
import { valkey } from '../support/stores/valkey.ts'
import { get, lineTo, set, watched } from '../support/stores/watched-store.ts'

/** On a loaded machine a store that is down may also be late. */
const isNoTimeout = (line: string) => !line.includes('no answer within')

/** Its port, of a server that does this with each connection. */
async function serverThat(acts: (socket: Socket) => void, port = 0) {
  const server = createServer((socket) => acts(socket.on('error', () => {}).resume()))
  return { port: (await listening(server, port)).port, close: () => server.close() }
}

// What Redis 7 writes to a connection from another machine, before it closes it (networking.c). The log said
// "write EPIPE", because the gateway wrote its commands before it read that.
const denied =
  '-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the ' +
  'default user. In this mode connections are only accepted from the loopback interface.\r\n'
const protectedServer = async (afterMs: number) => {
  const refuse = (socket: Socket) => {
    socket.write(denied)
    socket.destroySoon()
  }
  const { port } = await serverThat((socket) =>
    afterMs === 0 ? refuse(socket) : setTimeout(() => refuse(socket), afterMs),
  )
  return `redis://127.0.0.1:${port}`
}
const protectedMode =
  /protected mode and refuses .* \(DENIED Redis is running .* loopback interface\.\)/

/** The URL of a store whose user may run no scripts. */
async function limited(): Promise<string> {
  const { ask, url } = await valkey()
  await ask('ACL', 'SETUSER', 'limited', 'on', '>hunter2', '~*', '+@all', '-@scripting')
  return url.replace('//', '//limited:hunter2@')
}
const locked = async () => (await valkey({ password: 'hunter2' })).url

describe('a store that', { tags: ['redis-server'] }, () => {
  test.each<[string, () => Promise<string>, RegExp]>([
    [
      'gets no password',
      async () => (await locked()).replace(/:[^/]*@/, ''),
      /requires a password/,
    ],
    [
      'gets a wrong password',
      async () => (await locked()).replace('hunter2', 'hunter3'),
      /refuses the user/,
    ],
    [
      'has no such database',
      async () => `${(await valkey()).url}/99`,
      /does not have the database/,
    ],
    ['lets its user run no scripts', limited, /may not do this \(NOPERM/],
    [
      'is not there',
      async () => `redis://127.0.0.1:${await freePort()}`,
      /no server listens/,
    ],
    ['is in protected mode', () => protectedServer(0), protectedMode],
    [
      'is in protected mode and says so a moment later',
      () => protectedServer(20),
      protectedMode,
    ],
  ])(
    '%s is down, and the log says why, once and without the password',
    async (_what, urlOf, reason) => {
      const { store, log, complaints } = await watched(await urlOf(), { mayBeDown: true })
      await until(() => complaints().length > 0, 'a line about it')
      for (let looks = 0; looks < 15; looks += 1) {
        await pause(100)
        expect(store.up).toBe(false)
      }
      expect(complaints().filter(isNoTimeout)).toEqual([expect.stringMatching(reason)])
      expect(await get(store)).toBe(undefined)
      expect(log.text()).not.toMatch(/hunter/)
    },
  )

  // The connection breaks first, whatever is the matter: on call one needs to know what keeps the store down.
  test('stays down for another reason than the first: the log names the second reason too, once', async () => {
    const server = await valkey()
    const { store, complaints } = await watched(server.url)
    await set(store)
    // On one line: a second one would be asked for the password.
    const operator = connect(server.port, '127.0.0.1')
    onTestFinished(() => void operator.destroy())
    operator.write('CONFIG SET requirepass secret\r\nCLIENT KILL TYPE normal\r\n')
    const named = () =>
      complaints().filter((line) => line.includes('requires a password'))
    await until(() => named().length > 0, 'the reason', 10_000)
    await pause(2_500)
    expect(named()).toHaveLength(1)
    expect(store.up).toBe(false)
  })

  // With ioredis's client info on, such a connection stays ready without end.
  test('accepts connections and closes them at once is used when it is back', async () => {
    let accepted = 0
    const closing = await serverThat((socket) => {
      accepted += 1
      socket.destroy()
    })
    const { store } = await watched(`redis://127.0.0.1:${closing.port}`, {
      mayBeDown: true,
    })
    await until(() => accepted >= 3, 'some connections', 20_000)
    expect(store.up).toBe(false)
    closing.close()
    await valkey({ port: closing.port })
    await until(() => store.up, 'a store that is back', 10_000)
    expect(await set(store)).toBe('OK')
  })

  test('is killed fails no request, is skipped while it is down, and is shared again when it is back', async () => {
    const server = await valkey()
    const { store, outcomes, complaints, log } = await watched(server.url)
    await set(store)
    await server.kill()
    await until(() => !store.up, 'a store that is down, though no request asks it')
    outcomes.length = 0
    expect(await Promise.all([get(store), get(store)])).toEqual([undefined, undefined])
    expect(outcomes).toEqual(['skipped', 'skipped'])
    await server.restartEmpty()
    await until(() => store.up, 'a store that is back', 10_000)
    expect(await get(store)).toBe(null)
    const [first, ...further] = complaints()
    expect(first).toMatch(/shared store is down.*(connection|nothing listens)/)
    expect(
      further.every((line) => line.startsWith('the shared store is still down: ')),
    ).toBe(true)
    expect(new Set(further).size).toBe(further.length)
    await until(() => log.text().includes('is back'), 'a line that says so')
  })

  test.each([
    [
      'became a replica',
      'REPLICAOF 127.0.0.1 1',
      'REPLICAOF NO ONE',
      /a replica that accepts no writes/,
    ],
    [
      'has no memory left',
      'CONFIG SET maxmemory 1',
      'CONFIG SET maxmemory 0',
      /no writes \(OOM/,
    ],
  ])(
    '%s is down for writes and reads, and up when that is over',
    async (_what, breaks, mends, reason) => {
      const server = await valkey()
      const { store, complaints } = await watched(server.url)
      await set(store)
      await server.ask(...breaks.split(' '))
      expect(await set(store)).toBe(undefined)
      expect(store.up).toBe(false)
      await pause(1_500)
      expect(store.up).toBe(false)
      expect(await get(store)).toBe(undefined)
      await server.ask(...mends.split(' '))
      await until(() => store.up, 'a store that takes writes', 10_000)
      expect(complaints().filter(isNoTimeout)).toEqual([expect.stringMatching(reason)])
    },
  )

  test('refuses one odd command now and then stays up', async () => {
    const { store, outcomes } = await watched((await valkey()).url)
    await set(store)
    for (let turn = 0; turn < 20; turn += 1) {
      await store.run('rate-limit', (client) => client.lpush('quotegate:key', 'no list'))
      await get(store)
    }
    expect(outcomes.filter((outcome) => outcome === 'failed')).toHaveLength(20)
    expect(outcomes).not.toContain('skipped')
    expect(store.up).toBe(true)
  })

  // A length that no list can have; lists without a name, which only a connection that listens takes amiss.
  test.each(['*99999999999\r\n', '*0\r\n', '*2\r\n$-1\r\n$0\r\n\r\n'])(
    'sends %j, which is not an answer, ends no process, and is asked over a new connection',
    async (bytes) => {
      const line = await lineTo((await valkey()).port)
      const { store, complaints } = await watched(line.url)
      // An uncaught error fails the run.
      line.say(bytes)
      await until(() => complaints().length > 0 && store.up, 'a new connection', 10_000)
      // Until the connection is replaced, its answers may be those of other commands.
      await expect.poll(() => set(store)).toBe('OK')
    },
  )

  test('cuts a connection that was held for a while is asked again without a pause', async () => {
    const server = await valkey()
    const { store } = await watched(server.url)
    const pausesMs: number[] = []
    // The shortest of several, on a machine that has other work; a replica that paused would never be that quick.
    for (let cuts = 1; cuts <= 4; cuts += 1) {
      await pause(700)
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

  // A new connection waits for its password to be taken, and what is said when it is given up is the client's own.
  test('is frozen holds up calls once, and is down for that one reason however many connections are tried', async () => {
    const server = await valkey({ password: 'secret' })
    const { store, outcomes, complaints } = await watched(server.url)
    await set(store)
    outcomes.length = 0
    server.freeze()
    expect(await Promise.all([get(store), get(store), get(store)])).toEqual([
      undefined,
      undefined,
      undefined,
    ])
    expect(outcomes).toContain('timeout')
    expect(outcomes).not.toContain('failed')
    expect(store.up).toBe(false)
    const skippedFrom = outcomes.length
    for (let turn = 0; turn < 60; turn += 1) {
      expect(await get(store)).toBe(undefined)
      await pause(100)
    }
    expect(new Set(outcomes.slice(skippedFrom))).toEqual(new Set(['skipped']))
    server.thaw()
    await until(() => store.up, 'a store that has thawed', 10_000)
    expect(await get(store)).toBe('1')
    expect(complaints()).toEqual([
      expect.stringContaining('no answer within 500 ms (VALKEY_TIMEOUT_MS)'),
    ])
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
    const { store, complaints } = await watched((await valkey()).url)
    await set(store)
    // The first use of a script takes two round trips, and only the first of them would be over after the pause.
    await store.readEntries('quotegate:journal', '0-0')
    const asked = get(store)
    await new Promise(process.nextTick)
    const untilMs = performance.now() + 1_200
    while (performance.now() < untilMs);
    expect(await asked).toBe('1')
    await until(() => store.up, 'the other answers to be read')
    expect(complaints()).toEqual([])
  })

  test('is frozen does not hold up the shutdown', async () => {
    const server = await valkey()
    const { store } = await watched(server.url)
    server.freeze()
    const asked = get(store)
    await store.close()
    expect(await asked).toBe(undefined)
  })
})

describe('the log line of a store that is down', () => {
  // Redis 7 with `rename-command AUTH ""`; a Sentinel before 5.0.1; proxies that know no AUTH.
  test.each([
    "ERR unknown command 'auth', with args beginning with: 'me' 'hunter2' ",
    'ERR unknown command `auth`, with args beginning with: `hunter2`, ',
    "All sentinels are unreachable. Last error: ERR unknown command 'auth', with args beginning with: 'hunter2' ",
  ])('repeats no password that the store repeats: %s', (message) => {
    const reason = reasonOf(new Error(message))
    expect(reason).toContain('unknown command')
    expect(reason).not.toContain('hunter2')
  })

  test.each(['reply', 'error'])('does not repeat a %s that no call waits for', (kind) => {
    const said = `Command queue state error. If you can reproduce this, please report it. Last ${kind}: q-1\n203.0.113.7`
    expect(reasonOf(new Error(said))).toBe(
      'the store sent a reply that belongs to no command (Command queue state error)',
    )
  })
})
