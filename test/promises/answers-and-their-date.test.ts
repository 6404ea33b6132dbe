import { expect, test } from 'vitest'
import { giveQuote, quoteBody, quotePath } from '../support/clients/quotes.ts'
import { rawExchange, valuesOf } from '../support/clients/raw-connection.ts'
import { gatewayTo, recordingUpstream } from '../support/gateways/between.ts'

const get = (target: string, headers = '') =>
  `GET ${target} HTTP/1.1\r\nHost: g\r\nApp-Name: wallet\r\n${headers}\r\n`
const quote = get(`${quotePath}?amount=0.1`)

/** An upstream without a clock: its answers have no Date. */
async function undated() {
  const upstream = await recordingUpstream(({ method, target }, response) => {
    response.sendDate = false
    if (!target.includes('/quotes'))
      response.writeHead(method === 'POST' ? 201 : 200).end('{}')
    else if (target.includes('NO_QUOTE')) response.writeHead(404).end('{}')
    else {
      const body = quoteBody()
      response
        .writeHead(200, {
          'Content-Type': 'application/json',
          'Content-Length': body.length,
        })
        .end(body)
    }
  })
  return { upstream, gateway: await gatewayTo(upstream.url, { CLIENT_CONNECTIONS: 50 }) }
}

async function datesOf(url: string, request: string): Promise<string[]> {
  const answer = await rawExchange(url, request)
  expect(answer.status).toBeGreaterThan(0)
  return valuesOf(answer.rawHeaders, 'date')
}

// RFC 9110 6.6.1: an origin with a clock says what time it is. Caches and clients count an answer's age from it.
test("every answer that the gateway makes has one Date, from the gateway's clock", async () => {
  const { gateway } = await undated()
  for (const [what, request] of [
    ['a quote from the provider', quote],
    ['a quote from memory', quote],
    ['the head of one', quote.replace('GET', 'HEAD')],
    [
      'a quote that is not kept',
      get(`${quotePath}?amount=0.10`, 'Forwarded: for=unknown\r\n'),
    ],
    ['a quote without an amount', get(quotePath)],
    ['an unknown path', get('/nowhere')],
    ['options', 'OPTIONS * HTTP/1.1\r\nHost: g\r\n\r\n'],
    ['bytes that are not a request', 'nonsense\r\n\r\n'],
    ['a head that is too large', get('/checkouts', `X-A: ${'a'.repeat(60_000)}\r\n`)],
    ['two hosts', get('/checkouts', 'Host: h\r\n')],
    ['an expectation that is not met', get('/checkouts', 'Expect: more\r\n')],
    ['CONNECT', 'CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n'],
  ] as const) {
    const dates = await datesOf(gateway.url, request)
    expect(dates, what).toHaveLength(1)
    expect(Math.abs(Date.parse(dates[0] ?? '') - Date.now()), what).toBeLessThan(30_000)
  }
})

test('relayed answers get no Date, and keep the one that they have', async () => {
  const { gateway } = await undated()
  for (const request of [
    get('/checkouts'),
    get('/v3/pairs'),
    get(`/v3/pairs/NO_QUOTE/quotes?amount=1`),
    'POST /v3/orders/float HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}',
  ])
    expect(await datesOf(gateway.url, request)).toEqual([])
})

test("the provider's Date is in the answer that it came with, and not in a later one", async () => {
  const date = 'Thu, 20 Nov 2025 15:17:21 GMT'
  const upstream = await recordingUpstream((_request, response) =>
    giveQuote(response, quoteBody({ expiry: Date.parse(date) + 30_000 }), ['Date', date]),
  )
  const gateway = await gatewayTo(upstream.url)
  expect(await datesOf(gateway.url, quote)).toEqual([date])
  const [replayed] = await datesOf(gateway.url, quote)
  expect(replayed).not.toBe(date)
  expect(upstream.requests).toHaveLength(1)
})
