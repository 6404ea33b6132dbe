import { describe, expect, it } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import type { SettingValue } from '../../src/config/problems.ts'
import { act } from '../operations/support.ts'
import { type GivenQuote, type Post, post, termsOf } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
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
import { gatewayWith, pause, until } from '../support/gateways/between.ts'
import type { RunningGateway } from '../support/gateways/gateway.ts'
import {
  eventually,
  replicaSettings,
  replicaStage,
  stored,
} from '../support/gateways/replicas.ts'
import type { StoreLine } from '../support/stores/store-line.ts'
import { lineTo } from '../support/stores/watched-store.ts'

const lifeMs = 30_000
const decided = (decision: string, reason: string) =>
  `quotegate_float_orders_total{decision="${decision}",reason="${reason}"}`

/**
 * Two replicas whose clock stands still until it is set, unless it is `real`, on a real store and before one provider. The
 * second one reaches the store over the `line`, if there is one.
 */
async function orderReplicas(
  settings: Record<string, SettingValue | undefined> = {},
  {
    real = false,
    lives = lifeMs,
    line,
  }: { real?: boolean; lives?: number; line?: StoreLine } = {},
) {
  const clock = { ...createTestClock(), ...(real ? systemClock : {}) }
  const all = { TRUST_PROXY: 'loopback', ...settings }
  const {
    store,
    upstream,
    here: a,
    there: b,
  } = await replicaStage(
    2,
    all,
    () => ({ clock }),
    (index, { url }) => {
      if (line === undefined || index === 0) return {}
      line.moveTo(Number(new URL(url).port))
      return { VALKEY_URL: line.url }
    },
  )
  /** What the provider answers besides quotes waits for this; and what happens before it answers with one. */
  const hold = { until: Promise.resolve(), onQuote() {} }
  upstream.answer(async ({ method, target }, response) => {
    const date = new Date(clock.nowMs()).toUTCString()
    if (target.startsWith(quotePath)) {
      hold.onQuote()
      giveQuote(response, quoteBody({ expiry: clock.nowMs() + lives }), ['Date', date])
      return
    }
    await hold.until
    response.writeHead(method === 'POST' ? 201 : 200, { Date: date }).end('{}')
  })
  const untilUp = (up: 0 | 1) =>
    eventually(`the store to be ${up}`, async () => {
      const states = [
        await counted(a, 'quotegate_store_up'),
        await counted(b, 'quotegate_store_up'),
      ]
      return states.every((state) => state === up)
    })

  async function quote(
    gateway: RunningGateway,
    amount = '0.1',
    client = '203.0.113.1',
  ): Promise<GivenQuote> {
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
  return { clock, store, hold, upstream, a, b, untilUp, quote, order, arrived }
}

const waysToName: ((quote: GivenQuote) => object)[] = [
  ({ id }) => ({ quoteId: id }),
  termsOf,
  // The amount to receive left open.
  (quote) => ({ ...termsOf(quote), toAmount: null }),
]

describe('an order at one replica for a quote that another one served', {
  tags: ['redis-server'],
}, () => {
  it('is sent while the quote is live, however it is named, and takes that quote out of circulation', async () => {
    const { a, b, clock, quote, order, arrived } = await orderReplicas({
      ORDER_UNKNOWN_QUOTE: 'refuse',
      QUOTE_MIN_VALIDITY_MS: '0',
    })
    for (const [index, named] of waysToName.entries()) {
      const given = await quote(a, `${index + 1}`)
      clock.advance(lifeMs - 1)
      expect((await quote(a, `${index + 1}`)).cacheStatus).toContain('; hit;')
      expect((await order(b, named(given))).status).toBe(201)
      await eventually(
        'another quote',
        async () => (await quote(a, `${index + 1}`)).id !== given.id,
      )
    }
    expect(arrived()).toHaveLength(waysToName.length)
    expect(await counted(b, decided('forwarded', 'live'))).toBe(waysToName.length)
  })

  it('is refused if the quote has expired, as at the other replica, however it is named', async () => {
    // In real time, because what is left of a quote goes down by the store's clock.
    const { a, b, quote, order, arrived } = await orderReplicas(
      {},
      { real: true, lives: 1_000 },
    )
    const given = await Promise.all(
      waysToName.map((_way, index) => quote(a, `${index + 1}`)),
    )
    // What a note takes on its way to the store and back makes the end later at the other replica.
    await pause(3_000)
    for (const [index, { id, expiry }] of given.entries()) {
      const problems: Record<string, unknown>[] = []
      for (const gateway of [b, a]) {
        const refused = await order(
          gateway,
          waysToName[index]?.(given[index] as GivenQuote) ?? {},
        )
        const problem = expectProblem(refused, 409, 'quote-expired')
        expect(problem).toMatchObject({
          quoteId: id,
          expiry,
          expiredForMs: expect.toSatisfy((ms) => ms > 0),
        })
        problems.push({ ...problem, requestId: '', instance: '', expiredForMs: 0 })
      }
      expect(problems[0]).toEqual(problems[1])
    }
    expect(arrived()).toEqual([])
  })

  it('can be explained there, and is answered float-order-required if it came to the other path', async () => {
    const { a, b, quote, order, arrived } = await orderReplicas()
    const given = await quote(a)
    const body = JSON.stringify(termsOf(given))
    const said = JSON.parse(
      (await act(b, 'explain', { body, application: 'wallet' })).body,
    )
    expect(said).toMatchObject({
      decision: 'forwarded-live',
      rule: 'exact',
      quoteId: given.id,
    })
    const refused = await order(b, { quoteId: given.id }, { path: '/v3/orders' })
    expect(expectProblem(refused, 409, 'float-order-required').quoteId).toBe(given.id)
    expect((await order(b, { quoteId: 'unknown' }, { path: '/v3/orders' })).status).toBe(
      201,
    )
    expect(arrived()).toHaveLength(1)
  })

  it('finds that quote at once, because the store has it before its caller does', async () => {
    const settings = { ORDER_UNKNOWN_QUOTE: 'refuse', VALKEY_TIMEOUT_MS: '10000' }
    const { a, b, hold, store, quote, order } = await orderReplicas(settings)
    // As the provider answers, the store takes a break.
    hold.onQuote = store.freeze
    let answered = false
    const given = quote(a).finally(() => {
      answered = true
    })
    const answers =
      'quotegate_upstream_requests_total{upstream="swap",outcome="answered"}'
    await eventually('the quote', async () => (await counted(a, answers)) === 1)
    await pause(100)
    expect(answered).toBe(false)
    store.thaw()
    expect((await order(b, termsOf(await given))).status).toBe(201)
  })
})

it('a live order is not refused when the quote known here expires while it waits, and another replica gave a later one', {
  tags: ['redis-server'],
}, async () => {
  const { a, b, clock, hold, quote, order, upstream } = await orderReplicas({
    UPSTREAM_CONNECTIONS: 1,
  })
  const older = await quote(a)
  clock.advance(10_000)
  expect((await quote(b, '0.1', '198.51.100.1')).id).not.toBe(older.id)
  clock.advance(10_000)
  const { promise, resolve } = deferred<void>()
  hold.until = promise
  const busy = ask(a.url, { path: '/v3/pairs' })
  await until(
    () => upstream.requests.some(({ target }) => target === '/v3/pairs'),
    'the connection in use',
  )
  const waiting = order(a, termsOf(older))
  const inFlight = 'quotegate_upstream_requests_in_flight{upstream="swap"}'
  await eventually('the order to wait', async () => (await counted(a, inFlight)) === 2)
  clock.advance(15_000)
  resolve()
  expect((await busy).status).toBe(200)
  expect((await waiting).status).toBe(201)
  expect(await counted(a, decided('forwarded', 'live'))).toBe(1)
})

describe('while the store is down', { tags: ['redis-server'] }, () => {
  it.each(['kill', 'freeze'] as const)(
    '(%s) ids that expired here are refused; terms that expired here may be live elsewhere, and refuse no order',
    async (fail) => {
      const settings = { ORDER_UNKNOWN_QUOTE: 'refuse', VALKEY_TIMEOUT_MS: '200' }
      const { a, b, clock, store, quote, order, untilUp } = await orderReplicas(settings)
      const older = await quote(a)
      await store[fail]()
      expect((await order(a, termsOf(older))).status).toBe(201)
      await untilUp(0)
      clock.advance(lifeMs + 1_000)
      const later = await quote(b)
      for (const named of [termsOf(later), { quoteId: later.id }])
        expect((await order(a, named)).status).toBe(201)
      expect(await counted(a, decided('forwarded', 'unknown'))).toBe(2)
      expectProblem(await order(a, { quoteId: older.id }), 409, 'quote-expired')
    },
  )

  it('a fixed order whose caller leaves while the store is asked is not sent', async () => {
    const { a, store, order, arrived } = await orderReplicas({ VALKEY_TIMEOUT_MS: '500' })
    store.freeze()
    const client = new RawConnection(a.url)
    client.write(post('{"quoteId":"other"}', { path: '/v3/orders' }))
    const inFlight = 'quotegate_http_requests_in_flight'
    await eventually(
      'the order to be there',
      async () => (await counted(a, inFlight)) === 1,
    )
    client.socket.destroy()
    await eventually(
      'the store to be given up',
      async () => (await counted(a, 'quotegate_store_up')) === 0,
    )
    expect((await order(a, { next: 1 }, { path: '/v3/orders' })).status).toBe(201)
    expect(arrived().map(({ body }) => String(body))).toEqual(['{"next":1}'])
  })

  it('a quote is given out and ordered within the one deadline that it costs', async () => {
    const { a, store, quote, order } = await orderReplicas({ VALKEY_TIMEOUT_MS: '300' })
    store.freeze()
    const given = await quote(a)
    expect((await order(a, termsOf(given))).status).toBe(201)
    const counts = (op: string, outcome: string) =>
      counted(a, `quotegate_store_operations_total{op="${op}",outcome="${outcome}"}`)
    expect([
      await counts('quote-get', 'timeout'),
      await counts('quote-set', 'timeout'),
    ]).toEqual([1, 0])
    // What is sent to a store that is away is not waited for.
    expect(await counts('quote-set', 'skipped')).toBe(0)
  })
})

describe('after the store has come back, empty', { tags: ['redis-server'] }, () => {
  it('no live order is refused as long as another replica may still be looking for it', async () => {
    const line = await lineTo(0)
    const { store, a, b, clock, quote, order, untilUp } = await orderReplicas(
      {},
      { line },
    )
    const older = await quote(a)
    clock.advance(lifeMs + 1_000)
    await store.kill()
    await untilUp(0)
    // Only this replica knows the quote. It cannot say so until it has found the store again.
    const later = await quote(b)
    line.set('cut')
    await store.restartEmpty()
    await eventually('one', async () => (await counted(a, 'quotegate_store_up')) === 1)
    const upSinceMs = performance.now()
    while (performance.now() - upSinceMs < 3_300) {
      expect((await order(a, termsOf(later))).status).toBe(201)
      await pause(50)
    }
    line.set('open')
    await untilUp(1)
    await eventually('the guard', async () => {
      // A note that is read after the clock was set ends as much later here.
      clock.advance(lifeMs)
      return (await order(a, termsOf(older))).status === 409
    })
  })

  it('no live order is refused, and within seconds expired ones are again', async () => {
    const settings = { ORDER_UNKNOWN_QUOTE: 'refuse' }
    const { a, b, clock, store, quote, order, untilUp } = await orderReplicas(settings)
    const older = await quote(a)
    clock.advance(lifeMs + 1_000)
    const later = await quote(b)
    await store.restartEmpty()
    await untilUp(1)
    for (let turn = 0; turn < 20; turn += 1)
      expect((await order(a, termsOf(later))).status).toBe(201)
    clock.advance(lifeMs)
    await eventually(
      'the guard',
      async () => (await order(a, termsOf(older))).status === 409,
    )
    // Each replica finds the store again by itself.
    const ofOtherAmount = { ...termsOf(older), fromAmount: '7' }
    await eventually(
      'the guard of the other',
      async () => (await order(b, ofOtherAmount)).status === 409,
    )
  })

  it('nor at a replica that starts then, if the ledger is full', async () => {
    const settings = { LEDGER_ENTRIES: '5' }
    const { a, clock, store, upstream, quote, order, untilUp } =
      await orderReplicas(settings)
    for (const amount of ['1', '2', '3']) await quote(a, amount)
    const older = await quote(a)
    clock.advance(lifeMs + 1_000)
    const live = await quote(a)
    await store.restartEmpty()
    await untilUp(1)
    await eventually('the records', async () => {
      const [key = ''] = (await store.ask('KEYS', '*journal*')) as string[]
      const records = key === '' ? '' : String(await store.ask('XRANGE', key, '-', '+'))
      return [older, live].every(({ id }) => records.includes(`"${id}"`))
    })
    // One more than the ledger holds.
    await quote(a, '4')
    const all = { ...replicaSettings(store, upstream), TRUST_PROXY: 'loopback' }
    const later = await gatewayWith({ ...all, ...settings }, { clock })
    const ofOtherAmount = { ...termsOf(live), fromAmount: '3' }
    await eventually(
      'the guard',
      async () => (await order(later, ofOtherAmount)).status === 409,
    )
    expect((await order(later, termsOf(live))).status).toBe(201)
  })
})

it('a quote that was fetched costs one look-up and one pipelined write, an order one read', {
  tags: ['redis-server'],
}, async () => {
  const { a, b, quote, order } = await orderReplicas()
  const operations = [
    'quote-get',
    'quote-set',
    'quote-forget',
    'unlock',
    'journal-append',
    'rate-limit',
  ]
  async function spentBy<Value>(gateway: RunningGateway, act: () => Promise<Value>) {
    const count = () =>
      Promise.all(operations.map((operation) => counted(gateway, stored(operation))))
    const before = await count()
    const value = await act()
    const spent = (await count()).map((after, index) => [
      operations[index],
      after - (before[index] ?? 0),
    ])
    return { value, spent: Object.fromEntries(spent.filter(([, calls]) => calls !== 0)) }
  }
  const { value: given, spent } = await spentBy(a, () => quote(a))
  expect(spent).toEqual({ 'quote-get': 1, 'quote-set': 1, 'journal-append': 1 })
  expect((await spentBy(a, () => quote(a))).spent).toEqual({})
  expect((await spentBy(b, () => quote(b))).spent).toEqual({ 'quote-get': 1 })
  // Besides the polls, an order is one read of the journal.
  const reads = await counted(b, stored('journal-read'))
  const { toAmount: _, ...terms } = termsOf(given)
  expect((await spentBy(b, () => order(b, { ...terms, fromAmount: '7' }))).spent).toEqual(
    {},
  )
  expect(await counted(b, stored('journal-read'))).toBeGreaterThan(reads)
  const used = { 'quote-forget': 1, 'journal-append': 1 }
  expect((await spentBy(b, () => order(b, termsOf(given)))).spent).toEqual(used)
})
