import { describe, expect, it } from 'vitest'
import { createMemoryRateLimiter } from '../../src/client/rate-limiter.ts'
import { createSharedRateLimiter } from '../../src/memory/shared-rate-limit.ts'
import { asking, ask as asks, counted, giveQuote } from '../support/clients/quotes.ts'
import { pause } from '../support/gateways/between.ts'
import type { RunningGateway } from '../support/gateways/gateway.ts'
import { replicaStage } from '../support/gateways/replicas.ts'
import { storeAt, valkey } from '../support/stores/valkey.ts'

const perMinute = 6
const times = (count: number, status: number) =>
  Array.from({ length: count }, () => status)

const ordering = (url: string) =>
  asks(url, { path: '/v3/orders/float', method: 'POST', body: '{}' })

describe('a limit that two replicas share', { tags: ['redis-server'] }, () => {
  it('allows exactly the set number of requests, each replica for itself while the store is frozen', async () => {
    const { upstream, store, replicas, there } = await replicaStage(2, {
      RATE_LIMIT_PER_MINUTE: perMinute,
    })
    upstream.answer((_request, response) => giveQuote(response))
    let amount = 0
    /** Each for an amount of its own, so that each is a call of its own. */
    const ask = (gateway: RunningGateway) => asking(gateway.url, String(++amount))
    async function statuses(count: number): Promise<number[]> {
      const turns = Array.from(
        { length: count },
        (_, turn) => replicas[turn % 2] as RunningGateway,
      )
      return (await Promise.all(turns.map(ask))).map(({ status }) => status).sort()
    }
    const states = () =>
      Promise.all(replicas.map((replica) => counted(replica, 'quotegate_store_up')))
    const untilUp = (up: 0 | 1) =>
      expect.poll(states, { timeout: 45_000 }).toEqual([up, up])
    expect(await statuses(2)).toEqual(times(2, 200))
    store.freeze()
    expect(await statuses(40)).toEqual([
      ...times(2 * perMinute, 200),
      ...times(40 - 2 * perMinute, 429),
    ])
    await untilUp(0)
    store.thaw()
    await store.restartEmpty()
    await untilUp(1)
    const before = upstream.requests.length
    expect(await statuses(20)).toEqual([
      ...times(perMinute, 200),
      ...times(20 - perMinute, 429),
    ])
    expect(upstream.requests).toHaveLength(before + perMinute)
    const refused = await ask(there)
    expect(refused.headers['ratelimit-policy']).toBe(`"default";q=${perMinute};w=60`)
    expect(refused.headers.ratelimit).toMatch(/^"default";r=0;t=\d+$/)
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0)
    // Orders have the limit once more, shared likewise.
    const ordered = await Promise.all(
      Array.from({ length: perMinute + 2 }, (_, turn) =>
        ordering((replicas[turn % 2] as RunningGateway).url),
      ),
    )
    expect(ordered.map(({ status }) => status).sort()).toEqual([
      ...times(perMinute, 200),
      ...times(2, 429),
    ])
    for (const { headers } of ordered)
      expect(headers['ratelimit-policy']).toBe(`"orders";q=${perMinute};w=60`)
  })

  it('starts again when the minute is over, and if its key was overwritten', async () => {
    const server = await valkey()
    const fallback = createMemoryRateLimiter(perMinute)
    const limiter = createSharedRateLimiter({
      sharedStore: await storeAt(server.url),
      fallback,
    })
    for (let left = perMinute - 1; left >= 0; left -= 1)
      expect(await limiter.take('a')).toMatchObject({ allowed: true, remaining: left })
    const refused = await limiter.take('a')
    expect(refused).toMatchObject({ allowed: false, remaining: 0 })
    expect(refused.resetMs).toBeGreaterThan(30_000)
    expect(refused.resetMs).toBeLessThanOrEqual(60_000)
    const [key = ''] = (await server.ask('KEYS', '*limit*')) as string[]
    const firstOfMinute = { allowed: true, remaining: perMinute - 1, resetMs: 60_000 }
    // One that would never end.
    await server.ask('PERSIST', key)
    expect(await limiter.take('a')).toMatchObject(firstOfMinute)
    await server.ask('SET', key, 'garbage', 'PX', 60_000)
    expect(await limiter.take('a')).toMatchObject(firstOfMinute)
    expect(Number(await server.ask('PTTL', key))).toBeGreaterThan(0)
    await server.ask('PEXPIRE', key, 1)
    while ((await server.ask('EXISTS', key)) !== 0) await pause(1)
    expect(await limiter.take('a')).toMatchObject(firstOfMinute)
  })
})
