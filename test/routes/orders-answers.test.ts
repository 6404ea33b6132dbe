import { describe, expect, it } from 'vitest'
import { orderStage, post, termsOf } from '../support/clients/orders.ts'
import { expectProblem, proxyStatus } from '../support/clients/problems.ts'
import { counted } from '../support/clients/quotes.ts'
import {
  RawConnection,
  rawExchange,
  valuesOf,
  withoutHopByHop,
} from '../support/clients/raw-connection.ts'
import { gatewayTo, rawUpstream } from '../support/gateways/between.ts'

describe('an order whose quote has expired', () => {
  it('is answered with the quote, since when it has expired, and where to get a new one; the connection stays open', async () => {
    const { arrived, clock, gateway, quote } = await orderStage()
    const given = await quote()
    clock.set(given.expiry + 1_234)
    const client = new RawConnection(gateway.url)
    for (let time = 0; time < 2; time += 1) {
      client.write(post(JSON.stringify(termsOf(given))))
      const answer = await client.answer()
      expect(expectProblem(answer, 409, 'quote-expired')).toMatchObject({
        retryable: false,
        quoteId: given.id,
        pairId: 'ETH_USDC',
        expiry: given.expiry,
        expiredForMs: 1_234,
        requote: '/v3/pairs/ETH_USDC/quotes?amount=0.1',
      })
      expect(valuesOf(answer.rawHeaders, 'cache-control')).toEqual(['no-store'])
      expect(proxyStatus(answer)).toBeUndefined()
    }
    expect(arrived()).toHaveLength(0)
  })

  it.each([
    ['P', '0.1', '{"value":"0.100"}', 'P', '0.100'],
    ['P', '1000000000000000000000', '1e+21', 'P', '1e%2B21'],
    ['P', '0.1', '" 0.1 "', 'P', '0.1'],
    ['P', '0.10', undefined, 'P', '0.1'],
    ['P', '0.10', '0', 'P', '0.1'],
    ['A/B?c=d&e#f %g€', '0.1', '0.1', 'A%2FB%3Fc%3Dd%26e%23f%20%25g%E2%82%AC', '0.1'],
    // JSON can spell half of a surrogate pair; its meaning is undefined.
    ['A\ud800_B', '0.1', '0.1', 'A%EF%BF%BD_B', '0.1'],
  ])(
    'for %j at %s gets a requote path for that pair, in its own spelling: %s',
    async (...row) => {
      const [pairId, amount, spelled, pairInPath, amountInPath] = row
      const { clock, order, provider, quote } = await orderStage()
      provider.quote = { pairId, fromAmount: { assetId: 'ETH', value: amount } }
      const given = await quote(amount)
      clock.set(given.expiry)
      const fromAmount = spelled === undefined ? '' : `,"fromAmount":${spelled}`
      const refused = await order(`{"quoteId":"${given.id}"${fromAmount}}`)
      const requote = String(expectProblem(refused, 409, 'quote-expired').requote)
      expect(requote).toBe(`/v3/pairs/${pairInPath}/quotes?amount=${amountInPath}`)
      expect((await quote('', { path: requote })).id).not.toBe(given.id)
    },
  )
})

/** What an order is answered where the provider says exactly these bytes. */
async function relayed(bytes: string) {
  const upstream = await rawUpstream((socket) =>
    socket.write(Buffer.from(bytes, 'latin1')),
  )
  return rawExchange((await gatewayTo(upstream.url)).url, post('{}'))
}

describe('an order that is sent', () => {
  it('carries its own headers, the Forwarded of its user, Via, and the SWAP_ settings', async () => {
    const { arrived, order } = await orderStage({
      ORDER_UNKNOWN_QUOTE: 'forward',
      SWAP_APP_NAME: 'ours',
      SWAP_APP_VERSION: '2',
      SWAP_AUTHORIZATION: 'Bearer team',
      TRUST_PROXY: 'loopback',
    })
    const own = ['App-Version: 1', 'X-Odd:  kept ', 'x-odd: twice', 'Via: 1.1 cdn']
    const hidden = [
      'Forwarded: for=198.51.100.7',
      'X-Forwarded-For: 1.2.3.4',
      'Connection: X-Hop',
      'X-Hop: x',
    ]
    const others = ['Content-Type: application/json', 'X-Request-Id: mine']
    await order('{ }', { headers: [...own, ...hidden, ...others] })
    const [received] = arrived()
    expect(received?.headers['content-length']).toBe('3')
    expect(withoutHopByHop(received?.rawHeaders ?? [], 'content-length')).toEqual([
      'App-Version',
      '1',
      'X-Odd',
      'kept',
      'x-odd',
      'twice',
      'Via',
      '1.1 cdn',
      'Content-Type',
      'application/json',
      'X-Request-Id',
      'mine',
      'App-Name',
      'ours',
      'Authorization',
      'Bearer team',
      'Forwarded',
      'for=198.51.100.7',
      'Via',
      '1.1 quotegate',
    ])
  })

  const date = 'Date: Thu, 20 Nov 2025 15:17:21 GMT'
  it.each([
    [
      'HTTP/1.1 201 Made Up',
      [date, 'X-ODD: a', 'x-odd: \xe9\xff', 'Content-Length: 2', 'Set-Cookie: s=1'],
      '{}',
    ],
    [
      'HTTP/1.1 422 No Such \xc3\xa9',
      [date, 'Content-Type: text/x', 'Content-Length: 3'],
      'no\n',
    ],
    ['HTTP/1.1 500 Internal Server Error', ['Retry-After: 7', 'Content-Length: 0'], ''],
    [
      'HTTP/1.1 202 Accepted',
      [date, 'Content-Encoding: gzip', 'Content-Length: 4'],
      '\x1f\x8b\x00\xff',
    ],
    ['HTTP/1.1 204 No Content', [date, 'ETag: "x"'], ''],
    ['HTTP/1.1 599 ', ['Content-Length: 1'], 'x'],
  ])('gets the answer of the provider, unchanged: %s', async (line, headers, body) => {
    const bytes = `${line}\r\n${headers.join('\r\n')}\r\n\r\n${body}`
    const { reason, rawHeaders, ...answer } = await relayed(bytes)
    expect(`HTTP/1.1 ${answer.status} ${reason}`).toBe(line)
    const lines = headers.flatMap((header) => header.split(/: (.*)/).slice(0, 2))
    expect(withoutHopByHop(rawHeaders)).toEqual([
      ...lines,
      'X-Request-Id',
      expect.any(String),
    ])
    expect(answer.body.toString('latin1')).toBe(body)
    expect(answer.whole).toBe(true)
  })

  // Behind a length Node would read it as UTF-8, and could not write this one.
  it.each(['\xfc', '\xe2\x82\xac'])(
    "gets the answer's file name with its original bytes: %j",
    async (name) => {
      const disposition = `inline; filename="${name}"`
      const head = `HTTP/1.1 201 Created\r\nContent-Length: 2\r\nContent-Disposition: ${disposition}\r\n\r\n`
      const answer = await relayed(`${head}{}`)
      expect([answer.status, answer.body.toString()]).toEqual([201, '{}'])
      expect(valuesOf(answer.rawHeaders, 'content-disposition')).toEqual([disposition])
    },
  )

  it('gets an answer that came in chunks with its length', async () => {
    const chunks = '3\r\n{"a\r\n4\r\n":1}\r\n0\r\n\r\n'
    const head = 'HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n'
    const { rawHeaders, body } = await relayed(head + chunks)
    expect(body.toString()).toBe('{"a":1}')
    expect(withoutHopByHop(rawHeaders)).toEqual([
      'X-Request-Id',
      expect.any(String),
      'Content-Length',
      '7',
    ])
  })
})

describe('the age of the quotes that orders use', () => {
  it('is counted from when the quote was first given, for live and late orders', async () => {
    const { clock, gateway, order, provider, quote } = await orderStage()
    const ages = (what: string) =>
      counted(gateway, `quotegate_float_order_quote_age_seconds_${what}`)
    provider.lifeMs = 60_000
    const given = await quote()
    clock.advance(12_000)
    expect((await quote()).id).toBe(given.id)
    await order(termsOf(given))
    expect([await ages('sum'), await ages('count')]).toEqual([12, 1])
    clock.set(given.expiry + 15_000)
    await order(termsOf(given))
    expect([await ages('sum'), await ages('count')]).toEqual([12 + 75, 2])
    await order({ pairId: 'ETH_USDC', fromAmount: 7 })
    expect(await ages('count')).toBe(2)
  })
})
