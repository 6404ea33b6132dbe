import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import { act, statusOf } from '../operations/support.ts'
import { floatPath, orderStage, termsOf } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import {
  ask,
  counted,
  giveQuote,
  quoteBody,
  untilCounted,
} from '../support/clients/quotes.ts'
import { rawExchange, valuesOf } from '../support/clients/raw-connection.ts'
import { gatewayTo, recordingUpstream, until } from '../support/gateways/between.ts'
import { keptLog } from '../support/observing/log-lines.ts'

const plainPath = '/v3/orders'
const hold = { reason: 'the price is wrong', minutes: 30 }
const problems = 'quotegate_problems_total{type="held"}'
const payment = {
  path: '/checkouts',
  method: 'POST',
  headers: ['Authorization', 'k'],
  body: '{}',
}

/** A GET of a quote, with the raw head that a problem is checked by. */
const quoteBytes = (target: string, application = 'wallet') =>
  `GET ${target} HTTP/1.1\r\nHost: g\r\nApp-Name: ${application}\r\n\r\n`

describe('while operators hold orders', () => {
  it('float and plain ones get 503 with the reason, and nothing is sent; quotes and payments go on', async () => {
    const { arrived, clock, gateway, order, quote, upstream } = await orderStage({
      PAYMENTS_BASE_URL: 'http://127.0.0.1:9',
    })
    const given = await quote()
    const held = await act(gateway, 'hold', hold)
    expect([held.status, JSON.parse(held.body)]).toEqual([
      200,
      {
        holds: [
          {
            pair: null,
            application: null,
            quotes: false,
            reason: hold.reason,
            since: clock.nowMs(),
            until: clock.nowMs() + 1_800_000,
          },
        ],
        reach: 'at this replica only',
      },
    ])
    for (const path of [floatPath, plainPath]) {
      const answer = await order(termsOf(given), { path })
      const body = expectProblem(answer, 503, 'held')
      expect(body).toMatchObject({
        reason: hold.reason,
        until: clock.nowMs() + 1_800_000,
        retryable: true,
      })
      expect(body.detail).toContain(hold.reason)
      expect(valuesOf(answer.rawHeaders, 'retry-after')).toEqual(['1800'])
    }
    expect(arrived()).toEqual([])
    await quote('0.2')
    expect(upstream.requests).toHaveLength(2)
    const paid = await ask(gateway.url, payment)
    expect(paid.status).toBe(502)
    expect([
      await counted(gateway, problems),
      await counted(gateway, 'quotegate_holds'),
    ]).toEqual([2, 1])
    expect(
      await counted(gateway, 'quotegate_server_errors_total{source="provider"}'),
    ).toBe(1)
  })

  it('they go out again once the hold is over, or is released', async () => {
    const { arrived, clock, gateway, order } = await orderStage()
    await act(gateway, 'hold', { ...hold, minutes: 1 })
    clock.advance(59_999)
    expectProblem(await order('{"pairId":"A_B"}'), 503, 'held')
    clock.advance(1)
    expect((await order('{"pairId":"A_B"}')).status).toBe(201)
    await act(gateway, 'hold', hold)
    expectProblem(await order('{"pairId":"A_B"}'), 503, 'held')
    const released = await act(gateway, 'release')
    expect(JSON.parse(released.body)).toEqual({
      holds: [],
      reach: 'at this replica only',
    })
    expect((await order('{"pairId":"A_B"}')).status).toBe(201)
    expect(arrived()).toHaveLength(2)
    expect((await act(gateway, 'release')).status).toBe(404)
  })

  /** What some readers take for no part of a pair. */
  const behind = [
    '\u0000',
    '\u0001',
    '\u007f',
    '\u0085',
    '\u200b',
    '%00',
    '%C2%A0',
    '?x=1',
    '.',
    '/',
  ]

  it.each<[string, boolean]>([
    ['ETH_USDC', true],
    ['eth_usdc', true],
    ['eTH%5fusdc', true],
    [' ETH_USDC ', true],
    ['ETH_USDC;v=1', true],
    ...behind.map((text): [string, boolean] => [`ETH_USDC${text}`, true]),
    ['ETH _USDC', true],
    ['ETH.USDC', false],
    ['BTC_USDC', false],
  ])('a hold of the pair eth_usdc and an order for %s: %s', async (pairId, isHeld) => {
    const { arrived, gateway, order } = await orderStage()
    await act(gateway, 'hold', { ...hold, pair: 'eth_usdc' })
    for (const path of [floatPath, plainPath]) {
      const { status } = await order({ pairId, fromAmount: 1 }, { path })
      expect(status).toBe(isHeld ? 503 : 201)
    }
    expect(arrived()).toHaveLength(isHeld ? 0 : 2)
  })

  it('a hold covers the sign of a kelvin, which is a K to readers that ignore case', async () => {
    const { arrived, gateway, order } = await orderStage()
    await act(gateway, 'hold', { ...hold, pair: 'LINK_USDC' })
    expectProblem(await order('{"pairId":"LIN\u212a_USDC"}'), 503, 'held')
    expect(arrived()).toEqual([])
  })

  it('a hold of one application leaves the others alone, whatever their case', async () => {
    const { gateway, order } = await orderStage({ SWAP_APP_NAME: 'supplied' })
    // Of its bytes a header has twice as many as this name has letters.
    const long = 'ü'.repeat(150)
    for (const application of ['wallet', 'Zürich', 'supplied', long])
      await act(gateway, 'hold', { ...hold, application })
    const from = async (...headers: string[]) =>
      Promise.all(
        [floatPath, plainPath].map(
          async (path) => (await order('{"pairId":"A_B"}', { path, headers })).status,
        ),
      )
    expect(await from('App-Name: wallet')).toEqual([503, 503])
    for (const name of ['Zürich', long])
      expect(await from(`App-Name: ${Buffer.from(name).toString('latin1')}`)).toEqual([
        503, 503,
      ])
    expect(await from()).toEqual([503, 503])
    expect(await from('App-Name: Wallet')).toEqual([201, 201])
  })

  it.each<[string, string | Buffer, string[]]>([
    ['coded', 'x', ['Content-Encoding: gzip']],
    ['over 64 KiB', `{"pairId":"BTC_USDC","more":"${'x'.repeat(70_000)}"}`, []],
    ['without a pair', '{}', []],
    ['with two pairs', '{"pairId":"BTC_USDC","pairId":"BTC_USDC"}', []],
    ['with two pairs, by case', '{"pairId":"BTC_USDC","PAIRID":"ETH_USDC"}', []],
  ])(
    'an order whose pair cannot be read (%s) is covered by a hold of any pair',
    async (_what, body, headers) => {
      const { arrived, gateway, order } = await orderStage()
      const send = () =>
        order(body, { path: plainPath, headers: ['App-Name: wallet', ...headers] })
      await act(gateway, 'hold', { ...hold, pair: 'ETH_USDC', application: 'another' })
      expect((await send()).status).toBe(201)
      await act(gateway, 'hold', { ...hold, pair: 'ETH_USDC', application: 'wallet' })
      expectProblem(await send(), 503, 'held')
      expect(arrived()).toHaveLength(1)
    },
  )

  it('a float order that names its pair twice, by case, is covered by a hold of any pair', async () => {
    const { arrived, gateway, order } = await orderStage()
    const twice = '{"pairId":"BTC_USDC","pairid":"ETH_USDC","fromAmount":1}'
    expect((await order(twice)).status).toBe(201)
    await act(gateway, 'hold', { ...hold, pair: 'ETH_USDC' })
    expectProblem(await order(twice), 503, 'held')
    const explained = await act(gateway, 'explain', { body: twice })
    expect(JSON.parse(explained.body).decision).toBe('held')
    expect(arrived()).toHaveLength(1)
  })

  it('what waits for a connection is refused when the hold begins, and what it does not cover is sent', async () => {
    const { arrived, gateway, order, provider } = await orderStage({
      UPSTREAM_CONNECTIONS: 1,
    })
    const taken: ServerResponse[] = []
    const takeOrder = provider.takeOrder
    provider.takeOrder = (_request, response) => void taken.push(response)
    const first = order('{}', { method: 'PATCH', path: '/v3/orders/1' })
    await until(() => taken.length === 1, 'the connection is taken')
    provider.takeOrder = takeOrder
    const wait = (pairId: string, path: string, ...headers: string[]) =>
      order(
        { pairId, fromAmount: 1 },
        { path, headers: ['App-Name: wallet', ...headers] },
      )
    const waiting = [
      wait('ETH_USDC', floatPath),
      wait('ETH_USDC', plainPath),
      wait('ETH_USDC', floatPath, 'Idempotency-Key: a'),
      wait('ETH_USDC', plainPath, 'Idempotency-Key: b'),
    ]
    const other = wait('BTC_USDC', floatPath)
    await untilCounted(
      gateway,
      'quotegate_upstream_requests_in_flight{upstream="swap"}',
      6,
    )
    await act(gateway, 'hold', { ...hold, pair: 'ETH_USDC' })
    // The connection is taken still: nothing else ends their wait.
    for (const answer of await Promise.all(waiting)) expectProblem(answer, 503, 'held')
    taken[0]?.end()
    expect((await other).status).toBe(201)
    expect((await first).status).toBe(200)
    expect(arrived().map(({ method }) => method)).toEqual(['PATCH', 'POST'])
    // Nothing was sent with these keys, so that they are free.
    await act(gateway, 'release', { pair: 'ETH_USDC' })
    expect((await wait('ETH_USDC', floatPath, 'Idempotency-Key: a')).status).toBe(201)
  })

  it('comes behind the key of an order, before its limit, and before any rule', async () => {
    const { arrived, clock, gateway, order, quote } = await orderStage({
      RATE_LIMIT_PER_MINUTE: 4,
      ORDER_UNKNOWN_QUOTE: 'refuse',
    })
    const given = await quote()
    const send = (key: string, terms = termsOf(given)) =>
      order(terms, { headers: ['App-Name: wallet', `Idempotency-Key: ${key}`] })
    expect((await send('a')).status).toBe(201)
    await act(gateway, 'hold', hold)
    const again = await send('a')
    expect([again.status, valuesOf(again.rawHeaders, 'idempotent-replayed')]).toEqual([
      201,
      ['true'],
    ])
    for (const key of ['b', 'b', 'c', 'd']) expectProblem(await send(key), 503, 'held')
    expectProblem(await send('e', { pairId: 'NO_QUOTE', fromAmount: 1 }), 503, 'held')
    clock.advance(31_000)
    expectProblem(await send('f'), 503, 'held')
    expectProblem(await order({ quoteId: given.id }, { path: plainPath }), 503, 'held')
    await act(gateway, 'release')
    expectProblem(await send('b'), 409, 'quote-expired')
    expect(arrived()).toHaveLength(1)
  })

  it('is not lifted by the report mode of the guard', async () => {
    const { arrived, clock, gateway, order, quote } = await orderStage({
      ORDER_EXPIRED_QUOTE: 'report',
    })
    const given = await quote()
    clock.advance(31_000)
    await act(gateway, 'hold', hold)
    expectProblem(await order(termsOf(given)), 503, 'held')
    expect(arrived()).toEqual([])
  })
})

describe('while operators hold quotes', () => {
  it('those in memory are refused too, and none is asked for', async () => {
    const { gateway, quote, upstream } = await orderStage()
    await quote()
    await act(gateway, 'hold', { ...hold, pair: 'ETH_USDC', quotes: true })
    for (const pair of ['ETH_USDC', 'eth_usdc', 'ETH%5FUSDC', 'ETH_USDC/']) {
      const target = pair.endsWith('/')
        ? '/v3/pairs/ETH_USDC/quotes/?amount=0.1'
        : `/v3/pairs/${pair}/quotes?amount=0.1`
      expectProblem(await rawExchange(gateway.url, quoteBytes(target)), 503, 'held')
    }
    expect(upstream.requests).toHaveLength(1)
    await quote('0.1', { path: '/v3/pairs/BTC_USDC/quotes?amount=0.1' })
    await act(gateway, 'release', { pair: 'ETH_USDC' })
    expect((await quote()).cacheStatus).toContain('hit')
  })

  it('who waits for a call is refused when the hold begins, and the call is given up', async () => {
    const calls: ServerResponse[] = []
    const upstream = await recordingUpstream((_request, response) => calls.push(response))
    const gateway = await gatewayTo(upstream.url)
    const of = (application: string) =>
      rawExchange(
        gateway.url,
        quoteBytes('/v3/pairs/ETH_USDC/quotes?amount=0.1', application),
      )
    const held = [of('wallet'), of('wallet')]
    await untilCounted(gateway, 'quotegate_cache_lookups_total{result="collapsed"}', 1)
    const other = of('other')
    await until(() => calls.length === 2, 'a call for each application')
    const gone = new Promise((resolve) => calls[0]?.once('close', resolve))
    await act(gateway, 'hold', { ...hold, application: 'wallet', quotes: true })
    for (const answer of await Promise.all(held)) expectProblem(answer, 503, 'held')
    await gone
    giveQuote(calls[1] as ServerResponse, quoteBody({ expiry: Date.now() + 30_000 }))
    expect((await other).status).toBe(200)
  })

  it('who waits for a younger quote is given none that is near its end', async () => {
    const { clock, gateway, quote, upstream } = await orderStage()
    const calls: ServerResponse[] = []
    await quote()
    clock.advance(28_000)
    upstream.answer((_request, response) => void calls.push(response))
    const waiting = rawExchange(
      gateway.url,
      quoteBytes('/v3/pairs/ETH_USDC/quotes?amount=0.1'),
    )
    await until(() => calls.length === 1, 'the call')
    await act(gateway, 'hold', { ...hold, quotes: true })
    expectProblem(await waiting, 503, 'held')
  })

  it('no quote is fetched ahead of its end', async () => {
    const { clock, gateway, quote, upstream } = await orderStage({
      QUOTE_REFRESH_AHEAD_MS: 10_000,
      UPSTREAM_HEADERS_TIMEOUT_MS: 600_000,
      UPSTREAM_TOTAL_TIMEOUT_MS: 600_000,
      UPSTREAM_CONNECTIONS: 1,
    })
    const held: ServerResponse[] = []
    await quote()
    upstream.answer((_request, response) => void held.push(response))
    const other = ask(gateway.url, { path: '/v3/assets' })
    await until(() => held.length === 1, 'the connection is taken')
    clock.advance(20_000)
    // Served from memory, and its refresh waits for the connection.
    await quote()
    await untilCounted(
      gateway,
      'quotegate_upstream_requests_in_flight{upstream="swap"}',
      2,
    )
    await act(gateway, 'hold', { ...hold, quotes: true })
    await untilCounted(gateway, 'quotegate_quote_refreshes_total{outcome="failed"}', 1)
    held[0]?.end()
    expect((await other).status).toBe(200)
    expect(upstream.requests).toHaveLength(2)
  })
})

describe('operators', () => {
  it.each<[string, object, RegExp]>([
    ['no reason', { minutes: 5 }, /^reason has to be a text/],
    ['a blank reason', { reason: ' ', minutes: 5 }, /^reason has to be a text/],
    ['no time', { reason: 'a' }, /^minutes has to be a number above 0, at most 1440/],
    ['longer than a day', { reason: 'a', minutes: 1441 }, /^minutes .* at most 1440/],
    ['no time at all', { reason: 'a', minutes: 0 }, /^minutes/],
    [
      'a pair with a slash',
      { ...hold, pair: 'ETH/USDC' },
      /^pair has to be a pair such as ETH_USDC/,
    ],
    ['an empty pair', { ...hold, pair: '' }, /^pair has to be/],
    ['a pair of dots, which holds nothing', { ...hold, pair: '..' }, /^pair has to be/],
    ['a pair that is null', { ...hold, pair: null }, /^pair has to be/],
    [
      'an empty application',
      { ...hold, application: ' ' },
      /^application has to be an App-Name/,
    ],
    ['quotes that are a text', { ...hold, quotes: 'true' }, /^quotes has to be true/],
    [
      'a member that is misspelt',
      { ...hold, pairs: 'ETH_USDC' },
      /^It has pairs\. The members are pair, application/,
    ],
  ])('see what would be right: %s', async (_what, body, error) => {
    const { arrived, gateway, order } = await orderStage()
    const answer = await act(gateway, 'hold', body)
    expect([answer.status, JSON.parse(answer.body).error]).toEqual([
      400,
      expect.stringMatching(error),
    ])
    expect((await order('{}', { path: plainPath })).status).toBe(201)
    expect(arrived()).toHaveLength(1)
  })

  it('see in /status, the console, the log and the events what is held', async () => {
    const { logger, lines } = await keptLog()
    const { clock, gateway } = await orderStage({}, { logger })
    const scope = { pair: 'ETH_USDC', application: 'wallet' }
    await act(gateway, 'hold', { ...hold, ...scope, quotes: true })
    const shown = [
      {
        ...scope,
        quotes: true,
        reason: hold.reason,
        since: clock.nowMs(),
        until: clock.nowMs() + 1_800_000,
      },
    ]
    expect((await statusOf(gateway)).holds).toEqual(shown)
    clock.advance(1_800_000)
    const said = () => lines().filter(({ msg }) => /held/.test(String(msg)))
    await until(() => said().length === 2, 'its end')
    expect(said().map(({ level, msg, how }) => [level, msg, how])).toEqual([
      [
        'warn',
        'held: quotes and orders of ETH_USDC by wallet: the price is wrong',
        undefined,
      ],
      ['info', 'no longer held: quotes and orders of ETH_USDC by wallet', 'over'],
    ])
    const { events } = (await statusOf(gateway)) as {
      events: { tone: string; text: string }[]
    }
    const shownEvents = events.filter(({ text }) => text.includes('held')).reverse()
    expect(shownEvents.map(({ tone, text }) => [tone, text])).toEqual(
      said().map(({ level, msg }) => [level === 'warn' ? 'warn' : 'good', msg]),
    )
    expect((await statusOf(gateway)).holds).toEqual([])
  })

  it('replace a hold by another one of the same scope', async () => {
    const { gateway, clock } = await orderStage()
    await act(gateway, 'hold', hold)
    clock.advance(1_000)
    await act(gateway, 'hold', { reason: 'longer', minutes: 60, quotes: true })
    expect((await statusOf(gateway)).holds).toMatchObject([
      { reason: 'longer', quotes: true },
    ])
    expect((await act(gateway, 'release')).status).toBe(200)
    expect((await statusOf(gateway)).holds).toEqual([])
  })

  it('see what an order would get', async () => {
    const { gateway } = await orderStage()
    await act(gateway, 'hold', { ...hold, pair: 'ETH_USDC' })
    const explained = await act(gateway, 'explain', { body: '{"pairId":"ETH_USDC"}' })
    expect(JSON.parse(explained.body)).toEqual({
      decision: 'held',
      detail: '503 held: the price is wrong',
    })
  })
})
