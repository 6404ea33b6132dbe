import type { ServerResponse } from 'node:http'
import type { LookupFunction } from 'node:net'
import { describe, expect, it } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { Problem } from '../../src/http/problem.ts'
import { fetchWhole } from '../../src/upstream/fetch.ts'
import { orderStage, termsOf } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import { counted } from '../support/clients/quotes.ts'
import { pause, recordingUpstream, until } from '../support/gateways/between.ts'
import { edgeTo } from '../support/gateways/edge.ts'

const inFlight = 'quotegate_upstream_requests_in_flight{upstream="swap"}'

/** One connection to the provider, held by a request that is never answered unless the test does it. */
async function busyStage(settings: Record<string, string | number> = {}) {
  const stage = await orderStage({
    UPSTREAM_CONNECTIONS: 1,
    UPSTREAM_TOTAL_TIMEOUT_MS: 600_000,
    UPSTREAM_HEADERS_TIMEOUT_MS: 600_000,
    ...settings,
  })
  const given = await stage.quote()
  const held: ServerResponse[] = []
  stage.provider.takeOrder = (_request, response) => {
    held.push(response)
  }
  const first = stage.order('{}', { method: 'PATCH', path: '/v3/orders/1' })
  await until(() => held.length === 1, 'the first request to arrive')
  return { ...stage, given, held, first, inFlight: () => counted(stage.gateway, inFlight) }
}

describe('an order whose quote expires while it waits for a connection', () => {
  it('is refused at that instant, even if no connection becomes free, and never sent', async () => {
    const { arrived, clock, decided, first, given, held, inFlight: taken, order } = await busyStage()
    const waiting = order(termsOf(given))
    while ((await taken()) < 2) await pause(5)
    clock.set(given.expiry)
    // Nothing else ends it: the connection is held, and the deadline is ten minutes away.
    expect(expectProblem(await waiting, 409, 'quote-expired').expiredForMs).toBe(0)
    expect(await taken()).toBe(1)
    expect([await decided('refused', 'expired'), await decided('forwarded', 'live')]).toEqual([1, 0])
    held[0]?.writeHead(201).end()
    expect((await first).status).toBe(201)
    const next = order('{"next":true}')
    await until(() => held.length === 2, 'the next order')
    held[1]?.writeHead(201).end()
    expect((await next).status).toBe(201)
    expect(arrived().map(({ body }) => body.toString())).toEqual(['{}', '{"next":true}'])
  })

  it('is refused sooner by ORDER_EXPIRY_MARGIN_MS', async () => {
    const { clock, given, inFlight: taken, order } = await busyStage({ ORDER_EXPIRY_MARGIN_MS: 5_000 })
    const waiting = order(termsOf(given))
    while ((await taken()) < 2) await pause(5)
    clock.set(given.expiry - 5_000)
    expect(expectProblem(await waiting, 409, 'quote-expired').expiredForMs).toBe(0)
  })
})

describe('a request that decides while it waits not to be sent', () => {
  const expired = () => new Problem('quote-expired', { detail: 'too late' })
  const request = (decide: () => number) => {
    return { kind: 'float-order' as const, method: 'POST', target: '/', headers: [], body: null, decide }
  }

  it('for one connection to be free leaves the queue at once', async () => {
    const upstream = await recordingUpstream(() => {})
    const edge = await edgeTo(upstream.url, { connections: 1, breakerFailures: 1 })
    const how = { upstream: edge.upstream, clock: systemClock, totalTimeoutMs: 600_000 }
    const leaving = new AbortController()
    const first = fetchWhole({ ...how, request: request(() => 600_000), signal: leaving.signal })
    await until(() => upstream.requests.length === 1, 'the first one')
    let isExpired = false
    const decide = () => {
      if (isExpired) throw expired()
      return 1
    }
    const waiting = fetchWhole({ ...how, request: request(decide) })
    await pause(20)
    isExpired = true
    await expect(waiting).rejects.toMatchObject({ slug: 'quote-expired' })
    expect([edge.outcomes, edge.states, edge.upstream.inFlight]).toEqual([['given-up'], [], 1])
    leaving.abort()
    await expect(first).rejects.toThrow()
  })

  /** An upstream whose name is not resolved until the test says so. */
  async function slowlyConnected() {
    const upstream = await recordingUpstream()
    let resolve = () => {}
    const lookup: LookupFunction = (_name, _options, callback) => {
      resolve = () => callback(null, [{ address: '127.0.0.1', family: 4 }])
    }
    const edge = await edgeTo(`http://upstream.test:${upstream.port}`, { breakerFailures: 1 }, { lookup })
    const how = { upstream: edge.upstream, clock: systemClock, totalTimeoutMs: 600_000 }
    const expectUnsent = async () => {
      await until(() => edge.upstream.inFlight === 0, 'its connection')
      expect([edge.outcomes, edge.states, upstream.requests]).toEqual([['given-up'], [], []])
    }
    return { how, resolve: () => resolve(), expectUnsent }
  }

  it('for its connection to be made is refused at once, and nothing is sent on that connection', async () => {
    const { how, resolve, expectUnsent } = await slowlyConnected()
    let isExpired = false
    const decide = () => {
      if (isExpired) throw expired()
      return 1
    }
    const answer = fetchWhole({ ...how, request: request(decide) })
    isExpired = true
    await expect(answer).rejects.toMatchObject({ slug: 'quote-expired' })
    resolve()
    await expectUnsent()
  })

  // A machine that stood still: the timer is late, and a connection has come free meanwhile.
  it('is asked again when it would be sent', async () => {
    const { how, resolve, expectUnsent } = await slowlyConnected()
    let asked = 0
    const decide = () => {
      asked += 1
      if (asked > 1) throw expired()
      return 600_000
    }
    const answer = fetchWhole({ ...how, request: request(decide) })
    resolve()
    await expect(answer).rejects.toMatchObject({ slug: 'quote-expired' })
    await expectUnsent()
    expect(asked).toBe(2)
  })

  it('is not asked after it was sent', async () => {
    const upstream = await recordingUpstream(() => {})
    const edge = await edgeTo(upstream.url)
    let asked = 0
    const decide = () => {
      asked += 1
      return 1
    }
    const leaving = new AbortController()
    const how = { upstream: edge.upstream, clock: systemClock, totalTimeoutMs: 600_000 }
    const answer = fetchWhole({ ...how, request: request(decide), signal: leaving.signal })
    await until(() => upstream.requests.length === 1, 'it to arrive')
    const before = asked
    await pause(50)
    expect(asked).toBe(before)
    leaving.abort()
    await expect(answer).rejects.toThrow()
  })
})
