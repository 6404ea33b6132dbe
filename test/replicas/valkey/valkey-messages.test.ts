import { describe, expect, test } from 'vitest'
import type { SharedStore } from '../../../src/replicas/store.ts'
import { pause, until } from '../../support/gateways/between.ts'
import { storeAt, valkey } from '../../support/stores/valkey.ts'
import { lineTo, set, watched } from '../../support/stores/watched-store.ts'

describe('the messages of', { tags: ['redis-server'] }, () => {
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

  test('a store that is restarted resume, after a notice of the gap', async () => {
    const server = await valkey()
    const state = await listening(server.url)
    await server.restartEmpty()
    await until(() => state.gaps === 2 && state.store.up, 'a new subscription', 10_000)
    await publish(state.store, 'after')
    await until(() => state.heard.length === 1, 'the message')
    expect(state.heard).toEqual(['after'])
  })

  test('a single connection that was cut resume, after a notice of the gap', async () => {
    const server = await valkey()
    const state = await listening(server.url)
    await server.ask('CLIENT', 'KILL', 'TYPE', 'pubsub')
    await until(() => state.gaps === 2, 'a new subscription', 10_000)
    expect(state.store.up).toBe(true)
    await publish(state.store, 'after')
    await until(() => state.heard.length === 1, 'the message')
  })

  test('a connection that worked for a while and was cut resume without a pause', async () => {
    const server = await valkey()
    const state = await listening(server.url)
    const pausesMs: number[] = []
    // The shortest of several, on a machine that has other work; a replica that paused would never be that quick.
    for (let cuts = 1; cuts <= 4; cuts += 1) {
      await pause(1_000)
      const cutAtMs = performance.now()
      await server.ask('CLIENT', 'KILL', 'TYPE', 'pubsub')
      await until(() => state.gaps === cuts + 1, 'a new subscription', 10_000)
      pausesMs.push(performance.now() - cutAtMs)
    }
    expect(Math.min(...pausesMs)).toBeLessThan(450)
  })

  // With a database the server's word is the answer to SELECT, and the listener notices a closed connection only.
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

  test('a store that was frozen resume, after a notice of the gap', async () => {
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
