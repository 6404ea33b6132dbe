import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import {
  ask,
  asking,
  counted,
  giveQuote,
  lookups,
  notKept,
  quoteBody,
  quotePath,
} from '../support/clients/quotes.ts'
import { rawExchange, valuesOf, withoutHopByHop } from '../support/clients/raw-connection.ts'
import { gatewayTo, rawUpstream, recordingUpstream } from '../support/gateways/between.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import { keptLog } from '../support/observing/log-lines.ts'

const request = `GET ${quotePath}?amount=0.1 HTTP/1.1\r\nHost: g\r\nApp-Name: a\r\n\r\n`
const hour = 3_600_000
const soon = () => Date.now() + 30_000

interface Given {
  status?: number
  body: string | Buffer
  headers?: readonly string[]
}

async function answering({ status = 200, body, headers = [] }: Given, settings = {}) {
  const upstream = await recordingUpstream((_request, response) => {
    const bytes = typeof body === 'string' ? Buffer.from(body) : body
    response.sendDate = false
    response.writeHead(status, 'Odd Phrase', [...headers, 'Content-Length', String(bytes.length)])
    response.end(bytes)
  })
  return { upstream, gateway: await gatewayTo(upstream.url, settings) }
}

const { expiry: _expiry, ...withoutExpiry } = JSON.parse(quoteBody())

describe('an answer that is not a quote for what was asked, or lives for over a day, is relayed and not kept: it', () => {
  const cases: [reason: string, what: string, given: () => Given][] = [
    ['status', 'a refusal', () => ({ status: 403, body: '{"code":"RESTRICTED_GEOLOCATION"}' })],
    ['status', 'a quote with another status', () => ({ status: 203, body: quoteBody() })],
    ['status', 'an error without a body', () => ({ status: 500, body: '' })],
    ['status', 'a 404', () => ({ status: 404, body: '<h1>\u20ac</h1>' })],
    [
      'status',
      'a redirect',
      () => ({ status: 302, body: '', headers: ['Location', 'http://evil.example/'] }),
    ],
    [
      'status',
      'a refusal for haste',
      // Not a 429, after which the provider is not asked again: see quotes-limited.test.ts.
      () => ({ status: 420, body: 'x', headers: ['Retry-After', '7', 'X-RateLimit-Remaining', '0'] }),
    ],
    ['not-json', 'a page', () => ({ body: '<html></html>' })],
    ['not-json', 'nothing', () => ({ body: '' })],
    [
      'not-json',
      'bytes that are not UTF-8',
      () => ({ body: Buffer.from(quoteBody({ id: '\xe9' }), 'latin1') }),
    ],
    ['not-json', 'half a quote that says it is whole', () => ({ body: quoteBody().slice(0, 80) })],
    ['not-a-quote', 'a list', () => ({ body: '[]' })],
    ['not-a-quote', 'an error that says 200', () => ({ body: '{"code":"NO_LIQUIDITY"}' })],
    ['not-a-quote', 'a quote without an id', () => ({ body: quoteBody({ id: undefined }) })],
    ['not-a-quote', 'amounts that are numbers', () => ({ body: quoteBody({ fromAmount: 0.1 }) })],
    ...['0.101000000000000000001', '0.098999999999999999999', '1', '1e-4'].map(
      (value): (typeof cases)[number] => [
        'other-amount',
        `a quote for ${value} where 0.1 was asked for`,
        () => ({ body: quoteBody({ fromAmount: { assetId: 'ETH', value } }) }),
      ],
    ),
    [
      'other-amount',
      'a quote for 1 that has no expiry besides',
      () => ({ body: JSON.stringify({ ...withoutExpiry, fromAmount: { assetId: 'ETH', value: '1' } }) }),
    ],
    ['no-expiry', 'a quote without an expiry', () => ({ body: JSON.stringify(withoutExpiry) })],
    ['no-expiry', 'an expiry that is text', () => ({ body: quoteBody({ expiry: String(soon()) }) })],
    ['no-expiry', 'an expiry of null', () => ({ body: quoteBody({ expiry: null }) })],
    [
      'expiry-in-seconds',
      'an expiry in seconds',
      () => ({ body: quoteBody({ expiry: Math.floor(soon() / 1_000) }) }),
    ],
    [
      'expiry-too-far',
      'an expiry in 25 hours',
      () => ({ body: quoteBody({ expiry: Date.now() + 25 * hour }) }),
    ],
    ['expiry-too-far', 'an expiry in microseconds', () => ({ body: quoteBody({ expiry: soon() * 1_000 }) })],
    ['expired', 'an expiry in the past', () => ({ body: quoteBody({ expiry: Date.now() - hour }) })],
    ['expired', 'an expiry a moment ago', () => ({ body: quoteBody({ expiry: Date.now() - 1 }) })],
    [
      'content-coding',
      'a coding that was not requested',
      () => ({ body: gzipSync(quoteBody()), headers: ['Content-Encoding', 'gzip'] }),
    ],
  ]

  it.each(cases)('(%s) %s is relayed untouched, not kept, and counted', async (reason, _what, given) => {
    const answer = given()
    const headers = ['Content-TYPE', 'x/odd; \xe9', 'Cache-Control', 'max-age=9', 'Age', '3', 'Expires', '0']
    answer.headers = [...headers, ...(answer.headers ?? [])]
    const { upstream, gateway } = await answering(answer)
    for (let times = 1; times <= 2; times += 1) {
      const got = await rawExchange(gateway.url, request)
      expect([got.status, got.reason]).toEqual([answer.status ?? 200, 'Odd Phrase'])
      expect(got.body.equals(Buffer.from(answer.body))).toBe(true)
      const own = ['Cache-Status', `quotegate; fwd=bypass; detail=${reason}`]
      const length = ['Content-Length', String(Buffer.byteLength(answer.body))]
      const id = ['X-Request-Id', expect.any(String)]
      expect(withoutHopByHop(got.rawHeaders)).toEqual([...answer.headers, ...length, ...own, ...id])
      expect(upstream.requests).toHaveLength(times)
      expect(await counted(gateway, notKept(reason))).toBe(times)
    }
    expect(await counted(gateway, 'quotegate_cache_entries')).toBe(0)
  })

  it.each(['0.101', '0.099', '0.10', '1e-1'])(
    'does not include a quote for %s where 0.1 was asked for',
    async (value) => {
      const { upstream, gateway } = await answering({
        body: quoteBody({ fromAmount: { assetId: 'ETH', value } }),
      })
      for (let times = 0; times < 2; times += 1) await ask(gateway.url)
      expect(upstream.requests).toHaveLength(1)
    },
  )

  it('does not include a quote with an expiry up to 24 h ahead', async () => {
    const { upstream, gateway } = await answering({
      body: quoteBody({ expiry: Date.now() + 24 * hour - 60_000 }),
    })
    for (let times = 0; times < 2; times += 1) await ask(gateway.url)
    expect(upstream.requests).toHaveLength(1)
  })

  it('does not affect the live quote that comes after it', async () => {
    const { upstream, gateway } = await answering({ status: 500, body: 'no' })
    expect((await ask(gateway.url)).status).toBe(500)
    upstream.answer((_request, response) => giveQuote(response))
    expect((await ask(gateway.url)).headers['cache-status']).toContain('stored')
    expect((await ask(gateway.url)).headers['cache-status']).toContain('hit')
  })
})

describe('a quote that is not kept', () => {
  it('is one that says Vary: *, on any of its lines', async () => {
    const headers = ['Vary', 'Accept', 'vary', 'Origin, *']
    const { upstream, gateway } = await answering({ body: quoteBody(), headers })
    for (let times = 0; times < 2; times += 1)
      expect((await ask(gateway.url)).headers['cache-status']).toBe('quotegate; fwd=bypass; detail=vary')
    expect(upstream.requests).toHaveLength(2)
    expect(await counted(gateway, notKept('vary'))).toBe(2)
  })

  it.each(['Accept-Encoding, User-Agent, Cookie', 'x-star*'])(
    'is not one that says Vary: %s',
    async (vary) => {
      const { upstream, gateway } = await answering({ body: quoteBody(), headers: ['Vary', vary] })
      for (let times = 0; times < 2; times += 1) await ask(gateway.url)
      expect(upstream.requests).toHaveLength(1)
    },
  )

  it('is not one whose coding is named identity', async () => {
    const { upstream, gateway } = await answering({
      body: quoteBody(),
      headers: ['Content-Encoding', 'Identity'],
    })
    for (let times = 0; times < 2; times += 1) await ask(gateway.url)
    expect(upstream.requests).toHaveLength(1)
  })

  it('is one of more than quoteBytes, to the byte', async () => {
    const body = quoteBody({ padding: 'x'.repeat(500) })
    const size = Buffer.byteLength(body)
    for (const [most, calls] of [
      [size, 1],
      [size - 1, 2],
    ] as const) {
      const { upstream, gateway } = await answering({ body }, { quoteBytes: String(most) })
      for (let times = 0; times < 2; times += 1) {
        const answer = await ask(gateway.url)
        expect(answer.body).toBe(body)
        expect(answer.headers['cache-control']).toMatch(/^private, max-age=\d+$/)
      }
      expect(upstream.requests).toHaveLength(calls)
      expect(await counted(gateway, notKept('too-large'))).toBe(calls === 1 ? 0 : 2)
    }
  })

  it.each([
    'no-store',
    'private',
    'max-age=60, NO-STORE',
    'private="x", no-cache',
    'no-cache',
    'must-revalidate',
  ])('is not one that says Cache-Control: %s: its own expiry decides', async (value) => {
    const headers = ['Cache-Control', value]
    const { upstream, gateway } = await answering({ body: quoteBody(), headers })
    for (let times = 0; times < 2; times += 1) await ask(gateway.url)
    expect(upstream.requests).toHaveLength(1)
  })
})

it('logs once, not at each quote, that a no-store of the provider does not decide', async () => {
  const upstream = await recordingUpstream((_request, response) =>
    giveQuote(response, quoteBody(), ['Cache-Control', 'no-store']),
  )
  const log = await keptLog('info')
  const gateway = await startGateway({ SWAP_BASE_URL: upstream.url }, { logger: log.logger })
  for (const amount of ['1', '2', '3']) await asking(gateway.url, amount)
  await gateway.close()
  expect(log.lines().filter(({ msg }) => msg.includes('marks its quotes with Cache-Control'))).toHaveLength(1)
})

describe('an incomplete answer', () => {
  const body = quoteBody()
  it.each([
    ['cut short of its length', `Content-Length: ${body.length + 1}\r\n\r\n${body}`],
    ['cut in its chunks', `Transfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n`],
    ['larger than 4 MiB', `Content-Length: 4194305\r\n\r\n${'x'.repeat(4_194_305)}`],
  ])('%s is a 502, and nothing of it is relayed or kept', async (_what, rest) => {
    const upstream = await rawUpstream((socket) => socket.end(`HTTP/1.1 200 OK\r\n${rest}`))
    const gateway = await gatewayTo(upstream.url)
    for (let times = 1; times <= 2; times += 1) {
      const answer = await rawExchange(gateway.url, request)
      expect([answer.status, answer.whole]).toEqual([502, true])
      expect(valuesOf(answer.rawHeaders, 'proxy-status')).toEqual([
        expect.stringMatching(/^quotegate; error=http_response_/),
      ])
      expect(upstream.received).toHaveLength(times)
    }
    expect(await counted(gateway, lookups('hit'))).toBe(0)
  })
})
