import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import { orderStage, post, termsOf } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import {
  ask,
  counted,
  giveQuote,
  quoteBody,
  untilCounted,
} from '../support/clients/quotes.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import {
  gatewayWith,
  pause,
  recordingUpstream,
  until,
} from '../support/gateways/between.ts'
import {
  cacheStatusOf,
  eventually,
  idOf,
  replicaStage,
  stored,
} from '../support/gateways/replicas.ts'

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

  // It had no answer of the provider yet, and judged by its own clock alone, or knew of no difference beside a clock as
  // slow as the provider's: 409 for a quote with 10 s left. By our clock each quote of a slow provider is over.
  it.each([
    ['live, where its own clock is a minute ahead', 0, 60_000, 0, 20_000, 0, 201],
    ['live, beside a clock as slow as the provider', -20_000, 0, -20_000, 10_000, 0, 201],
    ['live, of a provider three minutes behind', 0, 0, -180_000, 60_000, 0, 201],
    // The Date of its answer is cut to seconds.
    ['expired, of a provider three minutes behind', 0, 0, -180_000, 100, 1_200, 409],
  ])('a new replica judges a quote that is %s', async (...row) => {
    const [, hereAheadMs, thereAheadMs, providerAheadMs, leftMs, waitMs, status] = row
    const { upstream, here, there } = await replicaStage(2, {}, (index) => ({
      clock: { nowMs: () => Date.now() + (index === 0 ? hereAheadMs : thereAheadMs) },
    }))
    upstream.answer(({ method }, response) => {
      const providerMs = Date.now() + providerAheadMs
      const date = ['Date', new Date(providerMs).toUTCString()]
      if (method === 'GET')
        giveQuote(response, quoteBody({ expiry: providerMs + leftMs }), date)
      else response.writeHead(201, date).end('{}')
    })
    await ask(here.url)
    await pause(waitMs)
    // For two seconds after a start no order is refused by its terms.
    const answer = async () => (await order(there.url, terms)).status
    if (status === 201) expect(await answer()).toBe(201)
    else
      await eventually('the order to be refused', async () => (await answer()) === status)
  })

  // The store knew what was used by its id alone, for as long as the key was busy: nothing was kept there any more.
  it('a new quote under a used id is kept by all replicas after two orders for the old quote', async () => {
    const { upstream, here, there } = await replicaStage(2)
    let expiry = Date.now() + 60_000
    upstream.answer(({ method }, response) => {
      if (method === 'GET')
        giveQuote(response, quoteBody({ id: 'the price of ETH', expiry }))
      else response.writeHead(201).end('{}')
    })
    await ask(here.url)
    for (let ordered = 1; ordered <= 2; ordered += 1) {
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
        return (
          JSON.parse(answer.body).expiry === expiry &&
          cacheStatusOf(answer).includes('hit')
        )
      })
    }
  })
})

// A provider that gives one quote to all who ask the same: only the last place of it was remembered.
it.each([
  [
    'two addresses',
    ['0.1', 'Forwarded', 'for=198.51.100.1'],
    ['0.1', 'Forwarded', 'for=198.51.100.2'],
  ],
  ['two applications', ['0.1', 'App-Version', '1'], ['0.1', 'App-Version', '2']],
  ['two amounts that the provider rounds to one', ['0.1'], ['0.100000001']],
])(
  'a quote for %s is removed for both when an order has used it',
  async (_whom, first, second) => {
    const { order, provider, quote } = await orderStage({ TRUST_PROXY: 'loopback' })
    const get = ([amount, ...headers]: string[]) =>
      quote(amount, { headers: ['App-Name', 'wallet', ...headers] })
    provider.quote = { id: 'one for both', fromAmount: { assetId: 'ETH', value: '0.1' } }
    const given = await get(first)
    await get(second)
    expect((await order({ quoteId: given.id })).status).toBe(201)
    provider.quote = {}
    expect((await get(first)).id).not.toBe(given.id)
    expect((await get(second)).id).not.toBe(given.id)
  },
)

// The second order was all that was remembered, and what expired after it counted as a new quote.
it('a quote that two orders used is not served until the later of its expiries', async () => {
  const { order, provider, quote } = await orderStage()
  const get = (application: string) =>
    quote('0.1', { headers: ['App-Name', application] })
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
  const gateway = await gatewayWith({
    SWAP_BASE_URL: upstream.url,
    QUOTE_REFRESH_AHEAD_MS: '60000',
  })
  await ask(gateway.url)
  // A hit, which begins the refresh.
  await ask(gateway.url)
  await until(() => held.length === 1, 'the refresh to be under way')
  expect((await order(gateway.url, { quoteId: 'used' })).status).toBe(201)
  for (const response of held) giveQuote(response, body)
  await eventually(
    'the refresh to be over',
    async () => idOf(await ask(gateway.url)) === 'another',
  )
})

it('SWAP_AUTHORIZATION and SWAP_APP_VERSION are sent on quotes whatever QUOTE_KEY_HEADERS lists', async () => {
  const { quote, upstream } = await orderStage({
    QUOTE_KEY_HEADERS: 'app-name',
    SWAP_AUTHORIZATION: 'Bearer team',
  })
  await quote()
  expect(upstream.requests[0]?.rawHeaders).toContain('Bearer team')
})

// NTP sets the clock of a machine that has just started.
it('a clock that is set ahead refuses no live order before the provider has answered again', async () => {
  const time = { nowMs: Date.now(), steadyMs: 0 }
  const clock = { nowMs: () => time.nowMs, steadyMs: () => time.steadyMs }
  const upstream = await recordingUpstream(({ method }, response) => {
    if (method === 'POST')
      response.writeHead(201, { Date: new Date(time.nowMs).toUTCString() }).end('{}')
    else giveQuote(response, quoteBody({ expiry: time.nowMs + 20_000 }))
  })
  const gateway = await gatewayWith({ SWAP_BASE_URL: upstream.url }, { clock })
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
