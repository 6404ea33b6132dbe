import { describe, expect, test } from 'vitest'
import { pause, until } from '../support/gateways/between.ts'
import { valkey } from '../support/stores/valkey.ts'
import { get, lineTo, set, watched } from '../support/stores/watched-store.ts'

describe('a store that', { tags: ['redis-server'] }, () => {
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

  test('is too slow is skipped until it is fast again', async () => {
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
    const { store, complaints } = await watched((await valkey()).url)
    await set(store)
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
