import type { ServerResponse } from 'node:http'
import type { LookupFunction } from 'node:net'
import { describe, expect, it } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { Problem } from '../../src/http/problem.ts'
import { fetchWhole, type Sender } from '../../src/upstream/fetch.ts'
import { orderStage, post, termsOf } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import { counted } from '../support/clients/quotes.ts'
import { RawConnection } from '../support/clients/raw-connection.ts'
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

  it('keeps waiting while its quote is live, even if that is short', async () => {
    const { clock, given, held, first, inFlight: taken, order } = await busyStage()
    const waiting = order(termsOf(given))
    while ((await taken()) < 2) await pause(5)
    clock.set(given.expiry - 1)
    await pause(100)
    expect(await taken()).toBe(2)
    held[0]?.writeHead(201).end()
    await first
    await until(() => held.length === 2, 'the order')
    held[1]?.writeHead(201).end()
    expect((await waiting).status).toBe(201)
  })

  it('leaves the queue when its client has left, and is never sent', async () => {
    const { arrived, first, gateway, given, held, inFlight: taken } = await busyStage()
    const client = new RawConnection(gateway.url)
    client.write(post(JSON.stringify(termsOf(given))))
    while ((await taken()) < 2) await pause(5)
    client.socket.destroy()
    while ((await taken()) === 2) await pause(5)
    held[0]?.writeHead(201).end()
    await first
    expect(arrived()).toHaveLength(1)
  })
})

describe('a sender that objects while its request waits', () => {
  const request = { kind: 'float-order' as const, method: 'POST', target: '/', headers: [], body: null }
  const expired = () => new Problem('quote-expired', { detail: 'too late' })

  it('for a connection to be made is obeyed at once, and nothing is sent on that connection', async () => {
    const upstream = await recordingUpstream()
    let resolve = () => {}
    const lookup: LookupFunction = (_name, _options, callback) => {
      resolve = () => callback(null, [{ address: '127.0.0.1', family: 4 }])
    }
    const edge = await edgeTo(`http://upstream.test:${upstream.port}`, { breakerFailures: 1 }, { lookup })
    let isExpired = false
    const sender: Sender = {
      objection: () => undefined,
      answerBegan() {},
      whileWaiting: () => (isExpired ? { objection: expired() } : { askAgainInMs: 1 }),
    }
    const call = { upstream: edge.upstream, request, clock: systemClock, totalTimeoutMs: 600_000, sender }
    const { answer } = fetchWhole(call)
    isExpired = true
    await expect(answer).rejects.toMatchObject({ slug: 'quote-expired' })
    resolve()
    await until(() => edge.upstream.inFlight === 0, 'its connection')
    expect([edge.outcomes, edge.states, upstream.requests]).toEqual([['given-up'], [], []])
  })

  it('is not called again after the request was sent', async () => {
    const upstream = await recordingUpstream(() => {})
    const edge = await edgeTo(upstream.url)
    let asked = 0
    const sender: Sender = {
      objection: () => undefined,
      answerBegan() {},
      whileWaiting() {
        asked += 1
        return { askAgainInMs: 1 }
      },
    }
    const call = { upstream: edge.upstream, request, clock: systemClock, totalTimeoutMs: 600_000, sender }
    const { answer, abort } = fetchWhole(call)
    await until(() => upstream.requests.length === 1, 'it to arrive')
    const before = asked
    await pause(50)
    expect(asked).toBe(before)
    abort()
    await expect(answer).rejects.toThrow()
  })

  // A machine that stood still: the timer is late, and a connection has come free meanwhile.
  it('too late, after a pause of the process, is called again when the request would be sent', async () => {
    const upstream = await recordingUpstream()
    const edge = await edgeTo(upstream.url)
    const sender: Sender = {
      objection: expired,
      answerBegan() {},
      whileWaiting: () => ({ askAgainInMs: 600_000 }),
    }
    const call = { upstream: edge.upstream, request, clock: systemClock, totalTimeoutMs: 600_000, sender }
    await expect(fetchWhole(call).answer).rejects.toMatchObject({ slug: 'quote-expired' })
    await until(() => edge.upstream.inFlight === 0, 'its end')
    expect(upstream.requests).toEqual([])
  })
})
