import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import { orderStage, post, termsOf } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import {
  ask,
  counted,
  createTestClock,
  giveQuote,
  quoteBody,
} from '../support/clients/quotes.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { gatewayWith, recordingUpstream } from '../support/gateways/between.ts'

const lifeMs = 30_000
type Give = (response: ServerResponse, body: string) => void
type Quote = Record<string, unknown>
const [own, other] = ['for=192.0.2.1', 'for=192.0.2.2']

/** A user was given a quote that is over, and then an odd answer. The provider dates its answers by the test's clock. */
async function afterOddAnswer(odd: Give, to = own) {
  const clock = createTestClock()
  let give: Give = (response, body) => giveQuote(response, body)
  const upstream = await recordingUpstream((request, response) => {
    response.setHeader('Date', new Date(clock.nowMs()).toUTCString())
    if (request.method === 'POST') response.writeHead(201).end('{}')
    else give(response, quoteBody({ expiry: clock.nowMs() + lifeMs }))
  })
  const settings = { SWAP_BASE_URL: upstream.url, TRUST_PROXY: 'loopback' }
  const gateway = await gatewayWith(settings, { clock })
  const quote = async (
    how: Give = (response, body) => giveQuote(response, body),
    client = own,
  ) => {
    give = how
    return (
      await ask(gateway.url, { headers: ['App-Name', 'wallet', 'Forwarded', client] })
    ).body
  }
  const given = JSON.parse(await quote())
  clock.advance(lifeMs)
  await quote(odd, to)
  const headers = ['App-Name: wallet', `Forwarded: ${own}`]
  const order = (body: object = termsOf(given)) =>
    rawExchange(gateway.url, post(JSON.stringify(body), { headers }))
  const unreadable = () =>
    counted(
      gateway,
      'quotegate_float_order_matches_total{decision="unknown",rule="unreadable"}',
    )
  return { clock, given, quote, order, unreadable }
}

const changed = (change: (quote: Quote) => object, status = 200): Give => {
  return (response, body) => {
    response.writeHead(status, { 'Content-Type': 'application/json' })
    response.end(JSON.stringify(change(JSON.parse(body))))
  }
}
const withoutExpiry = changed(({ expiry: _, ...quote }) => quote)
const plain = (
  status: number,
  body: string,
  headers: Record<string, string> = {},
): Give => {
  return (response) => response.writeHead(status, headers).end(body)
}
const coded: Record<string, string> = { 'Content-Encoding': 'gzip' }

// For whom and how long, with every history: test/property/guard.test.ts.
describe('no older quote refuses the order of a user who was given what cannot be read: an answer', () => {
  it.each<[string, Give]>([
    ['without an expiry', withoutExpiry],
    [
      'whose expiry is in seconds',
      changed((quote) => ({ ...quote, expiry: 1_763_651_841 })),
    ],
    [
      'whose expiry is not believed',
      changed((quote) => ({ ...quote, expiry: Number(quote.expiry) * 2 })),
    ],
    [
      'that was over when it came',
      changed((quote) => ({ ...quote, expiry: Number(quote.expiry) - lifeMs })),
    ],
    [
      'for another amount',
      changed((quote) => ({ ...quote, fromAmount: { assetId: 'ETH', value: '100' } })),
    ],
    ['behind a byte order mark', (response, body) => response.end(`\ufeff${body}`)],
    [
      'that is not UTF-8',
      (response, body) => response.end(body.replace('{', '{"a":"\xe9",'), 'latin1'),
    ],
    ['that names no id', changed(({ id: _, ...quote }) => quote)],
    ['with another status', changed((quote) => quote, 203)],
    ['in a content coding', plain(200, 'bytes', coded)],
    ['in a content coding, with another status', plain(203, 'bytes', coded)],
  ])('%s', async (_what, odd) => {
    const { order, unreadable, given } = await afterOddAnswer(odd)
    expect((await order()).status).toBe(201)
    expect(await unreadable()).toBe(1)
    // An id is one quote, whatever came since.
    expectProblem(await order({ quoteId: given.id }), 409, 'quote-expired')
  })

  it('lets its orders through with ORDER_UNKNOWN_QUOTE=refuse too, for the amounts that it is for', async () => {
    const { clock, order, provider, quote } = await orderStage({
      ORDER_UNKNOWN_QUOTE: 'refuse',
    })
    provider.quote = { fromAmount: { assetId: 'ETH', value: '1' } }
    const odd = await quote('1e3')
    expect(odd.cacheStatus).toBe('quotegate; fwd=bypass; detail=other-amount')
    expectProblem(await order({ ...termsOf(odd), fromAmount: 2 }), 409, 'quote-unknown')
    expectProblem(
      await order(termsOf(odd), { headers: ['App-Name: another'] }),
      409,
      'quote-unknown',
    )
    for (const members of [{}, { fromAmount: '1000' }, { quoteId: odd.id }])
      expect((await order({ ...termsOf(odd), ...members })).status).toBe(201)
    // It refuses none itself.
    clock.set(odd.expiry)
    expect((await order({ ...termsOf(odd), quoteId: odd.id })).status).toBe(201)
  })

  it('refuses one that names it, if it was over when it came by both clocks', async () => {
    const { order, quote } = await afterOddAnswer(withoutExpiry)
    const over = JSON.parse(
      await quote(
        changed((one) => ({ ...one, id: 'over', expiry: Number(one.expiry) - lifeMs })),
      ),
    )
    expect((await order(termsOf(over))).status).toBe(201)
    expectProblem(
      await order({ ...termsOf(over), quoteId: 'over' }),
      409,
      'quote-expired',
    )
  })

  it('protects them as long as the longest of the last quotes lived, whatever can be read since', async () => {
    const { clock, order, quote } = await afterOddAnswer(withoutExpiry)
    await quote(changed((one) => ({ ...one, expiry: clock.nowMs() + 1 })))
    clock.advance(lifeMs - 1)
    expect((await order()).status).toBe(201)
    clock.advance(1)
    expectProblem(await order(), 409, 'quote-expired')
  })
})

describe('an older quote refuses its user’s order', () => {
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
    expectProblem(await (await afterOddAnswer(odd)).order(), 409, 'quote-expired')
  })

  it('if another user had the unreadable answer', async () => {
    expectProblem(
      await (await afterOddAnswer(withoutExpiry, other)).order(),
      409,
      'quote-expired',
    )
  })
})
