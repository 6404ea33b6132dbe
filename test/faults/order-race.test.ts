import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import { orderStage, post, termsOf } from '../support/clients/orders.ts'
import { expectProblem, proxyStatus } from '../support/clients/problems.ts'
import { untilCounted } from '../support/clients/quotes.ts'
import { RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import { pause, until } from '../support/gateways/between.ts'
import { escapedErrors } from '../support/machine/escaped-errors.ts'

const text = (body: object) => JSON.stringify(body)

/** One connection to the provider, held by a request that it takes its time with and no total deadline ends. */
async function busyStage(settings: Record<string, string | number> = {}) {
  const stage = await orderStage({ UPSTREAM_CONNECTIONS: 1, ...settings })
  const given = await stage.quote()
  const held: ServerResponse[] = []
  stage.provider.takeOrder = (_request, response) => {
    held.push(response)
  }
  const first = stage.order('{"first":true}', { method: 'PATCH', path: '/v3/orders/1' })
  await until(() => held.length === 1, 'the first request to arrive')
  function release(): void {
    stage.provider.takeOrder = (_request, response) => response.writeHead(201).end()
    for (const response of held) response.writeHead(201).end()
  }
  return { ...stage, given, first, held, release }
}

/** Nothing outside shows that a request has joined the queue; what stands in front of it takes far less. */
const queueing = () => pause(150)

describe('an order that waits here', () => {
  it('for a connection until its quote has expired is refused when its turn comes, and not sent', async () => {
    const { arrived, clock, decided, first, given, order, release } = await busyStage()
    clock.set(given.expiry - 1)
    const waiting = order(termsOf(given))
    await queueing()
    clock.set(given.expiry + 2)
    release()
    expect((await first).status).toBe(201)
    expect(expectProblem(await waiting, 409, 'quote-expired').expiredForMs).toBe(2)
    expect(arrived()).toHaveLength(1)
    expect([await decided('refused', 'expired'), await decided('forwarded', 'live')]).toEqual([1, 0])
    // The connection and the place in the queue are free again.
    expect((await order('{}')).status).toBe(201)
  })

  it('for a connection and is still in time is sent when its turn comes', async () => {
    const { arrived, clock, decided, first, given, order, release } = await busyStage()
    const waiting = order(termsOf(given))
    await queueing()
    clock.set(given.expiry - 1)
    release()
    expect([(await first).status, (await waiting).status]).toEqual([201, 201])
    expect(arrived()).toHaveLength(2)
    expect(await decided('forwarded', 'live')).toBe(1)
  })

  it('is refused at once if its quote has expired before it arrives', async () => {
    const { arrived, clock, first, given, release, order } = await busyStage({ queue: 0 })
    clock.set(given.expiry)
    expectProblem(await order(termsOf(given)), 409, 'quote-expired')
    expect(arrived()).toHaveLength(1)
    expectProblem(await order('{}'), 503, 'saturated')
    release()
    await first
  })

  it('is refused at once where the provider cannot be reached', async () => {
    const { clock, order, quote, upstream } = await orderStage()
    const given = await quote()
    await upstream.close()
    expect(expectProblem(await order(termsOf(given)), 502, 'upstream-unreachable').retryable).toBe(true)
    clock.set(given.expiry)
    expectProblem(await order(termsOf(given)), 409, 'quote-expired')
  })

  it('for the rest of its own body is judged when that is there', async () => {
    for (const [lateMs, status] of [
      [-1, 201],
      [0, 409],
    ] as const) {
      const { arrived, clock, gateway, quote } = await orderStage()
      const given = await quote()
      const bytes = post(text(termsOf(given)))
      const client = new RawConnection(gateway.url)
      client.write(bytes.subarray(0, -5))
      await pause(100)
      clock.set(given.expiry + lateMs)
      client.write(bytes.subarray(-5))
      expect((await client.answer()).status).toBe(status)
      expect(arrived()).toHaveLength(status === 201 ? 1 : 0)
    }
  })

  it('and expires after it was sent, is judged by the provider', async () => {
    const { arrived, clock, gateway, provider, quote } = await orderStage()
    const given = await quote()
    clock.set(given.expiry - 1)
    provider.takeOrder = (_request, response) => {
      clock.set(given.expiry + 60_000)
      response.writeHead(422, { 'Content-Length': 14 }).end('{"code":"OLD"}')
    }
    const { status, body } = await rawExchange(gateway.url, post(text(termsOf(given))))
    expect([status, body.toString()]).toEqual([422, '{"code":"OLD"}'])
    expect(arrived()).toHaveLength(1)
  })
})

describe('the client of an order leaves', () => {
  it.each(['destroy', 'resetAndDestroy'] as const)(
    'after it was sent (%s): the answer is still read, and the used quote is evicted',
    async (leave) => {
      const escaped = escapedErrors()
      const { gateway, provider, quote } = await orderStage()
      const given = await quote()
      const held: ServerResponse[] = []
      provider.takeOrder = (_request, response) => {
        held.push(response)
      }
      const client = new RawConnection(gateway.url)
      client.write(post(text(termsOf(given))))
      await until(() => held.length === 1, 'the order to arrive')
      client.socket[leave]()
      await pause(100)
      expect((await quote()).id).toBe(given.id)
      held[0]?.writeHead(201).end('{"id":"order-1"}')
      const answered = 'quotegate_upstream_requests_total{upstream="swap",outcome="answered"}'
      await untilCounted(gateway, answered, 2)
      expect((await quote()).id).not.toBe(given.id)
      expect(escaped).toEqual([])
    },
  )

  it.each(['destroy', 'resetAndDestroy'] as const)(
    'while it waits for a connection (%s): it is never sent',
    async (leave) => {
      const { arrived, decided, first, gateway, given, order, release } = await busyStage()
      const client = new RawConnection(gateway.url)
      const inFlight = 'quotegate_upstream_requests_in_flight{upstream="swap"}'
      client.write(post(text(termsOf(given))))
      await untilCounted(gateway, inFlight, 2)
      // A client that leaves right behind its request looks like one that only closes its own side.
      await queueing()
      client.socket[leave]()
      await untilCounted(gateway, inFlight, 1)
      release()
      await first
      expect((await order('{"last":true}')).status).toBe(201)
      expect(arrived().map(({ body }) => body.toString())).toEqual(['{"first":true}', '{"last":true}'])
      expect(await decided('forwarded', 'live')).toBe(0)
    },
  )

  it.each([
    ['/v3/orders/float', [], 413, 'order-too-large'],
    ['/v3/orders', ['Via: 1.1 quotegate'], 508, 'loop-detected'],
  ])('after a refusal of its endless body (%s): no error escapes later', async (path, via, ...refusal) => {
    const escaped = escapedErrors()
    const { gateway } = await orderStage({ bodyIdleTimeoutMs: 500 })
    const client = new RawConnection(gateway.url)
    client.write(post('', { path, headers: ['Transfer-Encoding: chunked', ...via] }))
    client.write(`186a0\r\n${'x'.repeat(100_000)}\r\n`)
    expectProblem(await client.answer(), ...refusal)
    await client.closed()
    await pause(1_000)
    expect(escaped).toEqual([])
  })
})

describe('an order that takes longer than UPSTREAM_TOTAL_TIMEOUT_MS', () => {
  it('at the provider may have been carried out: it is not retryable', async () => {
    const { arrived, order, provider, quote } = await orderStage({ UPSTREAM_TOTAL_TIMEOUT_MS: 300 })
    const given = await quote()
    provider.takeOrder = () => {}
    const answer = await order(termsOf(given))
    expect(expectProblem(answer, 504, 'upstream-timeout').retryable).toBe(false)
    expect(proxyStatus(answer)).toBe('quotegate; error=http_response_timeout')
    expect(arrived()).toHaveLength(1)
    // It may have used its quote.
    expect((await quote()).id).not.toBe(given.id)
  })
})
