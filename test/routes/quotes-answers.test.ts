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

const request = `GET ${quotePath}?amount=0.1 HTTP/1.1\r\nHost: g\r\nApp-Name: a\r\n\r\n`

/** A gateway in front of an upstream that answers each quote with these headers and this body. */
async function serving(headers: readonly string[], body: string | Buffer, settings = {}) {
  const upstream = await recordingUpstream((_request, response) => giveQuote(response, body, headers))
  const gateway = await gatewayTo(upstream.url, settings)
  return { upstream, gateway }
}

describe('the bytes of a quote', () => {
  const expiry = Date.now() + 30_000
  const terms = `"fromAmount":{"assetId":"ETH","value":"0.10"},"toAmount":{"value":"289.6450","assetId":"US\\u0044C"}`
  it.each([
    [
      'with extra fields, odd spacing and numbers',
      `\r\n{ ${terms},"id":"a","pairId":"p",\t"expiry":${expiry}.0e0,"n":0.1000000000000000055,"big":9007199254740993 }\n`,
    ],
    ['with UTF-8 text', `{${terms},"id":"caf\u00e9 \u20ac \u{1f600}","pairId":"p","expiry":${expiry}}`],
    ['with an escape and a NUL in it', `{${terms},"id":"\\u00e9\\u0000","pairId":"p","expiry":${expiry}}`],
  ])('%s are served as they came, the first time and from the cache', async (_what, text) => {
    const { upstream, gateway } = await serving(['Content-Type', 'application/json'], text)
    const first = await rawExchange(gateway.url, request)
    const second = await rawExchange(gateway.url, request)
    expect(first.body.toString()).toBe(text)
    expect(second.body.toString()).toBe(text)
    expect(upstream.requests).toHaveLength(1)
  })

  it('come whole from an upstream that sends them in chunks, with the length that they have', async () => {
    const body = quoteBody({ id: 'caf\u00e9' })
    const upstream = await recordingUpstream((_request, response) => {
      const bytes = Buffer.from(body)
      response.writeHead(200, { 'Content-Type': 'application/json' })
      response.write(bytes.subarray(0, 10))
      setTimeout(() => response.end(bytes.subarray(10)), 20)
    })
    const gateway = await gatewayTo(upstream.url)
    for (let time = 0; time < 2; time += 1) {
      const answer = await rawExchange(gateway.url, request)
      expect([answer.framing, answer.body.toString()]).toEqual(['length', body])
    }
    expect(upstream.requests).toHaveLength(1)
  })
})

describe('the headers of a quote', () => {
  const lasting = [
    ...['content-TYPE', 'application/vnd.odd+json; x="\xe9"', 'X-Dup', '1', 'ETag', '"v"', 'x-dup', '2'],
    ...['X-Empty', '', 'X-Latin', 'caf\xe9', 'Strict-Transport-Security', 'max-age=1'],
  ]
  const passing = [
    ...['Date', 'Thu, 20 Nov 2025 15:17:21 GMT', 'Age', '7', 'Cache-Control', 'no-store', 'Expires', '0'],
    ...['Pragma', 'no-cache', 'RateLimit', '"d";r=1', 'RateLimit-Policy', '"d";q=1', 'Retry-After', '1'],
    ...[
      'X-RateLimit-Remaining',
      '1',
      'X-Rate-Limit-Reset',
      '1',
      'X-Request-Id',
      'theirs',
      'traceparent',
      '00',
    ],
    ...['tracestate', 'a=1', 'CF-Ray', 'r', 'X-Amzn-Trace-Id', 'r', 'Server-Timing', 'db', 'Via', '1.1 cdn'],
    ...['Cache-Status', 'cdn; hit'],
    ...['X-B3-TraceId', 'b', 'X-Correlation-Id', 'c', 'X-Cache', 'HIT', 'X-Cloud-Trace-Context', 't'],
  ]
  const cookies = ['Set-Cookie', '__cf=1', 'set-cookie', 'b=2']
  // Of Vary: quotes-vary.test.ts.
  const own = /^(?:cache-control|cache-status|content-length|date|vary|x-request-id)$/i

  function withoutOwn(rawHeaders: string[]): string[] {
    return withoutHopByHop(rawHeaders).filter((_, index, all) => !own.test(all[index - (index % 2)] ?? ''))
  }

  it('are replayed on a hit in order, case and number, less those of the one exchange and cookies', async () => {
    const headers = [...lasting.slice(0, 4), ...passing, ...cookies, ...lasting.slice(4)]
    const { gateway } = await serving(headers, quoteBody())
    await rawExchange(gateway.url, request)
    const hit = await rawExchange(gateway.url, request)
    expect(valuesOf(hit.rawHeaders, 'cache-status')).toEqual([
      expect.stringMatching(/^quotegate; hit; ttl=\d+$/),
    ])
    expect(withoutOwn(hit.rawHeaders)).toEqual(lasting)
    // Our own exchange; its Date: test/promises/answers-and-their-date.test.ts.
    expect(valuesOf(hit.rawHeaders, 'x-request-id')).toEqual([expect.stringMatching(/^[0-9a-f-]{36}$/)])
  })

  it("are complete on the first answer, except cookies and the provider's caching headers", async () => {
    const { gateway } = await serving([...lasting, ...passing, ...cookies], quoteBody())
    const first = await rawExchange(gateway.url, request)
    const kept = passing.filter((_, index) => {
      const name = passing[index - (index % 2)] ?? ''
      return !/^(?:age|cache-control|expires|pragma)$/i.test(name) && !own.test(name)
    })
    expect(withoutOwn(first.rawHeaders)).toEqual([...lasting, ...kept])
    expect(valuesOf(first.rawHeaders, 'cache-status')).toHaveLength(2)
  })

  it('leave out what the upstream itself names in Connection, on the first answer and on a hit', async () => {
    const { gateway } = await serving(
      ['Connection', 'close, X-Hop', 'X-Hop', '1', 'X-Stays', '2'],
      quoteBody(),
    )
    for (let time = 0; time < 2; time += 1) {
      const { rawHeaders } = await rawExchange(gateway.url, request)
      expect(valuesOf(rawHeaders, 'x-hop')).toEqual([])
      expect(valuesOf(rawHeaders, 'x-stays')).toEqual(['2'])
    }
  })

  // A cookie on a shared answer would make one client another.
  it('hold no cookie, neither on quotes nor on errors that several share', async () => {
    const upstream = await recordingUpstream((_request, response) => {
      response.writeHead(503, ['Set-Cookie', 'session=1', 'X-Stays', '1']).end('later')
    })
    const gateway = await gatewayTo(upstream.url)
    const answer = await rawExchange(gateway.url, request)
    expect([answer.status, answer.body.toString()]).toEqual([503, 'later'])
    expect(valuesOf(answer.rawHeaders, 'set-cookie')).toEqual([])
  })

  // RFC 9110 8.6: a client that believes the length waits for bytes that never come.
  it.each([0, 5])('do not include a length of %d with a 204', async (length) => {
    const upstream = await rawUpstream((socket) => {
      socket.end(`HTTP/1.1 204 No Content\r\nContent-Length: ${length}\r\nX-Stays: 1\r\n\r\n`)
    })
    const gateway = await gatewayTo(upstream.url)
    const { status, rawHeaders } = await rawExchange(gateway.url, request)
    expect([status, valuesOf(rawHeaders, 'x-stays')]).toEqual([204, ['1']])
    expect(valuesOf(rawHeaders, 'content-length')).toEqual([])
  })
})

describe('Cache-Control and Cache-Status', () => {
  it('say the whole seconds left, rounded down, without Age, for every source of a quote', async () => {
    const expiry = Date.now() + 20_900
    const { gateway } = await serving(['Age', '3'], quoteBody({ expiry }))
    for (const form of [/^quotegate; fwd=uri-miss; stored; ttl=(\d+)$/, /^quotegate; hit; ttl=(\d+)$/]) {
      const before = Math.floor((expiry - Date.now()) / 1_000)
      const { headers } = await ask(gateway.url)
      const after = Math.floor((expiry - Date.now()) / 1_000)
      const ttl = Number(form.exec(headers['cache-status'] as string)?.[1])
      expect(ttl).toBeLessThanOrEqual(before)
      expect(ttl).toBeGreaterThanOrEqual(after)
      expect(headers['cache-control']).toBe(`private, max-age=${ttl}`)
      expect(headers).not.toHaveProperty('age')
    }
  })

  it('count each request once, by its outcome', async () => {
    const { gateway } = await serving([], quoteBody({ expiry: Date.now() + 30_000 }))
    await ask(gateway.url)
    await ask(gateway.url)
    await ask(gateway.url, { method: 'HEAD' })
    await asking(gateway.url, '2')
    const of = (result: string) => counted(gateway, lookups(result))
    expect([await of('hit'), await of('miss'), await of('expired'), await of('collapsed')]).toEqual([
      2, 2, 0, 0,
    ])
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
  expect(JSON.parse(answer.body.toString())).toMatchObject({ type: 'urn:quotegate:problem:upstream-invalid' })
  expect(await counted(gateway, notKept('not-json'))).toBe(0)
})

// RFC 9110 8.6: the length of a 304 would be that of the quote which it does not hold.
it('a 304 is relayed unchanged: with the length that it states, or without one', async () => {
  const lengths = ['Content-Length: 77\r\n', '']
  const upstream = await rawUpstream((socket) =>
    socket.write(`HTTP/1.1 304 Not Modified\r\nETag: "x"\r\n${lengths.shift()}\r\n`),
  )
  const gateway = await gatewayTo(upstream.url)
  for (const stated of [['77'], []]) {
    const answer = await rawExchange(gateway.url, request)
    expect([answer.status, valuesOf(answer.rawHeaders, 'etag')]).toEqual([304, ['"x"']])
    expect(valuesOf(answer.rawHeaders, 'content-length')).toEqual(stated)
  }
})
