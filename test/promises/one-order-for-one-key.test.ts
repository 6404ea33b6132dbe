import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import type { Taken } from '../../src/client/rate-limiter.ts'
import { ask } from '../operations/support.ts'
import { floatPath, orderStage, post } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import { counted } from '../support/clients/quotes.ts'
import { RawConnection, valuesOf } from '../support/clients/raw-connection.ts'
import { until } from '../support/gateways/between.ts'
import { keptLog } from '../support/observing/log-lines.ts'

const plainPath = '/v3/orders'
const body = JSON.stringify({ pairId: 'ETH_USDC', fromAmount: '0.1', toAddress: '0xab' })
const lookup = '/v3/orders?toAddress=0xab'
const keyed = (key: string, ...more: string[]) => [
  `Idempotency-Key: ${key}`,
  'App-Name: wallet',
  ...more,
]
const series = (result: string) => `quotegate_order_keys_total{result="${result}"}`

/** Orders to this path, and a provider whose answers may wait in `held` until they are let go. */
async function keyStage(path: string, ...how: Parameters<typeof orderStage>) {
  const stage = await orderStage(...how)
  const held: ServerResponse[] = []
  const bytesOf = (key: string, ...more: string[]) =>
    post(body, { path, headers: keyed(key, ...more) })
  return {
    ...stage,
    held,
    hold: () => {
      stage.provider.takeOrder = (_request, response) => void held.push(response)
    },
    answer: (status: number, text = '') => {
      stage.provider.takeOrder = (_request, response) =>
        response.writeHead(status).end(text)
    },
    send: (key = 'k', ...more: string[]) =>
      stage.order(body, { path, headers: keyed(key, ...more) }),
    /** On a connection that the test may close. */
    begin: (key = 'k', ...more: string[]) => {
      const client = new RawConnection(stage.gateway.url)
      client.write(bytesOf(key, ...more))
      return client
    },
    atProvider: (count: number) =>
      until(() => held.length === count, 'the order is at the provider'),
  }
}

describe.each([floatPath, plainPath])(
  'an order with an Idempotency-Key is sent once for its key, however often it comes: to POST %s',
  (path) => {
    it('the second is answered with the bytes of the first, whatever its other headers say', async () => {
      const { arrived, gateway, provider, send } = await keyStage(path)
      provider.takeOrder = (_request, response) => {
        response.setHeader('X-Provider', ['a', 'b'])
        response
          .writeHead(201, 'Made')
          .end(`{"id":"order-${arrived().length}", "note": "\u00e9" }`)
      }
      const first = await send(
        'click-1',
        'Connection: Idempotency-Key',
        'Quotegate-Quote: a',
      )
      const second = await send('"click-1"', 'Quotegate-Quote: b')
      expect(arrived().map(({ headers }) => headers['idempotency-key'])).toEqual([
        'click-1',
      ])
      expect([second.status, second.reason, second.body]).toEqual([
        201,
        'Made',
        first.body,
      ])
      expect(valuesOf(second.rawHeaders, 'x-provider')).toEqual(['a', 'b'])
      const replayed = [first, second].map(({ rawHeaders }) =>
        valuesOf(rawHeaders, 'idempotent-replayed'),
      )
      expect(replayed).toEqual([[], ['true']])
      expect([
        await counted(gateway, series('claimed')),
        await counted(gateway, series('replayed')),
      ]).toEqual([1, 1])
    })

    it('while it is on its way, the second has to ask again', async () => {
      const { arrived, atProvider, begin, held, hold, send } = await keyStage(path)
      hold()
      const first = begin()
      await atProvider(1)
      const refused = await send()
      expectProblem(refused, 409, 'order-in-progress')
      expect(valuesOf(refused.rawHeaders, 'retry-after')).toEqual(['1'])
      held[0]?.writeHead(201).end('{"id":"o"}')
      expect((await first.answer()).status).toBe(201)
      expect((await send()).body.toString()).toBe('{"id":"o"}')
      expect(arrived()).toHaveLength(1)
    })

    it('is refused with other bytes, at another target, or with more than can be kept', async () => {
      const { arrived, order, send } = await keyStage(path)
      await send()
      const headers = keyed('k')
      expectProblem(
        await order(`${body} `, { path, headers }),
        422,
        'idempotency-key-reused',
      )
      expectProblem(
        await order(body, { path: `${path}?a`, headers }),
        422,
        'idempotency-key-reused',
      )
      const long = JSON.stringify({ a: 'x'.repeat(65_536) })
      expectProblem(
        await order(long, { path, headers: keyed('l') }),
        413,
        'order-too-large',
      )
      expect(arrived()).toHaveLength(1)
    })

    it('is another order of another application, or with another Authorization', async () => {
      const { arrived, order, send } = await keyStage(path)
      for (const more of [[], ['Authorization: Bearer a'], ['Authorization: Bearer b']])
        await send('k', ...more)
      await order(body, { path, headers: ['Idempotency-Key: k', 'App-Name: shop'] })
      expect(arrived()).toHaveLength(4)
    })

    it('takes keys of 255 characters and quotes within quotes, and refuses what is not one key', async () => {
      const { arrived, send } = await keyStage(path)
      for (const key of ['', '""', 'a b', '"a', '"a"; b=1', 'a'.repeat(256), '\u00e9'])
        expectProblem(await send(key), 400, 'bad-idempotency-key')
      expectProblem(await send('a', 'Idempotency-Key: b'), 400, 'bad-idempotency-key')
      expect(arrived()).toHaveLength(0)
      for (const key of ['a'.repeat(255), '"a\\"b\\\\c"', 'a"b\\c', 'a"b'])
        expect((await send(key)).status).toBe(201)
      // The second and the third are the same key.
      expect(arrived()).toHaveLength(3)
    })

    it.each<[how: string, status: number, fail: (response: ServerResponse) => unknown]>([
      ['does not come in time', 504, () => {}],
      ['is reset', 502, (response) => response.destroy()],
      [
        'is cut after its head',
        502,
        (response) => {
          response.writeHead(201, { 'Content-Length': 100 }).write('{')
          setTimeout(() => response.destroy(), 50)
        },
      ],
    ])(
      'has an unknown outcome if its answer %s, and is not sent again',
      async (_how, status, fail) => {
        const settings = status === 504 ? { UPSTREAM_TOTAL_TIMEOUT_MS: '1000' } : {}
        const { arrived, gateway, provider, send } = await keyStage(path, settings)
        provider.takeOrder = (_request, response) => void fail(response)
        expect((await send()).status).toBe(status)
        for (let again = 0; again < 2; again += 1)
          expect(expectProblem(await send(), 409, 'order-outcome-unknown')).toMatchObject(
            {
              lookup,
              retryable: false,
            },
          )
        expect(arrived()).toHaveLength(1)
        expect(await counted(gateway, series('unknown'))).toBe(2)
      },
    )

    it("keeps the provider's own failures, but not its 429, which says nothing of the order", async () => {
      const { arrived, answer, send } = await keyStage(path)
      const failures = [400, 404, 500, 502, 503, 504]
      for (const status of failures) {
        answer(status, 'no')
        for (let times = 0; times < 2; times += 1) {
          const answered = await send(`k${status}`)
          expect([answered.status, answered.body.toString()]).toEqual([status, 'no'])
        }
      }
      expect(arrived()).toHaveLength(failures.length)
      answer(429)
      expect((await send()).status).toBe(429)
      answer(201)
      expect((await send()).status).toBe(201)
    })

    it('is not sent again either if its answer is too long to be kept, or cannot be written', async () => {
      const { arrived, answer, provider, send } = await keyStage(path)
      const long = 'x'.repeat(65_537)
      answer(201, long)
      expect((await send('long')).body.toString()).toBe(long)
      expect(expectProblem(await send('long'), 409, 'order-answered')).toMatchObject({
        lookup,
      })
      provider.takeOrder = (_request, response) => {
        response.socket?.end('HTTP/1.1 201 Cre\x01ated\r\nContent-Length: 2\r\n\r\n{}')
      }
      for (let times = 0; times < 2; times += 1)
        expect(expectProblem(await send('odd'), 502, 'upstream-invalid')).toMatchObject({
          lookup,
          accepted: true,
        })
      expect(arrived()).toHaveLength(2)
    })

    it.each([
      ['its caller left before it was sent', {}],
      ['the gateway refused the order unsent', { queue: 0 }],
    ])('is free again where %s', async (_why, settings) => {
      const { arrived, atProvider, begin, gateway, held, hold, send } = await keyStage(
        path,
        {
          UPSTREAM_CONNECTIONS: 1,
          ...settings,
        },
      )
      hold()
      const busy = begin('busy')
      await atProvider(1)
      const unsent = begin()
      if ('queue' in settings) expectProblem(await unsent.answer(), 503, 'saturated')
      else await expect.poll(() => counted(gateway, series('claimed'))).toBe(2)
      unsent.socket.destroy()
      await expect
        .poll(() => counted(gateway, 'quotegate_http_requests_in_flight'))
        .toBe(1)
      held[0]?.writeHead(201).end()
      await busy.answer()
      const sent = send()
      await atProvider(2)
      held[1]?.writeHead(201).end()
      expect((await sent).status).toBe(201)
      expect(arrived()).toHaveLength(2)
    })

    it('is free at once where its caller leaves while the order waits for a connection', async () => {
      const { arrived, atProvider, begin, gateway, held, hold } = await keyStage(path, {
        UPSTREAM_CONNECTIONS: 1,
      })
      hold()
      const busy = begin('busy')
      await atProvider(1)
      const unsent = begin()
      await expect.poll(() => counted(gateway, series('claimed'))).toBe(2)
      unsent.socket.destroy()
      await expect
        .poll(() => counted(gateway, 'quotegate_http_requests_in_flight'))
        .toBe(1)
      // The connection is still held: only the caller's end can have freed the key.
      const again = begin()
      await expect.poll(() => counted(gateway, series('claimed'))).toBe(3)
      for (const number of [0, 1]) {
        await atProvider(number + 1)
        held[number]?.writeHead(201).end()
      }
      for (const one of [busy, again]) expect((await one.answer()).status).toBe(201)
      expect(arrived()).toHaveLength(2)
    })

    it('keeps the answer of an order whose caller left meanwhile', async () => {
      const { arrived, atProvider, begin, held, hold, send } = await keyStage(path)
      hold()
      const first = begin()
      await atProvider(1)
      first.socket.destroy()
      held[0]?.writeHead(201).end('{"id":"o"}')
      await expect.poll(async () => (await send()).status, { timeout: 20_000 }).toBe(201)
      expect(arrived()).toHaveLength(1)
    })

    it('is answered again without a connection, also to a client that waits for 100 Continue', async () => {
      const { arrived, atProvider, begin, gateway, held, hold } = await keyStage(path, {
        UPSTREAM_CONNECTIONS: 1,
        queue: 0,
      })
      hold()
      const one = begin()
      await atProvider(1)
      held[0]?.writeHead(201).end('{"id":"o"}')
      expect((await one.answer()).status).toBe(201)
      begin('another')
      await atProvider(2)
      const other = new RawConnection(gateway.url)
      for (const [key, status] of [
        ['k', 201],
        ['another', 409],
        ['new', 503],
      ] as const) {
        const headers = keyed(
          key,
          'Expect: 100-continue',
          `Content-Length: ${body.length}`,
        )
        other.write(post('', { path, headers }))
        await until(
          () => other.received.includes('100 Continue\r\n\r\n'),
          'its body is asked for',
        )
        other.write(body)
        const answered = await other.answer()
        expect([answered.status, answered.informational]).toEqual([status, [100]])
      }
      expect(arrived()).toHaveLength(2)
      // Or the gateway would end only after its drain.
      held[1]?.end()
    })

    it('is answered again past the rate limit', async () => {
      const { send } = await keyStage(path, { RATE_LIMIT_PER_MINUTE: 1 })
      expect((await send()).status).toBe(201)
      expectProblem(await send('l'), 429, 'rate-limited')
      expect(valuesOf((await send()).rawHeaders, 'idempotent-replayed')).toEqual(['true'])
    })

    it('may be sent again if a rate limiter failed, because nothing was sent', async () => {
      const taken: Taken[] = []
      const rateLimiter = {
        perMinute: 10,
        take: async () => taken.pop() ?? Promise.reject(new Error('away')),
      }
      const { send } = await keyStage(
        path,
        { RATE_LIMIT_PER_MINUTE: 10 },
        { rateLimiter },
      )
      expectProblem(await send(), 500, 'internal-error')
      taken.push({ allowed: true, remaining: 4, resetMs: 30_000 })
      expect((await send()).status).toBe(201)
    })
  },
)

it('a float order with a key is answered again after its quote has expired; one that was refused may be tried again', async () => {
  const { arrived, clock, order, quote } = await orderStage()
  const { id, expiry } = await quote()
  const send = (quoteId: string, key: string) =>
    order({ quoteId }, { headers: keyed(key) })
  expect((await send(id, 'k')).status).toBe(201)
  clock.set(expiry + 1_000)
  expect((await send(id, 'k')).status).toBe(201)
  expectProblem(await send(id, 'l'), 409, 'quote-expired')
  expect((await send((await quote()).id, 'l')).status).toBe(201)
  expect(arrived()).toHaveLength(2)
})

it('a key is forgotten after a day', async () => {
  const { arrived, clock, send } = await keyStage(floatPath)
  await send()
  clock.advance(86_400_000 - 1)
  await send()
  expect(arrived()).toHaveLength(1)
  clock.advance(1)
  await send()
  expect(arrived()).toHaveLength(2)
})

it('a fixed order is answered again though the quote that it names became known since', async () => {
  const { arrived, order, provider, quote } = await orderStage()
  const send = (key: string) =>
    order({ quoteId: 'q-77' }, { path: plainPath, headers: keyed(key) })
  expect((await send('k')).status).toBe(201)
  provider.quote = { id: 'q-77' }
  await quote()
  expect((await send('k')).status).toBe(201)
  expectProblem(await send('l'), 409, 'float-order-required')
  expect(arrived()).toHaveLength(1)
})

it('an order without a key is sent a second time for its quote, which is counted and logged', async () => {
  const log = await keptLog()
  const { arrived, gateway, order, provider, quote } = await orderStage(
    {},
    { logger: log.logger },
  )
  const repeated = () => counted(gateway, 'quotegate_float_orders_repeated_total')
  const [{ id }, { id: another }] = [await quote('0.1'), await quote('0.2')]
  const take = provider.takeOrder
  provider.takeOrder = (_request, response) => response.writeHead(400).end()
  await order({ quoteId: id })
  provider.takeOrder = take
  // None of these is the second that was sent for its quote and not refused.
  for (const body of [{ quoteId: id }, { quoteId: another }, {}]) await order(body)
  expect(await repeated()).toBe(0)
  for (let times = 1; times <= 2; times += 1) {
    expect((await order({ quoteId: id })).status).toBe(201)
    expect(await repeated()).toBe(times)
  }
  expect(arrived()).toHaveLength(6)
  expect(log.text()).toContain('a second order went out for a quote')
  const { events } = JSON.parse((await ask(`${gateway.operationsUrl}/status`)).body)
  const said = events.map(({ text }: { text: string }) => text).join('\n')
  // A line for all of them, and one for the quote that they had used.
  expect([
    said.split('2 orders were sent for a quote').length,
    said.split('had used').length,
  ]).toEqual([2, 2])
})
