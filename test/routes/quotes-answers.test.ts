import { describe, expect, it } from 'vitest'
import {
  ask,
  counted,
  giveQuote,
  notKept,
  quoteBody,
  quotePath,
} from '../support/clients/quotes.ts'
import {
  rawExchange,
  valuesOf,
  withoutHopByHop,
} from '../support/clients/raw-connection.ts'
import { gatewayTo, rawUpstream, recordedGateway } from '../support/gateways/between.ts'

const request = `GET ${quotePath}?amount=0.1 HTTP/1.1\r\nHost: g\r\nApp-Name: a\r\n\r\n`

/** A gateway in front of an upstream that answers each quote with these headers and this body. */
const serving = (headers: readonly string[], body: string | Buffer, settings = {}) =>
  recordedGateway(settings, (_request, response) => giveQuote(response, body, headers))

describe('the bytes of a quote', () => {
  const expiry = Date.now() + 30_000
  const terms = `"fromAmount":{"assetId":"ETH","value":"0.10"},"toAmount":{"value":"289.6450","assetId":"US\\u0044C"}`
  it.each([
    [
      'with extra fields, odd spacing and numbers',
      `\r\n{ ${terms},"id":"a","pairId":"p",\t"expiry":${expiry}.0e0,"n":0.1000000000000000055,"big":9007199254740993 }\n`,
    ],
    [
      'with UTF-8 text',
      `{${terms},"id":"caf\u00e9 \u20ac \u{1f600}","pairId":"p","expiry":${expiry}}`,
    ],
    [
      'with an escape and a NUL in it',
      `{${terms},"id":"\\u00e9\\u0000","pairId":"p","expiry":${expiry}}`,
    ],
  ])(
    '%s are served as they came, the first time and from the cache',
    async (_what, text) => {
      const { upstream, gateway } = await serving(
        ['Content-Type', 'application/json'],
        text,
      )
      const first = await rawExchange(gateway.url, request)
      const second = await rawExchange(gateway.url, request)
      expect(first.body.toString()).toBe(text)
      expect(second.body.toString()).toBe(text)
      expect(upstream.requests).toHaveLength(1)
    },
  )

  it('come whole from an upstream that sends them in chunks, with the length that they have', async () => {
    const body = quoteBody({ id: 'caf\u00e9' })
    const { gateway } = await recordedGateway({}, (_request, response) => {
      const bytes = Buffer.from(body)
      response.writeHead(200).write(bytes.subarray(0, 10))
      setTimeout(() => response.end(bytes.subarray(10)), 20)
    })
    const answer = await rawExchange(gateway.url, request)
    expect([answer.framing, answer.body.toString()]).toEqual(['length', body])
  })
})

describe('the headers of a quote', () => {
  const lasting = [
    'content-TYPE',
    'application/vnd.odd+json; x="\xe9"',
    'X-Dup',
    '1',
    'ETag',
    '"v"',
    'x-dup',
    '2',
    'X-Empty',
    '',
    'X-Latin',
    'caf\xe9',
    'Strict-Transport-Security',
    'max-age=1',
  ]
  const passing =
    `Date: Thu, 20 Nov 2025 15:17:21 GMT|Age: 7|Cache-Control: no-store|Expires: 0|Pragma: no-cache
    |RateLimit: "d";r=1|RateLimit-Policy: "d";q=1|X-RateLimit-Remaining: 1|X-Rate-Limit-Reset: 1|Retry-After: 1
    |X-Request-Id: theirs|traceparent: 00|tracestate: a=1|CF-Ray: r|X-Client-IP: 192.0.2.1|X-Amzn-Trace-Id: r|X-B3-TraceId: b
    |X-Correlation-Id: c|X-Cloud-Trace-Context: t|Server-Timing: db|Via: 1.1 cdn|X-Cache: HIT|Cache-Status: cdn; hit
    |CDN-Cache-Control: max-age=6|Surrogate-Control: max-age=6|X-Accel-Expires: 30`
      .split(/\s*\|/)
      .flatMap((line) => line.split(': '))
  const cookies = ['Set-Cookie', '__cf=1', 'set-cookie', 'b=2']
  // Of Vary: quotes-vary.test.ts.
  const own = /^(?:cache-control|cache-status|content-length|date|vary|x-request-id)$/i

  function withoutOwn(rawHeaders: string[]): string[] {
    return withoutHopByHop(rawHeaders).filter(
      (_, index, all) => !own.test(all[index - (index % 2)] ?? ''),
    )
  }

  it("are complete but for cookies and the provider's caching; on a hit without those of one exchange", async () => {
    const named = ['Connection', 'close, X-Hop', 'X-Hop', '1']
    const { gateway } = await serving(
      [...lasting, ...named, ...passing, ...cookies],
      quoteBody(),
    )
    const first = await rawExchange(gateway.url, request)
    const kept = passing.filter((_, index) => {
      const name = passing[index - (index % 2)] ?? ''
      return (
        !/^(?:age|expires|pragma|.*-expires|.*-control)$/i.test(name) && !own.test(name)
      )
    })
    expect(withoutOwn(first.rawHeaders)).toEqual([...lasting, ...kept])
    expect(valuesOf(first.rawHeaders, 'cache-status')).toHaveLength(2)
    const hit = await rawExchange(gateway.url, request)
    const status = expect.stringMatching(/^quotegate; hit; ttl=\d+$/)
    expect(valuesOf(hit.rawHeaders, 'cache-status')).toEqual([status])
    expect(withoutOwn(hit.rawHeaders)).toEqual(lasting)
  })

  // A cookie on a shared answer would make one user another.
  it('hold no cookie, neither on quotes nor on errors that several share', async () => {
    const { gateway } = await recordedGateway({}, (_request, response) => {
      response.writeHead(503, ['Set-Cookie', 'session=1', 'X-Stays', '1']).end('later')
    })
    const answer = await rawExchange(gateway.url, request)
    expect([answer.status, answer.body.toString()]).toEqual([503, 'later'])
    expect(valuesOf(answer.rawHeaders, 'set-cookie')).toEqual([])
  })

  // RFC 9110 8.6: a client that believes the length of a 204 waits for bytes that never come. That of a 304 would be that of
  // the quote which it does not hold.
  it.each([
    ['204 No Content', '5', []],
    ['304 Not Modified', '77', ['77']],
  ])('with a %s and a length of %s have the length %j', async (line, length, relayed) => {
    const upstream = await rawUpstream((socket) => {
      socket.end(`HTTP/1.1 ${line}\r\nContent-Length: ${length}\r\nX-Stays: 1\r\n\r\n`)
    })
    const gateway = await gatewayTo(upstream.url)
    const { status, rawHeaders } = await rawExchange(gateway.url, request)
    expect([status, valuesOf(rawHeaders, 'x-stays')]).toEqual([
      Number.parseInt(line, 10),
      ['1'],
    ])
    expect(valuesOf(rawHeaders, 'content-length')).toEqual(relayed)
  })
})

describe('Cache-Control and Cache-Status', () => {
  it('say the whole seconds left, rounded down, without Age, for every source of a quote', async () => {
    const expiry = Date.now() + 20_900
    const { gateway } = await serving(['Age', '3'], quoteBody({ expiry }))
    for (const form of [
      /^quotegate; fwd=uri-miss; stored; ttl=(\d+)$/,
      /^quotegate; hit; ttl=(\d+)$/,
    ]) {
      const secondsLeft = () => Math.floor((expiry - Date.now()) / 1_000)
      const before = secondsLeft()
      const { headers } = await ask(gateway.url)
      const ttl = Number(form.exec(headers['cache-status'] as string)?.[1])
      expect(ttl).toBeLessThanOrEqual(before)
      expect(ttl).toBeGreaterThanOrEqual(secondsLeft())
      expect(headers['cache-control']).toBe(`private, max-age=${ttl}`)
      expect(headers).not.toHaveProperty('age')
    }
  })

  it('say that a quote is not stored that does not fit into cacheBytes', async () => {
    const { gateway } = await serving(['X-Long', 'x'.repeat(2_000)], quoteBody(), {
      cacheBytes: 2_048,
    })
    for (let times = 1; times <= 2; times += 1) {
      expect((await ask(gateway.url)).headers['cache-status']).toBe(
        'quotegate; fwd=bypass; detail=too-large',
      )
      expect(await counted(gateway, notKept('too-large'))).toBe(times)
    }
    expect(await counted(gateway, 'quotegate_entries{in="cache"}')).toBe(0)
  })
})

// What undici reads and Node will not write must end as an answer, not as a rejection that ends the process.
it('an answer with a control character in its reason phrase is a 502, and is not cached', async () => {
  const body = quoteBody()
  const upstream = await rawUpstream((socket) =>
    socket.end(`HTTP/1.1 200 O\x01K\r\nContent-Length: ${body.length}\r\n\r\n${body}`),
  )
  const gateway = await gatewayTo(upstream.url)
  const answer = await rawExchange(gateway.url, request)
  expect(answer.status).toBe(502)
  expect(JSON.parse(answer.body.toString())).toMatchObject({
    type: 'urn:quotegate:problem:upstream-invalid',
  })
  expect(await counted(gateway, notKept('not-json'))).toBe(0)
})
