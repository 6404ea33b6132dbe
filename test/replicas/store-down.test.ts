import { connect, createServer } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { pause, until } from '../support/gateways/between.ts'
import { freePort } from '../support/machine/free-port.ts'
import { privateCertificate, valkey } from '../support/stores/valkey.ts'
import { get, set, watched } from '../support/stores/watched-store.ts'

/** On a loaded machine a store that is down may also be late. */
const isNoTimeout = (line: string) => !line.includes('no answer within')

describe('a store that', { tags: ['redis-server'] }, () => {
  // The connection breaks first, whatever is the matter: on call one needs to know what keeps the store down.
  test('stays down for another reason than the first: the log names the second reason too, once', async () => {
    const server = await valkey()
    const { store, complaints } = await watched(server.url)
    await set(store)
    // On one line: a second one would be asked for the password.
    const operator = connect(server.port, '127.0.0.1')
    onTestFinished(() => void operator.destroy())
    operator.write('CONFIG SET requirepass secret\r\nCLIENT KILL TYPE normal\r\n')
    await until(() => complaints().some((line) => line.includes('requires a password')), 'the reason', 10_000)
    await pause(2_500)
    expect(complaints().filter((line) => line.includes('requires a password'))).toHaveLength(1)
    expect(store.up).toBe(false)
  })

  test('is not reachable at startup is used as soon as it is', async () => {
    const port = await freePort()
    const { store, complaints } = await watched(`redis://127.0.0.1:${port}`, { mayBeDown: true })
    expect(store.up).toBe(false)
    expect(await get(store)).toBe(undefined)
    await until(() => complaints().length > 0, 'a line about it')
    await pause(1_500)
    expect(complaints().filter(isNoTimeout)).toEqual([
      expect.stringContaining('no server listens at the address of VALKEY_URL'),
    ])
    await valkey({ port })
    await until(() => store.up, 'a store that has come', 10_000)
    expect(await set(store)).toBe('OK')
  })

  // With ioredis's client info on, such a connection stays ready without end.
  test('accepts connections and closes them at once is used when it is back', async () => {
    const port = await freePort()
    let accepted = 0
    const closing = createServer((socket) => {
      accepted += 1
      socket.on('error', () => {})
      socket.destroy()
    })
    await new Promise<void>((resolve) => closing.listen(port, '127.0.0.1', resolve))
    onTestFinished(() => void closing.close())
    const { store } = await watched(`redis://127.0.0.1:${port}`, { mayBeDown: true })
    await until(() => accepted >= 3, 'some connections', 20_000)
    expect(store.up).toBe(false)
    await new Promise((resolve) => closing.close(resolve))
    await valkey({ port })
    await until(() => store.up, 'a store that is back', 10_000)
    expect(await set(store)).toBe('OK')
  })

  test('is frozen at startup is used when it thaws', async () => {
    const server = await valkey()
    server.freeze()
    const { store, complaints } = await watched(server.url, { mayBeDown: true })
    await until(() => complaints().length > 0, 'a line about it')
    server.thaw()
    await until(() => store.up, 'a store that has thawed', 10_000)
    expect(complaints()).toEqual([expect.stringContaining('no answer within')])
  })

  test.each([
    [
      'no password',
      (url: string) => url.replace(/:[^/]*@/, ''),
      /requires a password, and VALKEY_URL has none/,
    ],
    [
      'a wrong password',
      (url: string) => url.replace('hunter2', 'hunter3'),
      /refuses the user or the password/,
    ],
  ])('gets %s is down, and the log says why, once and without the password', async (_, changed, reason) => {
    const server = await valkey({ password: 'hunter2' })
    const { store, log, complaints } = await watched(changed(server.url), { mayBeDown: true })
    await until(() => complaints().length > 0, 'a line about it')
    await pause(1_500)
    expect(complaints().filter(isNoTimeout)).toEqual([expect.stringMatching(reason)])
    expect(store.up).toBe(false)
    expect(log.text()).not.toMatch(/hunter/)
  })

  test('has no such database is down: number 0 may be that of another stage', async () => {
    const server = await valkey({ config: ['databases 2'] })
    const { store, complaints } = await watched(`${server.url}/2`, { mayBeDown: true })
    await until(() => complaints().length > 0, 'a line about it')
    for (let looks = 0; looks < 15; looks += 1) {
      await pause(100)
      expect(store.up).toBe(false)
    }
    expect(complaints().filter(isNoTimeout)).toEqual([
      expect.stringContaining('does not have the database that VALKEY_URL names'),
    ])
    const { store: other } = await watched(`${server.url}/1`)
    await set(other)
    expect(await server.ask('EXISTS', 'quotegate:key')).toBe(0)
  })

  test('became a replica is down for writes and reads, and up when it is a master again', async () => {
    const server = await valkey()
    const { store, complaints } = await watched(server.url)
    await set(store)
    await server.ask('REPLICAOF', '127.0.0.1', await freePort())
    expect(await set(store)).toBe(undefined)
    expect(store.up).toBe(false)
    await pause(1_500)
    expect(store.up).toBe(false)
    expect(await get(store)).toBe(undefined)
    await server.ask('REPLICAOF', 'NO', 'ONE')
    await until(() => store.up, 'a store that may be written again', 10_000)
    expect(complaints().filter(isNoTimeout)).toEqual([
      expect.stringContaining('a replica that accepts no writes'),
    ])
  })

  test('has no memory left is down, and the log says why', async () => {
    const server = await valkey()
    const { store, complaints } = await watched(server.url)
    await server.ask('CONFIG', 'SET', 'maxmemory', '1')
    expect(await set(store)).toBe(undefined)
    expect(store.up).toBe(false)
    expect(complaints().filter(isNoTimeout)).toEqual([expect.stringMatching(/accepts no writes \(OOM/)])
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

  test('answers to TLS with a certificate of an unknown authority is down, and the log says what to do', {
    tags: ['openssl'],
  }, async () => {
    const server = await valkey({ tls: privateCertificate() })
    const { store, complaints } = await watched(server.url, { mayBeDown: true })
    await until(() => complaints().length > 0, 'a line about it')
    expect(complaints()[0]).toMatch(/certificate of the store is not trusted \(set NODE_EXTRA_CA_CERTS/)
    expect(store.up).toBe(false)
  })
})
