import { request } from 'node:http'
import { describe, expect, it } from 'vitest'
import type { RateLimiter, Taken } from '../../src/client/rate-limiter.ts'
import type { Clock } from '../../src/clock.ts'
import {
  ask,
  asking,
  counted,
  createTestClock,
  deferred,
  giveQuote,
  lookups,
  quoteBody,
  untilCounted,
} from '../support/clients/quotes.ts'
import {
  gatewayWith,
  pause,
  recordingUpstream,
  until,
} from '../support/gateways/between.ts'
import { escapedErrors } from '../support/machine/escaped-errors.ts'

interface Counting {
  bucket: string
  allow(): void
  refuse(): void
}

/** A rate limiter as slow as a store on another machine may be: the test answers for it. */
function slowLimiter() {
  const countings: Counting[] = []
  const limiter: RateLimiter = {
    perMinute: 10,
    take(bucket) {
      const { promise, resolve } = deferred<Taken>()
      countings.push({
        bucket,
        allow: () => resolve({ allowed: true, remaining: 5, resetMs: 30_000 }),
        refuse: () => resolve({ allowed: false, remaining: 0, resetMs: 30_000 }),
      })
      return promise
    },
  }
  const counting = async (index: number) => {
    await until(() => countings.length > index, `counting ${index}`)
    return countings[index] as Counting
  }
  return { limiter, countings, counting }
}

async function slowlyLimited(settings: Record<string, string> = {}, clock?: Clock) {
  const slow = slowLimiter()
  const upstream = await recordingUpstream((_request, response) => giveQuote(response))
  const limits = {
    RATE_LIMIT_PER_MINUTE: 10,
    RATE_LIMIT_BY: 'client-ip',
    QUOTE_PARTITION: 'none',
  }
  const gateway = await gatewayWith(
    { SWAP_BASE_URL: upstream.url, ...limits, TRUST_PROXY: 'loopback', ...settings },
    { rateLimiter: slow.limiter, ...(clock ? { clock } : {}) },
  )
  const quoteFor = (address: string, signal?: AbortSignal) =>
    ask(gateway.url, {
      headers: ['App-Name', 'wallet', 'Forwarded', `for=${address}`],
      ...(signal ? { signal } : {}),
    })
  return { ...slow, upstream, gateway, quoteFor }
}

const aborted = (route: string, method: string) =>
  `quotegate_http_requests_total{route="${route}",method="${method}",status_class="aborted"}`

describe('while a slow store counts', () => {
  it("the first request's refusal does not refuse the others: the next allowed request starts the call", async () => {
    const { counting, countings, gateway, quoteFor, upstream } = await slowlyLimited()
    const first = quoteFor('203.0.113.1')
    expect((await counting(0)).bucket).toBe('203.0.113.1')
    const others = Array.from({ length: 63 }, (_, index) =>
      quoteFor(`203.0.113.${index + 2}`),
    )
    await untilCounted(gateway, lookups('collapsed'), 63)
    countings[0]?.refuse()
    expect((await first).status).toBe(429)
    const second = await counting(1)
    second.refuse()
    const third = await counting(2)
    expect(upstream.requests).toHaveLength(0)
    third.allow()
    const answers = await Promise.all(others)
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(62)
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(1)
    expect(upstream.requests).toHaveLength(1)
    expect(upstream.requests[0]?.headers.forwarded).toBe(`for=${third.bucket}`)
    expect(new Set(countings.map(({ bucket }) => bucket)).size).toBe(3)
    // Each is one lookup, even if it started again because another was refused.
    expect([
      await counted(gateway, lookups('miss')),
      await counted(gateway, lookups('collapsed')),
    ]).toEqual([1, 63])
  })

  it('all who share a limit share its refusal, which is one look at the store', async () => {
    const { counting, countings, gateway, quoteFor } = await slowlyLimited()
    const crowd = Array.from({ length: 64 }, () => quoteFor('203.0.113.1'))
    await untilCounted(gateway, lookups('collapsed'), 63)
    ;(await counting(0)).refuse()
    for (const { status, headers } of await Promise.all(crowd))
      expect([status, headers['retry-after']]).toEqual([429, '30'])
    expect(countings).toHaveLength(1)
  })

  it('and all callers leave, the upstream is not called', async () => {
    const unhandled = escapedErrors()
    const { counting, gateway, quoteFor, upstream } = await slowlyLimited()
    const leaving = new AbortController()
    const crowd = [
      quoteFor('203.0.113.7', leaving.signal),
      quoteFor('203.0.113.7', leaving.signal),
    ]
    await untilCounted(gateway, lookups('collapsed'), 1)
    leaving.abort()
    await Promise.allSettled(crowd)
    await untilCounted(gateway, aborted('quote', 'GET'), 2)
    ;(await counting(0)).allow()
    await pause(100)
    expect(upstream.requests).toHaveLength(0)
    expect(unhandled).toEqual([])
  })

  // Of an order the stream of the rest is open while it is counted. Neither is so large that its socket is paused, which
  // would not tell that the caller has left.
  it.each([
    ['/v3/anything', 100, 'swap'],
    ['/v3/orders', 70_000, 'order'],
  ])(
    'an upload to %s breaks off, nothing is sent and nothing is thrown',
    async (path, bytes, route) => {
      const unhandled = escapedErrors()
      const { counting, gateway, upstream } = await slowlyLimited()
      const { hostname, port } = new URL(gateway.url)
      const upload = request({ hostname, port, path, method: 'POST', agent: false })
      upload.on('error', () => {})
      upload.setHeader('Content-Length', 1_000_000)
      upload.write('n'.repeat(bytes))
      const { allow } = await counting(0)
      upload.socket?.resetAndDestroy()
      await untilCounted(gateway, aborted(route, 'POST'), 1)
      allow()
      const after = asking(gateway.url, '1')
      ;(await counting(1)).allow()
      expect((await after).status).toBe(200)
      expect(upstream.requests.map(({ method }) => method)).toEqual(['GET'])
      expect(unhandled).toEqual([])
    },
  )

  it('an order becomes too late, it is refused when its turn comes', async () => {
    const clock = createTestClock()
    const { counting, gateway, upstream } = await slowlyLimited({}, clock)
    upstream.answer((_request, response) => {
      const expiry = clock.nowMs() + 30_000
      const date = new Date(clock.nowMs()).toUTCString()
      giveQuote(response, quoteBody({ id: 'quote', expiry }), ['Date', date])
    })
    const quote = asking(gateway.url, '1')
    const first = await counting(0)
    first.allow()
    expect((await quote).status).toBe(200)
    const order = fetch(`${gateway.url}/v3/orders/float`, {
      method: 'POST',
      headers: { 'App-Name': 'wallet' },
      body: '{"quoteId":"quote"}',
    })
    const second = await counting(1)
    clock.advance(60_000)
    second.allow()
    expect((await order).status).toBe(409)
    expect(upstream.requests).toHaveLength(1)
  })
})
