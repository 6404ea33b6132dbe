import { describe, expect, it } from 'vitest'
import { createMemoryRateLimiter } from '../../src/client/memory-rate-limiter.ts'
import { createSharedRateLimiter } from '../../src/replicas/rate-limit.ts'
import type { SharedStore } from '../../src/replicas/store.ts'
import { pause, until } from '../support/gateways/between.ts'
import { storeAt, valkey, valkeyCluster } from '../support/stores/valkey.ts'

const perMinute = 10

const limiterOn = (sharedStore: SharedStore) =>
  createSharedRateLimiter({ sharedStore, fallback: createMemoryRateLimiter({ perMinute }) })

async function twoOn(url: string) {
  const stores = [await storeAt(url), await storeAt(url)] as const
  return { stores, here: limiterOn(stores[0]), there: limiterOn(stores[1]) }
}

describe('two replicas that share a limit', { tags: ['redis-server'] }, () => {
  it.each([
    ['one server', valkey],
    ['a Cluster', valkeyCluster],
  ])('allow exactly as many requests as one replica would, on %s', async (_kind, start) => {
    const { here, there } = await twoOn((await start()).url)
    // Enough buckets for each server of a Cluster to have some.
    const buckets = Array.from({ length: 12 }, (_, index) => `203.0.113.${index}`)
    const takes = buckets.flatMap((bucket) => Array.from({ length: 15 }, (_, turn) => ({ bucket, turn })))
    const taken = await Promise.all(
      takes.map(async ({ bucket, turn }) => ({
        bucket,
        ...(await (turn % 2 === 0 ? here : there).take(bucket)),
      })),
    )
    for (const bucket of buckets) {
      const own = taken.filter((take) => take.bucket === bucket)
      const allowed = own.filter((take) => take.allowed)
      expect(allowed.map(({ remaining }) => remaining).sort()).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
      for (const { resetMs } of own) {
        expect(resetMs).toBeGreaterThan(30_000)
        expect(resetMs).toBeLessThanOrEqual(60_000)
      }
    }
  })

  it('start again when the minute is over, and if its key was overwritten', async () => {
    const server = await valkey()
    const { here } = await twoOn(server.url)
    for (let turn = 0; turn < perMinute; turn += 1) await here.take('a')
    const [key = ''] = (await server.ask('KEYS', '*limit*')) as string[]
    expect(await here.take('a')).toMatchObject({ allowed: false })
    // One that would never end.
    await server.ask('PERSIST', key)
    expect(await here.take('a')).toMatchObject({ allowed: true, remaining: perMinute - 1, resetMs: 60_000 })
    await server.ask('SET', key, 'garbage', 'PX', 60_000)
    expect(await here.take('a')).toMatchObject({ allowed: true, remaining: perMinute - 1, resetMs: 60_000 })
    expect(Number(await server.ask('PTTL', key))).toBeGreaterThan(0)
    await server.ask('PEXPIRE', key, 1)
    while ((await server.ask('EXISTS', key)) !== 0) await pause(1)
    expect(await here.take('a')).toMatchObject({ allowed: true, remaining: perMinute - 1, resetMs: 60_000 })
  })

  it('name no client in the store', async () => {
    const server = await valkey()
    const { here } = await twoOn(server.url)
    await here.take('203.0.113.7')
    const [key = ''] = (await server.ask('KEYS', '*limit*')) as string[]
    expect(key).toMatch(/^quotegate:limit:[\w-]{43}$/)
    expect(await server.ask('GET', key)).toBe('1')
  })

  it('count separately while the store is down, and together again after that', async () => {
    const server = await valkey()
    const { stores, here, there } = await twoOn(server.url)
    await server.kill()
    for (const limiter of [here, there]) {
      for (let turn = 0; turn < perMinute; turn += 1)
        expect(await limiter.take('a')).toMatchObject({ allowed: true })
      expect(await limiter.take('a')).toMatchObject({ allowed: false })
    }
    await server.restartEmpty()
    await until(() => stores.every(({ up }) => up), 'the store again')
    for (let turn = 0; turn < perMinute; turn += 1)
      expect(await (turn % 2 === 0 ? here : there).take('a')).toMatchObject({ allowed: true })
    expect(await here.take('a')).toMatchObject({ allowed: false })
    expect(await there.take('a')).toMatchObject({ allowed: false })
  })
})
