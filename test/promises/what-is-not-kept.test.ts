import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import {
  ask,
  asking,
  counted,
  giveQuote,
  notKept,
  quoteBody,
  quotePath,
} from '../support/clients/quotes.ts'
import { rawExchange, withoutHopByHop } from '../support/clients/raw-connection.ts'
import { gatewayTo, rawUpstream, recordingUpstream } from '../support/gateways/between.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import { keptLog } from '../support/observing/log-lines.ts'

const request = `GET ${quotePath}?amount=0.1 HTTP/1.1\r\nHost: g\r\nApp-Name: a\r\n\r\n`
const hour = 3_600_000

interface Given {
  status?: number
  body: string | Buffer
  headers?: readonly string[]
  /** As which code it is counted. */
  code?: string
}

/** A gateway to a provider that always answers this. */
async function answering({ status = 200, body, headers = [] }: Given, settings = {}) {
  const upstream = await recordingUpstream((_request, response) => {
    const bytes = Buffer.from(body)
    response.sendDate = false
    response.writeHead(status, 'Odd Phrase', [
      ...headers,
      'Content-Length',
      String(bytes.length),
    ])
    response.end(bytes)
  })
  return { upstream, gateway: await gatewayTo(upstream.url, settings) }
}

const of = (changes: Record<string, unknown>) => ({ body: quoteBody(changes) })
const forAmount = (value: string) => of({ fromAmount: { assetId: 'ETH', value } })
const inMs = (ms: number) => Date.now() + ms

describe('an answer that is not a quote for what was asked, or lives for over a day, is relayed and not kept: it', () => {
  it.each<[reason: string, what: string, given: () => Given]>([
    [
      'status',
      'a refusal',
      () => ({
        status: 403,
        body: '{"code":"RESTRICTED_GEOLOCATION"}',
        code: 'RESTRICTED_GEOLOCATION',
      }),
    ],
    ['status', 'a quote with another status', () => ({ status: 203, ...of({}) })],
    ['status', 'an error without a body', () => ({ status: 500, body: '' })],
    ['status', 'a 404', () => ({ status: 404, body: '<h1>\u20ac</h1>' })],
    [
      'status',
      'a redirect',
      () => ({ status: 302, body: '', headers: ['Location', 'http://evil.example/'] }),
    ],
    // Not a 429, after which the provider is not asked again: see limits-of-the-provider.test.ts.
    [
      'status',
      'a refusal for haste',
      () => ({ status: 420, body: 'x', headers: ['Retry-After', '7'] }),
    ],
    ['not-json', 'nothing', () => ({ body: '' })],
    [
      'not-json',
      'bytes that are not UTF-8',
      () => ({ body: Buffer.from(quoteBody({ id: '\xe9' }), 'latin1') }),
    ],
    [
      'not-json',
      'half a quote that says it is whole',
      () => ({ body: quoteBody().slice(0, 80) }),
    ],
    [
      'not-a-quote',
      'an error that says 200',
      () => ({ body: '{"code":"NO_LIQUIDITY"}', code: 'NO_LIQUIDITY' }),
    ],
    [
      'status',
      'a refusal with its code in error',
      () => ({
        status: 400,
        body: '{"error":{"code":"AMOUNT_TOO_LOW"}}',
        code: 'AMOUNT_TOO_LOW',
      }),
    ],
    [
      'status',
      'a refusal with its code in details',
      () => ({
        status: 404,
        body: '{"details":{"code":"NOT_FOUND"}}',
        code: 'NOT_FOUND',
      }),
    ],
    [
      'status',
      'a refusal with a code that has no series',
      () => ({ status: 400, body: '{"code":"amount_too_low"}', code: 'other' }),
    ],
    ['not-a-quote', 'a quote without an id', () => of({ id: undefined })],
    [
      'other-amount',
      'more by over a hundredth',
      () => forAmount('0.101000000000000000001'),
    ],
    [
      'other-amount',
      'less by over a hundredth',
      () => forAmount('0.098999999999999999999'),
    ],
    [
      'other-amount',
      'for 1, with no expiry',
      () => ({ body: forAmount('1').body.replace(/,"expiry":\d+/, '') }),
    ],
    ['no-expiry', 'a quote without an expiry', () => of({ expiry: undefined })],
    ['no-expiry', 'an expiry that is text', () => of({ expiry: String(inMs(30_000)) })],
    [
      'expiry-in-seconds',
      'an expiry in seconds',
      () => of({ expiry: Math.floor(inMs(30_000) / 1_000) }),
    ],
    ['expiry-too-far', 'an expiry in 25 hours', () => of({ expiry: inMs(25 * hour) })],
    [
      'expiry-too-far',
      'an expiry in microseconds',
      () => of({ expiry: inMs(30_000) * 1_000 }),
    ],
    ['expired', 'an expiry in the past', () => of({ expiry: inMs(-hour) })],
    ['expired', 'an expiry a moment ago', () => of({ expiry: inMs(-1) })],
    [
      'content-coding',
      'a coding that was not requested',
      () => ({ body: gzipSync(quoteBody()), headers: ['Content-Encoding', 'gzip'] }),
    ],
  ])(
    '(%s) %s is relayed untouched, not kept, and counted',
    async (reason, _what, given) => {
      const { status = 200, body, headers = [], code } = given()
      const odd = [
        'Content-TYPE',
        'x/odd; \xe9',
        'Cache-Control',
        'max-age=9',
        'Age',
        '3',
        'Expires',
        '0',
        ...headers,
      ]
      const { upstream, gateway } = await answering({ status, body, headers: odd })
      for (let times = 1; times <= 2; times += 1) {
        const got = await rawExchange(gateway.url, request)
        expect([got.status, got.reason]).toEqual([status, 'Odd Phrase'])
        expect(got.body.equals(Buffer.from(body))).toBe(true)
        const own = [
          'Cache-Status',
          `quotegate; fwd=bypass; detail=${reason}`,
          'X-Request-Id',
          expect.any(String),
        ]
        const length = ['Content-Length', String(Buffer.byteLength(body))]
        expect(withoutHopByHop(got.rawHeaders)).toEqual([...odd, ...length, ...own])
        expect(upstream.requests).toHaveLength(times)
        expect(await counted(gateway, notKept(reason, code))).toBe(times)
      }
      expect(await counted(gateway, 'quotegate_entries{in="cache"}')).toBe(0)
    },
  )

  it('does not affect the live quote that comes after it, the last that was given', async () => {
    const { upstream, gateway } = await answering({ status: 500, body: 'no' })
    const lastQuoteMs = async () =>
      1_000 * (await counted(gateway, 'quotegate_last_quote_timestamp_seconds'))
    const before = await lastQuoteMs()
    expect((await ask(gateway.url)).status).toBe(500)
    expect(await lastQuoteMs()).toBe(before)
    upstream.answer((_request, response) => giveQuote(response))
    for (const how of ['stored', 'hit']) {
      const { headers, sentAtMs } = await ask(gateway.url)
      expect(headers['cache-status']).toContain(how)
      expect(await lastQuoteMs()).toBeGreaterThanOrEqual(sentAtMs - 1)
    }
  })
})

it('a quote that says Vary: *, on any of its lines, is not kept', async () => {
  const { gateway } = await answering({
    ...of({}),
    headers: ['Vary', 'Accept', 'vary', 'Origin, *'],
  })
  for (let times = 1; times <= 2; times += 1) {
    expect((await ask(gateway.url)).headers['cache-status']).toBe(
      'quotegate; fwd=bypass; detail=vary',
    )
    expect(await counted(gateway, notKept('vary'))).toBe(times)
  }
})

describe('any other quote is kept:', () => {
  it.each<[what: string, given: () => Given]>([
    ['more by a hundredth', () => forAmount('0.101')],
    ['less by a hundredth', () => forAmount('0.099')],
    ['the amount in another spelling', () => forAmount('1e-1')],
    ['an expiry up to 24 h ahead', () => of({ expiry: inMs(24 * hour - 60_000) })],
    [
      'Vary without *',
      () => ({ ...of({}), headers: ['Vary', 'Accept-Encoding, x-star*'] }),
    ],
    [
      'the coding identity',
      () => ({ ...of({}), headers: ['Content-Encoding', 'Identity'] }),
    ],
    // Its own expiry decides.
    [
      'Cache-Control of any kind',
      () => ({ ...of({}), headers: ['Cache-Control', 'private="x", NO-STORE'] }),
    ],
  ])('%s', async (_what, given) => {
    const { upstream, gateway } = await answering(given())
    for (let times = 0; times < 2; times += 1) await ask(gateway.url)
    expect(upstream.requests).toHaveLength(1)
  })

  it('up to quoteBytes, to the byte', async () => {
    const body = quoteBody({ padding: 'x'.repeat(500) })
    for (const [spare, calls] of [
      [0, 1],
      [-1, 2],
    ] as const) {
      const { upstream, gateway } = await answering(
        { body },
        { quoteBytes: Buffer.byteLength(body) + spare },
      )
      for (let times = 0; times < 2; times += 1) {
        const answer = await ask(gateway.url)
        expect(answer.body).toBe(body)
        expect(answer.headers['cache-control']).toMatch(/^private, max-age=\d+$/)
      }
      expect(upstream.requests).toHaveLength(calls)
      expect(await counted(gateway, notKept('too-large'))).toBe(calls === 1 ? 0 : 2)
    }
  })

  it('a no-store of the provider does not decide, which is logged once', async () => {
    const upstream = await recordingUpstream((_request, response) =>
      giveQuote(response, quoteBody(), ['Cache-Control', 'no-store']),
    )
    const log = await keptLog('info')
    const gateway = await startGateway(
      { SWAP_BASE_URL: upstream.url },
      { logger: log.logger },
    )
    for (const amount of ['1', '2', '3']) await asking(gateway.url, amount)
    await gateway.close()
    const said = log
      .lines()
      .filter(({ msg }) => msg.includes('marks its quotes with Cache-Control'))
    expect(said).toHaveLength(1)
  })
})

describe('an incomplete answer', () => {
  const body = quoteBody()
  it.each([
    ['cut short of its length', `Content-Length: ${body.length + 1}\r\n\r\n${body}`],
    [
      'cut in its chunks',
      `Transfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n`,
    ],
    ['larger than 4 MiB', `Content-Length: 4194305\r\n\r\n${'x'.repeat(4_194_305)}`],
  ])('%s is a 502, and nothing of it is relayed or kept', async (_what, rest) => {
    const upstream = await rawUpstream((socket) =>
      socket.end(`HTTP/1.1 200 OK\r\n${rest}`),
    )
    const gateway = await gatewayTo(upstream.url)
    for (let times = 1; times <= 2; times += 1) {
      const { status, headers } = await ask(gateway.url)
      expect([status, headers['proxy-status']]).toEqual([
        502,
        expect.stringMatching(/^quotegate; error=http_response_/),
      ])
      expect(upstream.received).toHaveLength(times)
    }
  })
})
