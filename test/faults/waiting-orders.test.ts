import type { ServerResponse } from 'node:http'
import type { LookupFunction } from 'node:net'
import { describe, expect, it } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { Problem } from '../../src/http/problem.ts'
import { fetchWhole } from '../../src/upstream/fetch.ts'
import { orderStage, post, termsOf } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import { counted, untilCounted } from '../support/clients/quotes.ts'
import { RawConnection } from '../support/clients/raw-connection.ts'
import { pause, recordingUpstream, until } from '../support/gateways/between.ts'
import { edgeTo } from '../support/gateways/edge.ts'
import { escapedErrors } from '../support/machine/escaped-errors.ts'

// When an order that waits is judged again is in test/orders/waiting-order.test.ts.

const inFlight = 'quotegate_upstream_requests_in_flight{upstream="swap"}'

/** A quote, and one connection to the provider, held by a request that has no answer until `release`. */
async function busyStage(settings: Record<string, string | number> = {}) {
  const stage = await orderStage({
    UPSTREAM_CONNECTIONS: 1,
    UPSTREAM_TOTAL_TIMEOUT_MS: 600_000,
    UPSTREAM_HEADERS_TIMEOUT_MS: 600_000,
    ...settings,
  })
  const { clock, gateway, order, provider } = stage
  const given = await stage.quote()
  const held: ServerResponse[] = []
  const takeOrder = provider.takeOrder
  provider.takeOrder = (_request, response) => void held.push(response)
  const first = order('{"first":true}', { method: 'PATCH', path: '/v3/orders/1' })
  await until(() => held.length === 1, 'the first request to arrive')
  async function waiting(leftMs: number) {
    clock.set(given.expiry - leftMs)
    const answer = order(termsOf(given))
    await untilCounted(gateway, inFlight, 2)
    return { answer }
  }
  async function release(): Promise<void> {
    provider.takeOrder = takeOrder
    held[0]?.writeHead(201).end()
    expect((await first).status).toBe(201)
  }
  return { ...stage, given, waiting, release }
}

describe('an order that waits for a connection', () => {
  it('is refused at the instant at which its quote expires, even if none becomes free, and never sent', async () => {
    const { arrived, clock, decided, gateway, given, order, release, waiting } =
      await busyStage()
    const { answer } = await waiting(30_000)
    clock.set(given.expiry)
    // Nothing else ends it: the connection is held, and the deadline is ten minutes away.
    expect(expectProblem(await answer, 409, 'quote-expired').expiredForMs).toBe(0)
    expect(await counted(gateway, inFlight)).toBe(1)
    expect([
      await decided('refused', 'expired'),
      await decided('forwarded', 'live'),
    ]).toEqual([1, 0])
    const givenUp =
      'quotegate_upstream_requests_total{upstream="swap",outcome="given-up"}'
    expect(await counted(gateway, givenUp)).toBe(1)
    await release()
    // The connection and the place in the queue are free again.
    expect((await order('{"next":true}')).status).toBe(201)
    expect(arrived().map(({ body }) => body.toString())).toEqual([
      '{"first":true}',
      '{"next":true}',
    ])
  })

  it('is judged when its turn comes', async () => {
    for (const [lateMs, status] of [
      [-1, 201],
      [2, 409],
    ] as const) {
      const { arrived, clock, given, release, waiting } = await busyStage()
      const { answer } = await waiting(1)
      clock.set(given.expiry + lateMs)
      await release()
      expect((await answer).status).toBe(status)
      expect(arrived()).toHaveLength(status === 201 ? 2 : 1)
    }
  })

  it('is refused as expired, even where the queue is full, if its quote is over when it arrives', async () => {
    const { arrived, clock, given, order } = await busyStage({ queue: 0 })
    clock.set(given.expiry)
    expectProblem(await order(termsOf(given)), 409, 'quote-expired')
    expectProblem(await order('{}'), 503, 'saturated')
    expect(arrived()).toHaveLength(1)
  })
})

describe('an order', () => {
  it('that waits for the rest of its own body is judged when that is there', async () => {
    for (const [lateMs, status] of [
      [-1, 201],
      [0, 409],
    ] as const) {
      const { arrived, clock, gateway, quote } = await orderStage()
      const given = await quote()
      const bytes = post(JSON.stringify(termsOf(given)))
      const client = new RawConnection(gateway.url, bytes.subarray(0, -5))
      await pause(100)
      clock.set(given.expiry + lateMs)
      client.write(bytes.subarray(-5))
      expect((await client.answer()).status).toBe(status)
      expect(arrived()).toHaveLength(status === 201 ? 1 : 0)
    }
  })

  it('that expires after it was sent is judged by the provider', async () => {
    const { arrived, clock, order, provider, quote } = await orderStage()
    const given = await quote()
    clock.set(given.expiry - 1)
    provider.takeOrder = (_request, response) => {
      clock.set(given.expiry + 60_000)
      response.writeHead(422, { 'Content-Length': 14 }).end('{"code":"OLD"}')
    }
    const { status, body } = await order(termsOf(given))
    expect([status, body.toString()]).toEqual([422, '{"code":"OLD"}'])
    expect(arrived()).toHaveLength(1)
  })

  it.each([
    ['/v3/orders/float', [], 413, 'order-too-large'],
    ['/v3/orders', ['Via: 1.1 quotegate'], 508, 'loop-detected'],
  ])(
    'whose endless body is refused lets no error escape later (%s)',
    async (path, via, ...refusal) => {
      const escaped = escapedErrors()
      const { gateway } = await orderStage({ bodyIdleTimeoutMs: 200 })
      const client = new RawConnection(gateway.url)
      client.write(post('', { path, headers: ['Transfer-Encoding: chunked', ...via] }))
      client.write(`186a0\r\n${'x'.repeat(100_000)}\r\n`)
      expectProblem(await client.answer(), ...refusal)
      await client.closed()
      await pause(400)
      expect(escaped).toEqual([])
    },
  )
})

describe('a request that decides not to be sent', () => {
  const expired = () => new Problem('quote-expired', { detail: 'too late' })

  /** Its upstream's name is resolved when the test says so. `isReplaced`: it had a connection, which was just closed. */
  async function slowlyConnected(recheckInMs: () => number, isReplaced = false) {
    const upstream = await recordingUpstream()
    let resolve = () => {}
    let isHeld = !isReplaced
    const lookup: LookupFunction = (_name, _options, callback) => {
      resolve = () => callback(null, [{ address: '127.0.0.1', family: 4 }])
      if (!isHeld) resolve()
    }
    const edge = await edgeTo(
      `http://upstream.test:${upstream.port}`,
      { breakerFailures: 1 },
      { lookup },
    )
    const order = {
      kind: 'float-order' as const,
      method: 'POST',
      target: '/',
      headers: [],
      body: null,
      recheckInMs,
    }
    const how = { upstream: edge.upstream, clock: systemClock, totalTimeoutMs: 600_000 }
    if (isReplaced) {
      await fetchWhole({
        ...how,
        request: { ...order, recheckInMs: () => 600_000 },
      }).whole()
      await until(() => edge.upstream.connections.idle === 1, 'its connection to be free')
      isHeld = true
    }
    for (const list of [edge.outcomes, upstream.requests]) list.length = 0
    const answer = fetchWhole({ ...how, request: order }).whole()
    for (const connection of upstream.connections) connection.destroy()
    const expectUnsent = async () => {
      await until(() => edge.upstream.inFlight === 0, 'its connection')
      expect([edge.outcomes, edge.states, upstream.requests]).toEqual([
        ['given-up'],
        [],
        [],
      ])
    }
    return { answer, connect: () => resolve(), expectUnsent, upstream }
  }

  it.each([
    ['made', false],
    ['replaced, because it was closed just before', true],
  ])(
    'while its connection is %s is refused at once, and nothing is sent',
    async (_how, isReplaced) => {
      let isExpired = false
      const { answer, connect, expectUnsent } = await slowlyConnected(() => {
        if (isExpired) throw expired()
        return 1
      }, isReplaced)
      isExpired = true
      await expect(answer).rejects.toMatchObject({ slug: 'quote-expired' })
      connect()
      await expectUnsent()
    },
  )

  // A machine that stood still: the timer is late, and a connection has come free meanwhile.
  it('is asked again when it would be sent', async () => {
    let asked = 0
    const { answer, connect, expectUnsent } = await slowlyConnected(() => {
      asked += 1
      if (asked > 1) throw expired()
      return 600_000
    })
    connect()
    await expect(answer).rejects.toMatchObject({ slug: 'quote-expired' })
    await expectUnsent()
    expect(asked).toBe(2)
  })

  it('is not asked after it was sent', async () => {
    let asked = 0
    const { answer, connect, upstream } = await slowlyConnected(() => {
      asked += 1
      return 1
    })
    let answerIt = () => {}
    upstream.answer((_request, response) => {
      answerIt = () => response.end()
    })
    connect()
    await until(() => upstream.requests.length === 1, 'it to arrive')
    const before = asked
    await pause(50)
    expect(asked).toBe(before)
    answerIt()
    expect((await answer).status).toBe(200)
  })
})
