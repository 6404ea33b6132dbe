import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import { orderStage, post, termsOf } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import { ask, counted, createTestClock, giveQuote, quoteBody } from '../support/clients/quotes.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { recordingUpstream } from '../support/gateways/between.ts'
import { startGateway } from '../support/gateways/gateway.ts'

const lifeMs = 30_000
type Give = (response: ServerResponse, body: string) => void

/** A client was given a quote that is over, and then an odd answer. The provider dates its answers by the test's clock. */
async function afterOddAnswer(odd: Give, to = 'for=192.0.2.1', settings = {}) {
  const clock = createTestClock()
  let give: Give = (response, body) => giveQuote(response, body)
  const upstream = await recordingUpstream((request, response) => {
    response.setHeader('Date', new Date(clock.nowMs()).toUTCString())
    if (request.method === 'POST') response.writeHead(201).end('{}')
    else give(response, quoteBody({ expiry: clock.nowMs() + lifeMs }))
  })
  const gateway = await startGateway(
    { SWAP_BASE_URL: upstream.url, TRUST_PROXY: 'loopback', ...settings },
    { clock },
  )
  const quote = async (how: Give, client = 'for=192.0.2.1') => {
    give = how
    return ask(gateway.url, { headers: ['App-Name', 'wallet', 'Forwarded', client] })
  }
  const given = JSON.parse((await quote((response, body) => giveQuote(response, body))).body)
  clock.advance(lifeMs)
  await quote(odd, to)
  const order = (body: object = termsOf(given), client = 'for=192.0.2.1') =>
    rawExchange(
      gateway.url,
      post(JSON.stringify(body), { headers: ['App-Name: wallet', `Forwarded: ${client}`] }),
    )
  const unreadable = () =>
    counted(gateway, 'quotegate_float_order_matches_total{decision="unknown",rule="unreadable"}')
  return { clock, gateway, given, quote, order, unreadable, close: () => gateway.close() }
}

const changed = (change: (quote: Record<string, unknown>) => object, status = 200): Give => {
  return (response, body) => {
    response.writeHead(status, { 'Content-Type': 'application/json' })
    response.end(JSON.stringify(change(JSON.parse(body))))
  }
}
const plain = (status: number, body: string, headers: Record<string, string> = {}): Give => {
  return (response) => response.writeHead(status, headers).end(body)
}
const coded: Record<string, string> = { 'Content-Encoding': 'gzip' }

describe('an older quote refuses its client’s order', () => {
  it.each<[string, Give]>([
    ['204', plain(204, '')],
    ['202', plain(202, '{"toAmount":{"value":"1"}}')],
    ['an empty body', plain(200, '')],
    ['HTML', plain(200, '<html>toAmount</html>')],
    ['an object without a toAmount', plain(200, '{"expiry":1}')],
    ['a toAmount of null', plain(200, '{"toAmount":null}')],
    ['a list', plain(200, '[{"toAmount":"1"}]')],
    ['an error that has one', plain(500, '{"toAmount":"1"}')],
    ['a coded answer of another kind', plain(404, 'x', coded)],
  ])('even if a later answer was not a quote: %s', async (_what, odd) => {
    const { order, close } = await afterOddAnswer(odd)
    expectProblem(await order(), 409, 'quote-expired')
    await close()
  })

  it('if another client had the unreadable answer', async () => {
    const { order, close } = await afterOddAnswer(
      changed(({ expiry: _, ...quote }) => quote),
      'for=192.0.2.2',
    )
    expectProblem(await order(), 409, 'quote-expired')
    await close()
  })
})

describe('an answer that cannot be read, to a client without an address,', () => {
  const odd = changed(({ expiry: _, ...quote }) => quote)

  it('keeps orders without an address from being refused, and no others', async () => {
    const { given, order, unreadable, close } = await afterOddAnswer(odd, 'for=unknown')
    expect((await order(termsOf(given), 'for=unknown')).status).toBe(201)
    expect((await order({ ...termsOf(given), toAmount: null }, 'for=unknown')).status).toBe(201)
    expect(await unreadable()).toBe(2)
    expectProblem(await order(), 409, 'quote-expired')
    await close()
  })

  it('counts for all clients with QUOTE_PARTITION=none, like any other unreadable answer', async () => {
    const settings = { QUOTE_PARTITION: 'none' }
    for (const [to, from] of [
      ['for=unknown', 'for=192.0.2.1'],
      ['for=192.0.2.2', 'for=unknown'],
    ] as const) {
      const { given, order, unreadable, close } = await afterOddAnswer(odd, to, settings)
      expect((await order(termsOf(given), from)).status).toBe(201)
      expect(await unreadable()).toBe(1)
      await close()
    }
  })
})

describe('no older quote refuses the order of a client that was given what cannot be read: an answer', () => {
  it.each<[string, Give]>([
    ['without an expiry', changed(({ expiry: _, ...quote }) => quote)],
    ['whose expiry is in seconds', changed((quote) => ({ ...quote, expiry: 1_763_651_841 }))],
    ['whose expiry is not believed', changed((quote) => ({ ...quote, expiry: Number(quote.expiry) * 2 }))],
    [
      'whose expiry was over when it came',
      changed((quote) => ({ ...quote, expiry: Number(quote.expiry) - lifeMs })),
    ],
    ['for another amount', changed((quote) => ({ ...quote, fromAmount: { assetId: 'ETH', value: '100' } }))],
    ['that names no id', changed(({ id: _, ...quote }) => quote)],
    ['with another status', changed((quote) => quote, 203)],
    ['in a content coding', plain(200, 'bytes', coded)],
    ['in a content coding, with another status', plain(203, 'bytes', coded)],
  ])('keeps older quotes from refusing its order: %s', async (_what, odd) => {
    const { order, unreadable, given, close } = await afterOddAnswer(odd)
    expect((await order()).status).toBe(201)
    expect(await unreadable()).toBe(1)
    // An id is one quote, whatever came since.
    expectProblem(await order({ quoteId: given.id }), 409, 'quote-expired')
    await close()
  })

  it('does so with ORDER_UNKNOWN_QUOTE=refuse too', async () => {
    const settings = { ORDER_UNKNOWN_QUOTE: 'refuse' }
    const odd = changed(({ expiry: _, ...quote }) => quote)
    const { order, given, close } = await afterOddAnswer(odd, 'for=192.0.2.1', settings)
    expect((await order()).status).toBe(201)
    expectProblem(await order({ ...termsOf(given), fromAmount: 7 }), 409, 'quote-unknown')
    await close()
  })

  it('does so for the amount that it states, besides the one that was asked for, and refuses none itself', async () => {
    const { clock, order, provider, quote } = await orderStage()
    const given = await quote('1')
    clock.set(given.expiry)
    expectProblem(await order(termsOf(given)), 409, 'quote-expired')
    provider.quote = { fromAmount: given.fromAmount }
    const odd = await quote('1e3')
    expect(odd.cacheStatus).toBe('quotegate; fwd=bypass; detail=other-amount')
    expect((await order(termsOf(odd))).status).toBe(201)
    clock.set(odd.expiry)
    expect((await order({ ...termsOf(odd), quoteId: odd.id })).status).toBe(201)
  })

  it('lets its orders through with ORDER_UNKNOWN_QUOTE=refuse too, and no other client’s', async () => {
    const { order, provider, quote, decided } = await orderStage({ ORDER_UNKNOWN_QUOTE: 'refuse' })
    provider.quote = { fromAmount: { assetId: 'ETH', value: '1' } }
    const odd = await quote('1e3')
    expectProblem(await order({ ...termsOf(odd), fromAmount: 2 }), 409, 'quote-unknown')
    expectProblem(await order(termsOf(odd), { headers: ['App-Name: another'] }), 409, 'quote-unknown')
    expect((await order(termsOf(odd))).status).toBe(201)
    expect((await order({ ...termsOf(odd), fromAmount: '1000' })).status).toBe(201)
    expect((await order({ ...termsOf(odd), quoteId: odd.id })).status).toBe(201)
    expect(await decided('forwarded', 'unknown')).toBe(3)
  })

  it('does so for as long as the longest of the last quotes lived', async () => {
    const { clock, order, close } = await afterOddAnswer(changed(({ expiry: _, ...quote }) => quote))
    clock.advance(lifeMs - 1)
    expect((await order()).status).toBe(201)
    clock.advance(1)
    expectProblem(await order(), 409, 'quote-expired')
    await close()
  })

  it('does so though its client was given a quote that can be read since', async () => {
    const { clock, order, quote, close } = await afterOddAnswer(changed(({ expiry: _, ...one }) => one))
    await quote(changed((one) => ({ ...one, expiry: clock.nowMs() + 1 })))
    clock.advance(lifeMs - 1)
    expect((await order()).status).toBe(201)
    clock.advance(1)
    expectProblem(await order(), 409, 'quote-expired')
    await close()
  })

  it('does not hide a live quote with the amount that the order states: that one is used up', async () => {
    const { gateway, order, quote, unreadable, close } = await afterOddAnswer(
      changed(({ expiry: _, ...one }) => one),
    )
    const live = JSON.parse((await quote((response, body) => giveQuote(response, body))).body)
    expect((await order(termsOf(live))).status).toBe(201)
    expect(await unreadable()).toBe(0)
    expect(await counted(gateway, 'quotegate_float_order_matches_total{decision="live",rule="exact"}')).toBe(
      1,
    )
    await close()
  })
})

it.each([
  ['an escape', 'ETH%3AUSDC', 'ETH:USDC'],
  ['other capitals', 'eth_usdc', 'ETH_USDC'],
])(
  'the pair of an unreadable quote is that of its body, though the path has %s',
  async (_what, inPath, pairId) => {
    const { clock, order, provider, quote } = await orderStage()
    const path = `/v3/pairs/${inPath}/quotes?amount=0.1`
    provider.quote = { pairId }
    const given = await quote('0.1', { path })
    clock.set(given.expiry)
    expectProblem(await order(termsOf(given)), 409, 'quote-expired')
    provider.quote = { pairId, expiry: undefined }
    expect((await order(termsOf(await quote('0.1', { path })))).status).toBe(201)
  },
)
