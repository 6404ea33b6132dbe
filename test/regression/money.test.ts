import type { ServerResponse } from 'node:http'
import { describe, expect, it, onTestFinished } from 'vitest'
import { orderStage, post, termsOf } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import { ask, counted, giveQuote, quoteBody, untilCounted } from '../support/clients/quotes.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { pause, recordingUpstream, until } from '../support/gateways/between.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import { cacheStatusOf, eventually, idOf, replicaStage, stored } from '../support/gateways/replicas.ts'

const terms = { pairId: 'ETH_USDC', fromAmount: 0.1, toAmount: 289.645 }
const order = (url: string, body: object = terms) =>
  rawExchange(url, post(JSON.stringify(body), { headers: ['App-Name: wallet'] }))

describe('replicas', { tags: ['redis-server'] }, () => {
  // Reads are answered still, and one that only reads never noticed.
  it('a store that accepts no writes is down for a replica that only judges orders, too', async () => {
    const { store, there, upstream } = await replicaStage(2)
    upstream.answer((_request, response) => response.writeHead(201).end('{}'))
    await store.ask('CONFIG', 'SET', 'maxmemory', '1')
    await eventually('the store to be down', async () => {
      await order(there.url, { ...terms, fromAmount: 7 })
      return (await counted(there, 'quotegate_store_up')) === 0
    })
  })

  // It had seen no answer of the provider and judged by its own clock: 409 for a quote with 11 s left.
  it("a replica whose clock is a minute ahead refuses no live order before the provider's first answer", async () => {
    const { upstream, here, there } = await replicaStage(2, {}, (index) => ({
      clock: { nowMs: () => Date.now() + index * 60_000 },
    }))
    upstream.answer(({ method }, response) => {
      if (method === 'GET') giveQuote(response)
      else response.writeHead(201).end('{}')
    })
    await ask(here.url)
    expect((await order(there.url, terms)).status).toBe(201)
  })

  // Beside one whose clock was as slow as the provider's it knew of no difference: 409 for a quote with 10 s left.
  it("a new replica refuses no live order if the other replica's clock is as slow as the provider's", async () => {
    const slowNow = () => Date.now() - 20_000
    const { upstream, here, there } = await replicaStage(2, {}, (index) =>
      index === 0 ? { clock: { nowMs: slowNow } } : {},
    )
    upstream.answer(({ method }, response) => {
      const date = new Date(slowNow()).toUTCString()
      if (method === 'GET') giveQuote(response, quoteBody({ expiry: slowNow() + 10_000 }), ['Date', date])
      else response.writeHead(201).end('{}')
    })
    await ask(here.url)
    expect((await order(there.url, terms)).status).toBe(201)
  })

  /** The provider gives everybody the one quote that an order here has used; `other` is a client without it. */
  async function afterAnOrder() {
    const stage = await replicaStage(2, { QUOTE_PARTITION: 'none' })
    const body = quoteBody({ id: 'used', expiry: Date.now() + 60_000 })
    stage.upstream.answer(({ method }, response) => {
      if (method === 'GET') giveQuote(response, body)
      else response.writeHead(201).end('{}')
    })
    await ask(stage.here.url)
    expect((await order(stage.here.url, { quoteId: 'used' })).status).toBe(201)
    return { ...stage, other: { headers: ['App-Name', 'shop'] } }
  }

  // Kept out of memory it was still put into the store, and found there by the next request.
  it.each([
    ['where it was ordered', 0],
    ['at another replica', 1],
  ])(
    'a used quote that the provider gives to another client, requested %s, is not served again',
    async (_where, asked) => {
      const { replicas, here, other } = await afterAnOrder()
      const first = replicas[asked] ?? here
      expect(cacheStatusOf(await ask(first.url, other))).not.toContain('hit')
      expect(cacheStatusOf(await ask(here.url, other))).not.toContain('hit')
      // What it found in the store it has told the others of.
      await eventually('it to be gone from both', async () => {
        const answers = [await ask(here.url, other), await ask(replicas[1]?.url ?? '', other)]
        return answers.every((answer) => !cacheStatusOf(answer).includes('hit'))
      })
    },
  )

  it('a used quote that the provider gives to another client is not served by another replica', async () => {
    const { here, there, other } = await afterAnOrder()
    await ask(here.url, other)
    // The replica that fetched it knows of the order, the one that is asked now does not.
    await pause(200)
    expect(cacheStatusOf(await ask(there.url, other))).not.toContain('hit')
  })

  // The store knew what was used by its id alone, for as long as the key was busy: nothing was kept there any more.
  it.each([1, 2])(
    'a new quote under a used id is kept by all replicas after %d orders for the old quote',
    async (orders) => {
      const { upstream, here, there } = await replicaStage(2)
      let expiry = Date.now() + 60_000
      upstream.answer(({ method }, response) => {
        if (method === 'GET') giveQuote(response, quoteBody({ id: 'the price of ETH', expiry }))
        else response.writeHead(201).end('{}')
      })
      await ask(here.url)
      for (let ordered = 1; ordered <= orders; ordered += 1) {
        expect((await order(here.url, { quoteId: 'the price of ETH' })).status).toBe(201)
        // The second order changes nothing more.
        await untilCounted(here, stored('quote-forget'), 1)
      }
      // The old one still goes nowhere.
      await ask(there.url)
      expect(cacheStatusOf(await ask(here.url))).not.toContain('hit')
      expiry += 1_000
      for (const { url } of [here, there]) {
        await eventually('the new one to be kept', async () => {
          const answer = await ask(url)
          return JSON.parse(answer.body).expiry === expiry && cacheStatusOf(answer).includes('hit')
        })
      }
    },
  )

  // By our clock every quote of such a provider has long expired, so the life that its answer states decides alone.
  it.each([
    ['live', 60_000, 0, 201],
    // The Date of its answer is cut to seconds.
    ['expired', 100, 1_200, 409],
  ])(
    'a new replica judges a quote that is %s, of a provider three minutes behind',
    async (_state, leftMs, waitMs, status) => {
      const { upstream, here, there } = await replicaStage(2)
      upstream.answer(({ method }, response) => {
        const providerMs = Date.now() - 180_000
        response.setHeader('Date', new Date(providerMs).toUTCString())
        if (method === 'GET') giveQuote(response, quoteBody({ expiry: providerMs + leftMs }))
        else response.writeHead(201).end('{}')
      })
      await ask(here.url)
      await pause(waitMs)
      // For two seconds after a start no order is refused by its terms.
      const answer = async () => (await order(there.url, terms)).status
      if (status === 201) expect(await answer()).toBe(201)
      else await eventually('the order to be refused', async () => (await answer()) === status)
    },
  )
})

// A provider that gives one quote to all who ask the same: only the last place of it was remembered.
it('a quote that an order used is removed from every cache key', async () => {
  const { order, provider, quote } = await orderStage({ TRUST_PROXY: 'loopback' })
  provider.quote = { id: 'one for all' }
  const from = (client: number) =>
    quote('0.1', { headers: ['App-Name', 'wallet', 'Forwarded', `for=198.51.100.${client}`] })
  const given = await from(1)
  await from(2)
  expect((await order(termsOf(given))).status).toBe(201)
  provider.quote = {}
  expect((await from(1)).id).not.toBe(given.id)
  expect((await from(2)).id).not.toBe(given.id)
})

it.each([
  ['two applications', ['0.1', 'wallet'], ['0.1', 'shop']],
  ['two amounts that the provider rounds to one', ['0.1', 'wallet'], ['0.100000001', 'wallet']],
] as const)('a quote for %s is removed for both when an order has used it', async (_whom, first, second) => {
  const { order, provider, quote } = await orderStage()
  const get = ([amount, application]: readonly [string, string]) =>
    quote(amount, { headers: ['App-Name', application] })
  provider.quote = { id: 'one for both', fromAmount: { assetId: 'ETH', value: '0.1' } }
  const given = await get(first)
  await get(second)
  expect((await order({ quoteId: given.id })).status).toBe(201)
  provider.quote = {}
  expect((await get(first)).id).not.toBe(given.id)
  expect((await get(second)).id).not.toBe(given.id)
})

// The second order was all that was remembered, and what expired after it counted as a new quote.
it('a quote that two orders used is not served until the later of its expiries', async () => {
  const { order, provider, quote } = await orderStage()
  const get = (application: string) => quote('0.1', { headers: ['App-Name', application] })
  provider.quote = { id: 'one for both' }
  const later = await get('wallet')
  const { expiry } = later
  provider.quote = { id: 'one for both', expiry: expiry - 10_000 }
  const sooner = await get('shop')
  expect((await order(termsOf(later))).status).toBe(201)
  expect((await order(termsOf(sooner), { headers: ['App-Name: shop'] })).status).toBe(201)
  provider.quote = { id: 'one for both', expiry }
  await get('wallet')
  provider.quote = {}
  expect((await get('wallet')).id).not.toBe('one for both')
})

// Of a provider that numbers its prices, not its quotes, none would be kept after the first order.
it('a new quote under the id of a used one is cached like any other', async () => {
  const { clock, order, provider, quote, gateway } = await orderStage()
  provider.quote = { id: 'the price of ETH' }
  const given = await quote()
  expect((await order({ quoteId: given.id })).status).toBe(201)
  clock.advance(1_000)
  expect(cacheStatusOf(await ask(gateway.url))).toContain('stored')
  expect(cacheStatusOf(await ask(gateway.url))).toContain('hit')
})

it('a quote that was ordered while a refresh fetched it again is not served again', async () => {
  const held: ServerResponse[] = []
  const body = quoteBody({ id: 'used', expiry: Date.now() + 60_000 })
  let calls = 0
  const upstream = await recordingUpstream(({ method }, response) => {
    if (method === 'POST') return void response.writeHead(201).end('{}')
    calls += 1
    if (calls === 2) held.push(response)
    else giveQuote(response, calls === 1 ? body : quoteBody({ id: 'another' }))
  })
  const gateway = await startGateway({ SWAP_BASE_URL: upstream.url, QUOTE_REFRESH_AHEAD_MS: '60000' })
  onTestFinished(() => gateway.close())
  await ask(gateway.url)
  // A hit, which begins the refresh.
  await ask(gateway.url)
  await until(() => held.length === 1, 'the refresh to be under way')
  expect((await order(gateway.url, { quoteId: 'used' })).status).toBe(201)
  for (const response of held) giveQuote(response, body)
  await eventually('the refresh to be over', async () => idOf(await ask(gateway.url)) === 'another')
})

it('SWAP_AUTHORIZATION and SWAP_APP_VERSION are sent on quotes whatever QUOTE_KEY_HEADERS lists', async () => {
  const { quote, upstream } = await orderStage({
    QUOTE_KEY_HEADERS: 'app-name',
    SWAP_AUTHORIZATION: 'Bearer team',
  })
  await quote()
  expect(upstream.requests[0]?.rawHeaders).toContain('Bearer team')
})

it("a quote has only the gateway's own cache headers", async () => {
  const { provider, gateway } = await orderStage()
  provider.quoteHeaders = [
    'CDN-Cache-Control',
    'max-age=600',
    'Surrogate-Control',
    'max-age=600',
    'X-Accel-Expires',
    '30',
  ]
  for (const how of ['miss', 'hit']) {
    const { headers } = await ask(gateway.url)
    expect(headers['cache-status']).toContain(how)
    expect(Object.keys(headers).filter((name) => /cache-control|surrogate|accel/.test(name))).toEqual([
      'cache-control',
    ])
  }
})

it.each(['/V3/orders/float', '//v3/orders/float', '/v3%2Forders/float', '/%763/orders/float'])(
  '%s is judged if PAYMENTS_PATHS is / and both upstreams are the same',
  async (path) => {
    const { arrived, clock, order, quote, upstream } = await orderStage({
      PAYMENTS_PATHS: '/',
      PAYMENTS_BASE_URL: 'http://127.0.0.1:9',
    })
    const given = await quote()
    clock.set(given.expiry)
    expectProblem(await order(termsOf(given), { path }), 409, 'quote-expired')
    expect([arrived(), upstream.requests.length]).toEqual([[], 1])
  },
)

// NTP sets the clock of a machine that has just started.
it('a clock that is set ahead refuses no live order before the provider has answered again', async () => {
  const time = { nowMs: Date.now(), steadyMs: 0 }
  const clock = { nowMs: () => time.nowMs, steadyMs: () => time.steadyMs }
  const upstream = await recordingUpstream(({ method }, response) => {
    if (method === 'POST') response.writeHead(201, { Date: new Date(time.nowMs).toUTCString() }).end('{}')
    else giveQuote(response, quoteBody({ expiry: time.nowMs + 20_000 }))
  })
  const gateway = await startGateway({ SWAP_BASE_URL: upstream.url }, { clock })
  onTestFinished(() => gateway.close())
  await ask(gateway.url)
  time.nowMs += 60_000
  expect((await order(gateway.url, terms)).status).toBe(201)
  // Its answer has said the time, by which the quote has expired. The quote's own answer said that it lives for 20 s, of
  // which none has passed.
  expect((await order(gateway.url, terms)).status).toBe(201)
  time.nowMs += 21_100
  time.steadyMs += 21_100
  expectProblem(await order(gateway.url, terms), 409, 'quote-expired')
})
