import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import { ask } from '../operations/support.ts'
import { floatPath, orderStage, post } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import { counted } from '../support/clients/quotes.ts'
import { RawConnection, rawExchange, valuesOf } from '../support/clients/raw-connection.ts'
import { until } from '../support/gateways/between.ts'
import { keptLog } from '../support/observing/log-lines.ts'

const plainPath = '/v3/orders'
const body = JSON.stringify({ pairId: 'ETH_USDC', fromAmount: '0.1', toAddress: '0xab' })
const lookup = '/v3/orders?toAddress=0xab'
const keyed = (key: string, ...more: string[]) => [`Idempotency-Key: ${key}`, 'App-Name: wallet', ...more]
const series = (result: string) => `quotegate_order_keys_total{result="${result}"}`

/** A provider whose answers wait until they are let go. */
async function heldOrders(settings: Parameters<typeof orderStage>[0] = {}) {
  const stage = await orderStage(settings)
  const held: ServerResponse[] = []
  stage.provider.takeOrder = (_request, response) => void held.push(response)
  return { ...stage, held }
}

describe.each([floatPath, plainPath])(
  'an order with an Idempotency-Key is sent once for its key, however often it comes: to POST %s',
  (path) => {
    it('the second is answered with the bytes of the first', async () => {
      const { arrived, gateway, order, provider } = await orderStage()
      let orders = 0
      provider.takeOrder = (_request, response) => {
        orders += 1
        response.setHeader('X-Provider', ['a', 'b'])
        response.writeHead(201, 'Made', { 'Content-Type': 'application/json' })
        response.end(`{"id":"order-${orders}", "note": "\u00e9" }`)
      }
      const first = await order(body, { path, headers: keyed('click-1') })
      const second = await order(body, { path, headers: keyed('"click-1"') })
      expect(first.status).toBe(201)
      expect(arrived()).toHaveLength(1)
      expect(arrived()[0]?.headers['idempotency-key']).toBe('click-1')
      expect([second.status, second.reason]).toEqual([201, 'Made'])
      expect(second.body).toEqual(first.body)
      expect(valuesOf(second.rawHeaders, 'x-provider')).toEqual(['a', 'b'])
      expect(valuesOf(first.rawHeaders, 'idempotent-replayed')).toEqual([])
      expect(valuesOf(second.rawHeaders, 'idempotent-replayed')).toEqual(['true'])
      expect(await counted(gateway, series('claimed'))).toBe(1)
      expect(await counted(gateway, series('replayed'))).toBe(1)
    })

    it('is sent once though both come at once; the second has to ask again', async () => {
      const { arrived, gateway, held } = await heldOrders()
      const [one, other] = [new RawConnection(gateway.url), new RawConnection(gateway.url)]
      one.write(post(body, { path, headers: keyed('k') }))
      await until(() => held.length === 1, 'the first order is at the provider')
      other.write(post(body, { path, headers: keyed('k') }))
      const refused = await other.answer()
      expectProblem(refused, 409, 'order-in-progress')
      expect(valuesOf(refused.rawHeaders, 'retry-after')).toEqual(['1'])
      held[0]?.writeHead(201).end('{"id":"o"}')
      expect((await one.answer()).status).toBe(201)
      other.write(post(body, { path, headers: keyed('k') }))
      expect((await other.answer()).body.toString()).toBe('{"id":"o"}')
      expect(arrived()).toHaveLength(1)
    })

    it('is refused with other bytes, or at another target', async () => {
      const { arrived, order } = await orderStage()
      await order(body, { path, headers: keyed('k') })
      expectProblem(await order(`${body} `, { path, headers: keyed('k') }), 422, 'idempotency-key-reused')
      expectProblem(
        await order(body, { path: `${path}?a=1`, headers: keyed('k') }),
        422,
        'idempotency-key-reused',
      )
      expect(arrived()).toHaveLength(1)
    })

    it('is sent once though Connection names the header', async () => {
      const { arrived, order } = await orderStage()
      const headers = keyed('k', 'Connection: keep-alive, Idempotency-Key')
      for (let times = 0; times < 2; times += 1)
        expect((await order(body, { path, headers })).status).toBe(201)
      expect(arrived().map((sent) => sent.headers['idempotency-key'])).toEqual(['k'])
    })

    it('is another order of another application, or with another Authorization', async () => {
      const { arrived, order } = await orderStage()
      await order(body, { path, headers: keyed('k') })
      await order(body, { path, headers: ['Idempotency-Key: k', 'App-Name: shop'] })
      await order(body, { path, headers: keyed('k', 'Authorization: Bearer a') })
      await order(body, { path, headers: keyed('k', 'Authorization: Bearer b') })
      expect(arrived()).toHaveLength(4)
    })

    it.each([
      ['two', ['Idempotency-Key: a', 'Idempotency-Key: b']],
      ['an empty one', ['Idempotency-Key: ']],
      ['an empty one in quotes', ['Idempotency-Key: ""']],
      ['a blank in it', ['Idempotency-Key: a b']],
      ['a quote that does not end', ['Idempotency-Key: "a']],
      ['parameters', ['Idempotency-Key: "a"; b=1']],
      ['256 characters', [`Idempotency-Key: ${'a'.repeat(256)}`]],
      ['a byte past ASCII', ['Idempotency-Key: \u00e9']],
    ])('is refused without a key that is one: %s', async (_what, headers) => {
      const { arrived, order } = await orderStage()
      const answer = await order(body, { path, headers: ['App-Name: wallet', ...headers] })
      expectProblem(answer, 400, 'bad-idempotency-key')
      expect(arrived()).toHaveLength(0)
    })

    it('takes 255 characters, and quotes within quotes', async () => {
      const { arrived, order } = await orderStage()
      for (const key of ['a'.repeat(255), '"a\\"b\\\\c"', 'a"b\\c', 'a"b'])
        expect((await order(body, { path, headers: keyed(key) })).status).toBe(201)
      // The second and the third are the same key.
      expect(arrived()).toHaveLength(3)
    })

    it('has an unknown outcome after a timeout of ours, and is not sent again', async () => {
      const { arrived, gateway, order, provider } = await orderStage({ UPSTREAM_TOTAL_TIMEOUT_MS: '300' })
      provider.takeOrder = () => {}
      const first = await order(body, { path, headers: keyed('k') })
      expectProblem(first, 504, 'upstream-timeout')
      for (let again = 0; again < 2; again += 1)
        expect(
          expectProblem(await order(body, { path, headers: keyed('k') }), 409, 'order-outcome-unknown'),
        ).toMatchObject({ lookup, retryable: false })
      expect(arrived()).toHaveLength(1)
      expect(await counted(gateway, series('unknown'))).toBe(2)
    })

    it.each([
      ['reset', (response: ServerResponse) => response.destroy()],
      [
        'cut after its head',
        (response: ServerResponse) => {
          response.writeHead(201, { 'Content-Length': 100 })
          response.write('{')
          setTimeout(() => response.destroy(), 50)
        },
      ],
    ])('has an unknown outcome when its answer is %s', async (_how, fail) => {
      const { arrived, order, provider } = await orderStage()
      provider.takeOrder = (_request, response) => fail(response)
      expect((await order(body, { path, headers: keyed('k') })).status).toBe(502)
      expectProblem(await order(body, { path, headers: keyed('k') }), 409, 'order-outcome-unknown')
      expect(arrived()).toHaveLength(1)
    })

    it.each([400, 404, 500, 502, 503, 504])("keeps the provider's own %d", async (status) => {
      const { arrived, order, provider } = await orderStage()
      provider.takeOrder = (_request, response) => response.writeHead(status).end('no')
      for (let times = 0; times < 2; times += 1) {
        const answer = await order(body, { path, headers: keyed('k') })
        expect([answer.status, answer.body.toString()]).toEqual([status, 'no'])
      }
      expect(arrived()).toHaveLength(1)
    })

    it("is sent again after the provider's 429, which says nothing of it", async () => {
      const { arrived, order, provider } = await orderStage()
      provider.takeOrder = (_request, response) => response.writeHead(429).end()
      await order(body, { path, headers: keyed('k') })
      provider.takeOrder = (_request, response) => response.writeHead(201).end()
      expect((await order(body, { path, headers: keyed('k') })).status).toBe(201)
      expect(arrived()).toHaveLength(2)
    })

    it('is not answered again with more than 64 KiB, and not sent again either', async () => {
      const { arrived, order, provider } = await orderStage()
      const long = 'x'.repeat(65_537)
      provider.takeOrder = (_request, response) => response.writeHead(201).end(long)
      expect((await order(body, { path, headers: keyed('k') })).body.toString()).toBe(long)
      const again = expectProblem(await order(body, { path, headers: keyed('k') }), 409, 'order-answered')
      expect(again).toMatchObject({ lookup })
      expect(arrived()).toHaveLength(1)
    })

    it('is refused with a body of more than 64 KiB', async () => {
      const { arrived, order } = await orderStage()
      const long = JSON.stringify({ a: 'x'.repeat(65_536) })
      expectProblem(await order(long, { path, headers: keyed('k') }), 413, 'order-too-large')
      expect(arrived()).toHaveLength(0)
    })

    it('is free again where its client left before it was sent', async () => {
      const { arrived, gateway, held, order } = await heldOrders({ UPSTREAM_CONNECTIONS: 1 })
      const first = new RawConnection(gateway.url)
      first.write(post(body, { path, headers: keyed('busy') }))
      await until(() => held.length === 1, 'the only connection is taken')
      const left = new RawConnection(gateway.url)
      left.write(post(body, { path, headers: keyed('k') }))
      await expect.poll(() => counted(gateway, series('claimed'))).toBe(2)
      left.socket.destroy()
      held[0]?.writeHead(201).end()
      await first.answer()
      const sent = order(body, { path, headers: keyed('k') })
      await until(() => held.length === 2, 'the order is sent when it comes again')
      held[1]?.writeHead(201).end()
      expect((await sent).status).toBe(201)
      expect(arrived()).toHaveLength(2)
    })

    it('keeps the answer of an order whose client left meanwhile', async () => {
      const { arrived, gateway, held, order } = await heldOrders()
      const first = new RawConnection(gateway.url)
      first.write(post(body, { path, headers: keyed('k') }))
      await until(() => held.length === 1, 'the order is at the provider')
      first.socket.destroy()
      held[0]?.writeHead(201).end('{"id":"o"}')
      await expect
        .poll(async () => (await order(body, { path, headers: keyed('k') })).status, { timeout: 20_000 })
        .toBe(201)
      expect(arrived()).toHaveLength(1)
    })

    it('that was answered with what cannot be written is a 502 with `lookup`, and has an answer that is not sent again', async () => {
      const { arrived, order, provider } = await orderStage()
      provider.takeOrder = (_request, response) => {
        response.socket?.end('HTTP/1.1 201 Cre\x01ated\r\nContent-Length: 2\r\n\r\n{}')
      }
      for (let times = 0; times < 2; times += 1) {
        const answered = await order(body, { path, headers: keyed('k') })
        expect(expectProblem(answered, 502, 'upstream-invalid')).toMatchObject({ lookup, accepted: true })
      }
      expect(arrived()).toHaveLength(1)
    })

    it('is free again where the gateway refused the order unsent', async () => {
      const { arrived, gateway, held, order } = await heldOrders({ UPSTREAM_CONNECTIONS: 1, queue: 0 })
      const busy = new RawConnection(gateway.url)
      busy.write(post(body, { path, headers: keyed('busy') }))
      await until(() => held.length === 1, 'the only connection is taken')
      expectProblem(await order(body, { path, headers: keyed('k') }), 503, 'saturated')
      held[0]?.writeHead(201).end()
      await busy.answer()
      const sent = order(body, { path, headers: keyed('k') })
      await until(() => held.length === 2, 'the order is sent when it comes again')
      held[1]?.writeHead(201).end()
      expect((await sent).status).toBe(201)
      expect(arrived()).toHaveLength(2)
    })

    it('is answered again without a connection, also to a client that waits for 100 Continue', async () => {
      const { arrived, gateway, held } = await heldOrders({ UPSTREAM_CONNECTIONS: 1, queue: 0 })
      const [one, other] = [new RawConnection(gateway.url), new RawConnection(gateway.url)]
      one.write(post(body, { path, headers: keyed('k') }))
      await until(() => held.length === 1, 'the first order is at the provider')
      held[0]?.writeHead(201).end('{"id":"o"}')
      expect((await one.answer()).status).toBe(201)
      one.write(post(body, { path, headers: keyed('another') }))
      await until(() => held.length === 2, 'the only connection is taken')
      for (const [key, status] of [
        ['k', 201],
        ['another', 409],
        ['new', 503],
      ] as const) {
        const [head, bytes] = [keyed(key, 'Expect: 100-continue', `Content-Length: ${body.length}`), body]
        other.write(post('', { path, headers: head }))
        await until(() => other.received.includes('100 Continue\r\n\r\n'), 'its body is asked for')
        other.write(bytes)
        const { status: answered, informational } = await other.answer()
        expect([answered, informational]).toEqual([status, [100]])
      }
      expect(arrived()).toHaveLength(2)
    })

    it('is the same order whatever Quotegate-Quote says', async () => {
      const { arrived, order } = await orderStage()
      expect((await order(body, { path, headers: keyed('k', 'Quotegate-Quote: a') })).status).toBe(201)
      const again = await order(body, { path, headers: keyed('k', 'Quotegate-Quote: b') })
      expect(valuesOf(again.rawHeaders, 'idempotent-replayed')).toEqual(['true'])
      expect(arrived()).toHaveLength(1)
    })

    it('is answered again past the rate limit', async () => {
      const { arrived, order } = await orderStage({ RATE_LIMIT_PER_MINUTE: 1 })
      expect((await order(body, { path, headers: keyed('k') })).status).toBe(201)
      expectProblem(await order(body, { path, headers: keyed('l') }), 429, 'rate-limited')
      expect((await order(body, { path, headers: keyed('k') })).status).toBe(201)
      expect(arrived()).toHaveLength(1)
    })
  },
)

describe('a float order with an Idempotency-Key', () => {
  it('is answered again after its quote has expired', async () => {
    const { arrived, clock, order, quote } = await orderStage()
    const { id, expiry } = await quote()
    const terms = { quoteId: id }
    expect((await order(terms, { headers: keyed('k') })).status).toBe(201)
    clock.set(expiry + 1_000)
    expect((await order(terms, { headers: keyed('k') })).status).toBe(201)
    expectProblem(await order(terms, { headers: keyed('l') }), 409, 'quote-expired')
    expect(arrived()).toHaveLength(1)
  })

  it('that was refused may be tried again with its key', async () => {
    const { arrived, clock, order, quote } = await orderStage()
    const { id, expiry } = await quote()
    clock.set(expiry + 1_000)
    expectProblem(await order({ quoteId: id }, { headers: keyed('k') }), 409, 'quote-expired')
    const { id: next } = await quote()
    expect((await order({ quoteId: next }, { headers: keyed('k') })).status).toBe(201)
    expect(arrived()).toHaveLength(1)
  })

  it('is forgotten after a day', async () => {
    const { arrived, clock, order } = await orderStage()
    await order(body, { headers: keyed('k') })
    clock.advance(86_400_000 - 1)
    await order(body, { headers: keyed('k') })
    expect(arrived()).toHaveLength(1)
    clock.advance(1)
    await order(body, { headers: keyed('k') })
    expect(arrived()).toHaveLength(2)
  })
})

it('a fixed order is answered again though the quote that it names became known since', async () => {
  const { arrived, order, provider, quote } = await orderStage()
  const named = { quoteId: 'q-77', pairId: 'ETH_USDC', fromAmount: '0.1' }
  expect((await order(named, { path: plainPath, headers: keyed('k') })).status).toBe(201)
  provider.quote = { id: 'q-77' }
  await quote()
  expect((await order(named, { path: plainPath, headers: keyed('k') })).status).toBe(201)
  expectProblem(await order(named, { path: plainPath, headers: keyed('l') }), 409, 'float-order-required')
  expect(arrived()).toHaveLength(1)
})

describe('an order without a key', () => {
  it('is sent a second time for its quote, counted and logged', async () => {
    const log = await keptLog()
    const { arrived, gateway, order, quote } = await orderStage({}, { logger: log.logger })
    const { id } = await quote()
    const repeated = () => counted(gateway, 'quotegate_float_orders_repeated_total')
    expect((await order({ quoteId: id })).status).toBe(201)
    expect(await repeated()).toBe(0)
    expect((await order({ quoteId: id })).status).toBe(201)
    expect(await repeated()).toBe(1)
    expect(arrived()).toHaveLength(2)
    expect(log.text()).toContain('a second order went out for a quote')
    await order({ quoteId: id })
    const { events } = JSON.parse((await ask(`${gateway.operationsUrl}/history`)).body)
    const said = events.map(({ text }: { text: string }) => text)
    expect(said.filter((text: string) => text.includes('2 orders were sent for a quote'))).toHaveLength(1)
    expect(said.filter((text: string) => text.includes('had used'))).toHaveLength(1)
  })

  it('is not counted after the provider refused the first, nor for a quote of its own', async () => {
    const { gateway, order, provider, quote } = await orderStage()
    const [{ id }, { id: another }] = [await quote('0.1'), await quote('0.2')]
    const take = provider.takeOrder
    provider.takeOrder = (_request, response) => response.writeHead(400).end()
    await order({ quoteId: id })
    provider.takeOrder = take
    await order({ quoteId: id })
    await order({ quoteId: another })
    expect(await counted(gateway, 'quotegate_float_orders_repeated_total')).toBe(0)
    expect(await rawExchange(gateway.url, post('{}'))).toMatchObject({ status: 201 })
  })
})
