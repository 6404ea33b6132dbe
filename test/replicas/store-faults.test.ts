import { describe, expect, test } from 'vitest'
import { pause, until } from '../support/gateways/between.ts'
import { valkey } from '../support/stores/valkey.ts'
import { get, lineTo, set, watched } from '../support/stores/watched-store.ts'

describe('a store that', { tags: ['redis-server'] }, () => {
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
    expect(further.every((line) => line.startsWith('the shared store is still down: '))).toBe(true)
    expect(new Set(further).size).toBe(further.length)
    await until(() => log.text().includes('is back'), 'a line that says so')
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
      expect(await set(store)).toBe('OK')
    },
  )

  test('moved while an old connection leads nowhere is reached over a new connection', async () => {
    const line = await lineTo((await valkey()).port)
    const { store } = await watched(line.url)
    await set(store)
    line.swallow()
    await until(() => !store.up, 'a store that is down')
    await until(() => store.up, 'a store that is found again', 10_000)
    expect(await get(store)).toBe('1')
  })

  test('cuts a connection that was held for a while is asked again without a pause', async () => {
    const server = await valkey()
    const { store } = await watched(server.url)
    const pausesMs: number[] = []
    // The shortest of several, on a machine that has other work; a replica that paused would never be that quick.
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
})
