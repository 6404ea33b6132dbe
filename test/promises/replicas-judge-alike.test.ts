import { describe, expect, it, onTestFinished } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import type { SettingValue } from '../../src/config/problems.ts'
import { act } from '../operations/support.ts'
import { type GivenQuote, type Post, post, termsOf } from '../support/clients/orders.ts'
import {
  ask,
  counted,
  createTestClock,
  deferred,
  giveQuote,
  quoteBody,
  quotePath,
} from '../support/clients/quotes.ts'
import { RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import { pause, recordingUpstream, until } from '../support/gateways/between.ts'
import { type RunningGateway, startGateway } from '../support/gateways/gateway.ts'
import { eventually, stored } from '../support/gateways/replicas.ts'
import { valkey } from '../support/stores/valkey.ts'

const lifeMs = 30_000
const decided = (decision: string, reason: string) =>
  `quotegate_float_orders_total{decision="${decision}",reason="${reason}"}`

/** Two replicas whose clock stands still until it is set, unless it is `real`, on a real store and before one provider. */
async function orderReplicas(
  settings: Record<string, SettingValue | undefined> = {},
  { real = false, lives = lifeMs } = {},
) {
  const clock = { ...createTestClock(), ...(real ? systemClock : {}) }
  const store = await valkey()
  /** What the provider answers besides quotes waits for this; and what happens before it answers with one. */
  const hold = { until: Promise.resolve(), onQuote() {} }
  const upstream = await recordingUpstream(async ({ method, target }, response) => {
    const date = new Date(clock.nowMs()).toUTCString()
    if (target.startsWith(quotePath)) {
      hold.onQuote()
      const value = new URL(target, 'http://g').searchParams.get('amount')
      const fromAmount = { assetId: 'ETH', value }
      giveQuote(response, quoteBody({ expiry: clock.nowMs() + lives, fromAmount }), ['Date', date])
      return
    }
    await hold.until
    response.sendDate = false
    response.writeHead(method === 'POST' ? 201 : 200, { Date: date })
    response.end('{}')
  })
  const start = async () => {
    const gateway = await startGateway(
      {
        SWAP_BASE_URL: upstream.url,
        VALKEY_URL: store.url,
        VALKEY_TIMEOUT_MS: '2000',
        TRUST_PROXY: 'loopback',
        ...settings,
      },
      { clock },
    )
    onTestFinished(() => gateway.close())
    return gateway
  }
  const [a, b] = [await start(), await start()]
  const untilUp = (up: 0 | 1) =>
    eventually(`the store to be ${up}`, async () => {
      return (await Promise.all([a, b].map((gateway) => counted(gateway, 'quotegate_store_up')))).every(
        (state) => state === up,
      )
    })
  await untilUp(1)

  async function quote(gateway: RunningGateway, amount = '0.1', client = '203.0.113.1'): Promise<GivenQuote> {
    const { status, body, headers } = await ask(gateway.url, {
      path: `${quotePath}?amount=${amount}`,
      headers: ['App-Name', 'wallet', 'Forwarded', `for=${client}`],
    })
    expect(status).toBe(200)
    return { ...JSON.parse(body), cacheStatus: String(headers['cache-status']) }
  }
  const order = (gateway: RunningGateway, body: object, options?: Post) =>
    rawExchange(gateway.url, post(JSON.stringify(body), options))
  const arrived = () => upstream.requests.filter(({ method }) => method === 'POST')
  return { clock, store, start, hold, upstream, a, b, untilUp, quote, order, arrived }
}

const waysToName = [
  ['by its id', ({ id }: GivenQuote) => ({ quoteId: id })],
  ['by its terms', termsOf],
  [
    'by its terms, the amount to receive left open',
    (quote: GivenQuote) => ({ ...termsOf(quote), toAmount: null }),
  ],
] as const

/** A problem without what belongs to one request. */
function problemOf({ status, body }: { status: number; body: Buffer | string }) {
  const { requestId: _, instance: __, ...members } = JSON.parse(String(body))
  return { status, ...members }
}

describe('an order at one replica for a quote that another one served', { tags: ['redis-server'] }, () => {
  it.each(waysToName)('is sent while the quote is live, named %s', async (_how, named) => {
    const { a, b, clock, quote, order, arrived } = await orderReplicas({ ORDER_UNKNOWN_QUOTE: 'refuse' })
    const given = await quote(a)
    clock.advance(lifeMs - 1)
    expect((await order(b, named(given))).status).toBe(201)
    expect(arrived()).toHaveLength(1)
    expect(await counted(b, decided('forwarded', 'live'))).toBe(1)
  })

  it('is refused if the quote has expired, as at the other replica, however it is named', async () => {
    // In real time, because what is left of a quote goes down by the store's clock.
    const { a, b, quote, order, arrived } = await orderReplicas({}, { real: true, lives: 1_000 })
    const given = await Promise.all(waysToName.map((_way, index) => quote(a, `${index + 1}`)))
    // What a note takes on its way to the store and back makes the end later at the other replica.
    await pause(3_000)
    for (const [index, [, named]] of waysToName.entries()) {
      const { id, expiry, ...terms } = given[index] as GivenQuote
      const body = named({ id, expiry, ...terms })
      const { expiredForMs, ...refused } = problemOf(await order(b, body))
      const { expiredForMs: here, ...refusedHere } = problemOf(await order(a, body))
      expect(refused).toEqual(refusedHere)
      expect(refused).toMatchObject({
        status: 409,
        type: 'urn:quotegate:problem:quote-expired',
        quoteId: id,
        expiry,
      })
      expect([expiredForMs > 0, here > 0]).toEqual([true, true])
    }
    expect(arrived()).toEqual([])
  })

  it.each(waysToName)('takes that quote out of circulation, named %s', async (_how, named) => {
    const { a, b, quote, order } = await orderReplicas()
    const given = await quote(a)
    expect((await quote(a)).cacheStatus).toContain('; hit;')
    expect((await order(b, named(given))).status).toBe(201)
    await eventually('another quote', async () => (await quote(a)).id !== given.id)
  })

  it('can be explained there', async () => {
    const { a, b, quote } = await orderReplicas()
    const given = await quote(a)
    const body = JSON.stringify(termsOf(given))
    const said = JSON.parse((await act(b, 'explain', { body, application: 'wallet' })).body)
    expect(said).toMatchObject({ decision: 'forwarded-live', matchedBy: 'pays', quote: { id: given.id } })
  })

  it('is answered float-order-required if it came to the other path', async () => {
    const { a, b, quote, order, arrived } = await orderReplicas()
    const { id } = await quote(a)
    expect(problemOf(await order(b, { quoteId: id }, { path: '/v3/orders' }))).toMatchObject({
      status: 409,
      type: 'urn:quotegate:problem:float-order-required',
      quoteId: id,
    })
    expect((await order(b, { quoteId: 'unknown' }, { path: '/v3/orders' })).status).toBe(201)
    expect(arrived()).toHaveLength(1)
  })

  it('finds that quote at once, because the store has it before its client does', async () => {
    const { a, b, hold, store, quote, order } = await orderReplicas({
      ORDER_UNKNOWN_QUOTE: 'refuse',
      VALKEY_TIMEOUT_MS: '10000',
    })
    // As the provider answers, the store takes a break.
    hold.onQuote = store.freeze
    let answered = false
    const given = quote(a).finally(() => {
      answered = true
    })
    const answers = 'quotegate_upstream_requests_total{upstream="swap",outcome="answered"}'
    await eventually('the quote', async () => (await counted(a, answers)) === 1)
    await pause(100)
    expect(answered).toBe(false)
    store.thaw()
    expect((await order(b, termsOf(await given))).status).toBe(201)
  })

  it('is known there at once', async () => {
    const { a, b, quote, order } = await orderReplicas({ ORDER_UNKNOWN_QUOTE: 'refuse' })
    const statuses = new Set<number>()
    for (let amount = 1; amount <= 60; amount += 1) {
      const given = await quote(amount % 2 === 0 ? a : b, String(amount))
      statuses.add((await order(amount % 2 === 0 ? b : a, termsOf(given))).status)
    }
    expect([...statuses]).toEqual([201])
  })
})

describe('a live order is not refused', { tags: ['redis-server'] }, () => {
  it('at a replica that only knows an older quote of equal terms, which has expired', async () => {
    const { a, b, clock, quote, order } = await orderReplicas()
    const older = await quote(a)
    clock.advance(lifeMs + 1_000)
    // Another client, for by the store's clock, which stood still, the older one could be served.
    const later = await quote(b, '0.1', '198.51.100.1')
    expect(later.id).not.toBe(older.id)
    expect((await order(a, termsOf(older))).status).toBe(201)
    expect(await counted(a, decided('forwarded', 'live'))).toBe(1)
    // While an order that names the older one means that one.
    expect((await order(a, { quoteId: older.id })).status).toBe(409)
  })

  it('when the quote known here expires while it waits, and another replica gave out a later one', async () => {
    const { a, b, clock, hold, quote, order, upstream } = await orderReplicas({ UPSTREAM_CONNECTIONS: 1 })
    const older = await quote(a, '0.1', '203.0.113.1')
    clock.advance(10_000)
    const later = await quote(b, '0.1', '198.51.100.1')
    expect(later.id).not.toBe(older.id)
    clock.advance(10_000)
    const { promise, resolve } = deferred<void>()
    hold.until = promise
    const busy = ask(a.url, { path: '/v3/pairs' })
    await until(() => upstream.requests.some(({ target }) => target === '/v3/pairs'), 'the connection in use')
    const waiting = order(a, termsOf(older))
    await eventually('the order to wait', async () => {
      return (await counted(a, 'quotegate_upstream_requests_in_flight{upstream="swap"}')) === 2
    })
    clock.advance(15_000)
    resolve()
    expect((await busy).status).toBe(200)
    expect((await waiting).status).toBe(201)
    expect(await counted(a, decided('forwarded', 'live'))).toBe(1)
  })
})

describe('while the store is down', { tags: ['redis-server'] }, () => {
  const failures = [
    ['dead', 'kill'],
    ['frozen', 'freeze'],
  ] as const

  it.each(failures)(
    "(%s) the replica's own knowledge decides: live is sent, expired by its id is refused",
    async (_how, fail) => {
      const { a, clock, store, quote, order, untilUp } = await orderReplicas({ VALKEY_TIMEOUT_MS: '200' })
      const given = await quote(a)
      await store[fail]()
      expect((await order(a, termsOf(given))).status).toBe(201)
      await untilUp(0)
      clock.advance(lifeMs)
      expect((await order(a, { quoteId: given.id })).status).toBe(409)
      expect(await counted(a, decided('refused', 'expired'))).toBe(1)
    },
  )

  it('an expired quote that only the store knew is unknown to a replica that starts then, and counted so', async () => {
    const { a, clock, store, start, quote, order, untilUp } = await orderReplicas()
    const given = await quote(a)
    await store.kill()
    await untilUp(0)
    const late = await start()
    clock.advance(lifeMs)
    expect((await order(late, termsOf(given))).status).toBe(201)
    expect((await order(late, { quoteId: given.id })).status).toBe(201)
    expect(await counted(late, decided('forwarded', 'unknown'))).toBe(2)
  })

  it.each(['forward', 'refuse'])(
    'terms that expired here may be live elsewhere, and refuse no order (%s)',
    async (unknown) => {
      const settings = { ORDER_UNKNOWN_QUOTE: unknown }
      const { a, b, clock, store, quote, order, untilUp } = await orderReplicas(settings)
      const older = await quote(a)
      await store.kill()
      await untilUp(0)
      clock.advance(lifeMs + 1_000)
      const later = await quote(b)
      expect((await order(a, termsOf(later))).status).toBe(201)
      expect((await order(a, { quoteId: later.id })).status).toBe(201)
      expect(await counted(a, decided('forwarded', 'unknown'))).toBe(2)
      expect((await order(a, { quoteId: older.id })).status).toBe(409)
    },
  )

  it('a fixed order whose client leaves while the store is asked is not sent', async () => {
    const { a, store, arrived } = await orderReplicas({ VALKEY_TIMEOUT_MS: '500' })
    store.freeze()
    const client = new RawConnection(a.url)
    client.write(post('{"quoteId":"other"}', { path: '/v3/orders' }))
    await eventually('the order to be there', async () => {
      return (await counted(a, 'quotegate_http_requests_in_flight')) === 1
    })
    client.socket.destroy()
    await eventually('the store to be given up', async () => (await counted(a, 'quotegate_store_up')) === 0)
    const next = await rawExchange(a.url, post('{"next":1}', { path: '/v3/orders' }))
    expect(next.status).toBe(201)
    expect(arrived().map(({ body }) => String(body))).toEqual(['{"next":1}'])
  })

  it('a quote is given out and ordered within the one deadline that it costs', async () => {
    const { a, store, quote, order } = await orderReplicas({ VALKEY_TIMEOUT_MS: '300' })
    store.freeze()
    const given = await quote(a)
    expect((await order(a, termsOf(given))).status).toBe(201)
    const late = (op: string) => counted(a, `quotegate_store_operations_total{op="${op}",outcome="timeout"}`)
    expect([await late('quote-get'), await late('quote-set')]).toEqual([1, 0])
    // What is sent to a store that is away is not waited for.
    expect(await counted(a, 'quotegate_store_operations_total{op="quote-set",outcome="skipped"}')).toBe(0)
  })
})

describe('after the store has come back, empty', { tags: ['redis-server'] }, () => {
  it('no live order is refused, and within seconds expired ones are again', async () => {
    const { a, b, clock, store, quote, order, untilUp } = await orderReplicas({
      ORDER_UNKNOWN_QUOTE: 'refuse',
    })
    const older = await quote(a)
    clock.advance(lifeMs + 1_000)
    const later = await quote(b)
    await store.restartEmpty()
    await untilUp(1)
    for (let turn = 0; turn < 20; turn += 1) expect((await order(a, termsOf(later))).status).toBe(201)
    clock.advance(lifeMs)
    await eventually('the guard', async () => (await order(a, termsOf(older))).status === 409)
    // Each replica finds the store again by itself.
    const ofOtherAmount = { ...termsOf(older), fromAmount: '7' }
    await eventually('the guard of the other', async () => (await order(b, ofOtherAmount)).status === 409)
  })
})

describe('what it costs', { tags: ['redis-server'] }, () => {
  it('is one look-up and one pipelined write for a quote that was fetched, and one read for an order', async () => {
    const { a, b, quote, order } = await orderReplicas()
    const operations = ['quote-get', 'quote-set', 'quote-forget', 'unlock', 'journal-append', 'rate-limit']
    async function spentBy(gateway: RunningGateway, act: () => Promise<unknown>) {
      const count = () => Promise.all(operations.map((operation) => counted(gateway, stored(operation))))
      const before = await count()
      await act()
      const after = await count()
      const spent = operations.map((operation, index) => [
        operation,
        (after[index] ?? 0) - (before[index] ?? 0),
      ])
      return Object.fromEntries(spent.filter(([, calls]) => calls !== 0))
    }
    const { promise: given, resolve } = deferred<GivenQuote>()
    const fetched = { 'quote-get': 1, 'quote-set': 1, 'journal-append': 1 }
    expect(await spentBy(a, async () => resolve(await quote(a)))).toEqual(fetched)
    expect(await spentBy(a, () => quote(a))).toEqual({})
    expect(await spentBy(b, () => quote(b))).toEqual({ 'quote-get': 1 })
    // Besides the polls, an order is one read of the journal.
    const reads = await counted(b, stored('journal-read'))
    const { toAmount: _, ...terms } = termsOf(await given)
    expect(await spentBy(b, () => order(b, { ...terms, fromAmount: '7' }))).toEqual({})
    expect(await counted(b, stored('journal-read'))).toBeGreaterThan(reads)
    const used = { 'quote-forget': 1, 'journal-append': 1 }
    expect(await spentBy(b, async () => order(b, termsOf(await given)))).toEqual(used)
  })
})
