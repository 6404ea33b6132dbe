import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import {
  parseAnswer,
  RawConnection,
  rawExchange,
  sendRaw,
  withoutHopByHop,
} from '../support/clients/raw-connection.ts'
import {
  gatewayTo,
  rawUpstream,
  recordedGateway,
  recordingUpstream,
} from '../support/gateways/between.ts'
import type { Recorded } from '../support/upstreams/recording-upstream.ts'

const head = (line: string, ...lines: string[]) =>
  `${[`${line} HTTP/1.1`, 'Host: g', ...lines].join('\r\n')}\r\n\r\n`

/** What the upstream was given for these bytes. */
async function forwarded(request: string | Buffer, settings = {}): Promise<Recorded> {
  const { upstream, gateway } = await recordedGateway(settings)
  expect((await rawExchange(gateway.url, request)).status).toBe(200)
  expect(upstream.requests).toHaveLength(1)
  return upstream.requests[0] as Recorded
}

describe('the request line on the payments side', () => {
  test.each([
    '/checkouts',
    '/checkouts/',
    '/checkouts//7',
    '/checkouts/a%2Fb',
    '/checkouts/%E2%82%AC%7e',
    "/checkouts/a;b=1,c(d)!$&'*+@:",
    '/checkouts/CaSe',
    '/checkouts?',
    '/checkouts??a=b?c',
    '/checkouts?a=1&a=2&&=&b',
    '/checkouts?a=%zz&b=%',
    '/checkouts?next=../../x&path=/v3/orders',
    '/checkouts?a[]=1&b{}|"<>`^',
    '/checkouts?q=a+b%20c',
    '/checkouts///?//',
  ])('%s reaches the upstream as it was written', async (target) => {
    expect((await forwarded(head(`GET ${target}`))).target).toBe(target)
  })

  test('a query with bytes that are not ASCII is refused, because Node cannot read it', async () => {
    const { upstream, gateway } = await recordedGateway()
    expect(
      (await rawExchange(gateway.url, head('GET /checkouts?name=\xe9'))).status,
    ).toBe(400)
    expect(upstream.requests).toEqual([])
  })

  test('a path prefix of the base URL goes before the target and changes nothing in it', async () => {
    const upstream = await recordingUpstream()
    const gateway = await gatewayTo(upstream.url, {
      PAYMENTS_BASE_URL: `${upstream.url}/api/v1/`,
    })
    await rawExchange(gateway.url, head('GET /checkouts//a%2F?x=/'))
    expect(upstream.requests[0]?.target).toBe('/api/v1/checkouts//a%2F?x=/')
  })

  test.each([
    [
      'a target that looks like another host stays a path',
      '//evil.example/x',
      '//evil.example/x',
    ],
    [
      'the absolute form is sent as its path',
      'http://evil.example/checkouts?a=b',
      '/checkouts?a=b',
    ],
  ])(
    '%s, and no host but that of the upstream is asked',
    async (_what, written, target) => {
      const got = await forwarded(head(`GET ${written}`), { PAYMENTS_PATHS: '/' })
      expect(got.target).toBe(target)
      expect(got.headers.host).toMatch(/^127\.0\.0\.1:/)
    },
  )
})

describe('the headers of a payments request', () => {
  test('keep their order, case, duplicates and latin1 bytes; nothing is added and nothing is missing', async () => {
    const lines = [
      'x-Signature: aGVsbG8=',
      'AUTHORIZATION: Bearer key',
      'Content-Type: application/json',
      'X-Dup: one',
      'User-Agent: caf\xe9/1.0 \xe2\x82\xac',
      'x-dup:  two , three ',
      'Cookie: a=b',
      'Cookie: c=d',
      'Accept: */*',
      'accept: text/plain',
      'Accept-Encoding: br',
      'X-Empty:',
      'Forwarded: for=192.0.2.1',
      'X-Forwarded-For: 192.0.2.2',
      'Via: 1.1 quotegate',
      'Range: bytes=0-1',
      'If-None-Match: "x"',
      'traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      'Max-Forwards: 3',
    ]
    const { rawHeaders } = await forwarded(
      `${head('POST /checkouts', 'Content-Length: 02', ...lines)}{}`,
    )
    const sent = [...lines, 'content-length: 2'].flatMap((line) => {
      const [name = '', ...rest] = line.split(':')
      return [name, rest.join(':').trim()]
    })
    expect(withoutHopByHop(rawHeaders)).toEqual(sent)
    expect(rawHeaders.slice(0, 4).map((part) => part.toLowerCase())).toEqual([
      'host',
      expect.stringMatching(/^127\.0\.0\.1:\d+$/),
      'connection',
      'keep-alive',
    ])
  })

  test('are only Host and Connection if the caller sent none, and no body', async () => {
    const { rawHeaders } = await forwarded(head('DELETE /checkouts/1'))
    expect([withoutHopByHop(rawHeaders), rawHeaders.length]).toEqual([[], 4])
  })
})

describe('the body of a payments request', () => {
  test.each([
    'GET',
    'POST',
    'PUT',
    'PATCH',
    'DELETE',
    'OPTIONS',
    'PROPFIND',
    'M-SEARCH',
    'PURGE',
    'REPORT',
  ])(
    'of a %s arrives byte for byte with its length, compressed or not',
    async (method) => {
      for (const body of [
        Buffer.from([0, 255, 13, 10, 13, 10, 0x80, 0x7b]),
        gzipSync('{"amount":"10.00"}'),
      ]) {
        const lines = ['Content-Encoding: gzip', `Content-Length: ${body.length}`]
        const got = await forwarded(
          Buffer.concat([Buffer.from(head(`${method} /checkouts`, ...lines)), body]),
        )
        expect([got.method, got.body]).toEqual([method, body])
        expect(got.headers).toMatchObject({
          'content-encoding': 'gzip',
          'content-length': `${body.length}`,
        })
        expect(got.headers['transfer-encoding']).toBeUndefined()
      }
    },
  )

  test.each(['POST', 'DELETE', 'GET'])(
    'of a chunked %s arrives whole',
    async (method) => {
      const { upstream, gateway } = await recordedGateway()
      const client = new RawConnection(gateway.url)
      client.write(head(`${method} /checkouts`, 'Transfer-Encoding: chunked'))
      const last = '0\r\nX-Trailer: t\r\n\r\n'
      for (const chunk of [
        '5\r\nhello\r\n',
        '1;ext=1\r\n \r\n',
        '005\r\nworld\r\n',
        last,
      ]) {
        client.write(chunk)
        await new Promise((resolve) => setTimeout(resolve, 10))
      }
      expect((await client.answer()).status).toBe(200)
      const [got] = upstream.requests
      expect([got?.body.toString(), got?.headers['transfer-encoding']]).toEqual([
        'hello world',
        'chunked',
      ])
    },
  )

  test.each([
    ['Content-Length: 0', ''],
    ['Transfer-Encoding: chunked', '0\r\n\r\n'],
  ])('that is empty (%s) has its length stated as 0', async (framing, end) => {
    const got = await forwarded(head('POST /checkouts', framing) + end)
    expect(withoutHopByHop(got.rawHeaders)).toEqual(['content-length', '0'])
    expect(got.body).toHaveLength(0)
  })

  test('is kept apart from the next request on the same connection', async () => {
    const { gateway } = await recordedGateway({}, (request, response) =>
      response.end(request.body),
    )
    const client = new RawConnection(gateway.url)
    const length = 'Content-Length: 3'
    client.write(
      `${head('POST /checkouts', length)}one${head('DELETE /checkouts', length)}two`,
    )
    expect((await client.answer()).body.toString()).toBe('one')
    expect((await client.answer()).body.toString()).toBe('two')
  })
})

/** The exact bytes that the upstream received, and those that the caller got. */
async function bytesOf(
  request: string,
  answer = 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n',
) {
  const upstream = await rawUpstream((socket) =>
    socket.write(Buffer.from(answer, 'latin1')),
  )
  const gateway = await gatewayTo(upstream.url)
  const closing = request.replace('\r\n', '\r\nConnection: close\r\n')
  const { text } = await sendRaw(gateway.url, closing)
  const received = upstream.received.map((bytes) => bytes.toString('latin1')).join('')
  return { received, text, host: new URL(upstream.url).host }
}

/** What docs/limits.md lists under "Byte for byte". */
describe('of a payment, only what frames its message changes:', () => {
  test.each(['Host: shop.example', 'hOST: shop.example:443'])(
    'Host is the upstream’s, and goes first: %s',
    async (line) => {
      const { received, host } = await bytesOf(
        `GET /checkouts HTTP/1.1\r\nX-A: 1\r\n${line}\r\n\r\n`,
      )
      expect(received).toBe(
        `GET /checkouts HTTP/1.1\r\nhost: ${host}\r\nconnection: keep-alive\r\nX-A: 1\r\n\r\n`,
      )
    },
  )

  test('a redirect that names a host leads past the gateway', async () => {
    const location = 'Location: http://payments.example:8443/checkouts/7'
    const { text } = await bytesOf(
      head('GET /checkouts'),
      `HTTP/1.1 302 Found\r\n${location}\r\nContent-Length: 0\r\n\r\n`,
    )
    expect(text).toContain(`\r\n${location}\r\n`)
  })

  test('a value has one blank before it and none behind, and keeps those within', async () => {
    const lines = ['X-A:   two ,  three \t ', 'X-B:\t\ttab\tin', 'X-C:none', 'X-D:  ']
    const { received } = await bytesOf(head('GET /checkouts', ...lines))
    expect(received).toMatch(
      /keep-alive\r\nX-A: two , {2}three\r\nX-B: tab\tin\r\nX-C: none\r\nX-D: \r\n\r\n$/,
    )
  })

  test('a value of an answer has one blank before it, and keeps those within and behind', async () => {
    const { text } = await bytesOf(
      head('GET /checkouts'),
      'HTTP/1.1 200 Fine  thanks\r\nX-A: \t b ,  c  \r\nX-B:none\r\nContent-Length: 0\r\n\r\n',
    )
    expect(text).toContain(
      'HTTP/1.1 200 Fine  thanks\r\nX-A: b ,  c  \r\nX-B: none\r\nContent-Length: 0\r\n',
    )
  })

  const chunks = '5;ext=1\r\nhello\r\n0006\r\n world\r\n0\r\nX-Trailer: t\r\n\r\n'
  const codedHead = ['Transfer-Encoding: chunked', 'Trailer: X-Trailer', 'X-Last: 1']

  test('the chunks of a request have other bounds, and neither extensions nor trailers', async () => {
    const { received } = await bytesOf(head('POST /checkouts', ...codedHead) + chunks)
    expect(received).toMatch(
      /keep-alive\r\nX-Last: 1\r\ntransfer-encoding: chunked\r\n\r\nb\r\nhello world\r\n0\r\n\r\n$/,
    )
  })

  test('and so have those of an answer', async () => {
    const { text } = await bytesOf(
      head('GET /checkouts'),
      `HTTP/1.1 200 OK\r\n${codedHead.join('\r\n')}\r\n\r\n${chunks}`,
    )
    expect(text).toMatch(/^HTTP\/1.1 200 OK\r\nX-Last: 1\r\n/)
    expect(text).not.toMatch(/trailer|ext=/i)
    const { body, whole } = parseAnswer(Buffer.from(text, 'latin1'), {
      toHead: false,
      ended: true,
    })?.answer ?? { body: '', whole: false }
    expect([body.toString(), whole]).toEqual(['hello world', true])
  })

  test('an answer that ends with its connection becomes a chunked one', async () => {
    const upstream = await rawUpstream((socket) =>
      socket.end('HTTP/1.0 200 OK\r\nX-A: 1\r\n\r\nuntil the end'),
    )
    const gateway = await gatewayTo(upstream.url)
    const { body, framing } = await rawExchange(gateway.url, head('GET /checkouts'))
    expect([body.toString(), framing]).toEqual(['until the end', 'chunked'])
  })

  test.each([
    ['POST', 'Transfer-Encoding: chunked', '0\r\n\r\n', 'content-length: 0\r\n'],
    ['PUT', 'X-A: 1', '', 'X-A: 1\r\ncontent-length: 0\r\n'],
    ['GET', 'Transfer-Encoding: chunked', '0\r\n\r\n', ''],
    ['DELETE', 'Transfer-Encoding: chunked', '0\r\n\r\n', ''],
    ['DELETE', 'Content-Length: 0', '', ''],
  ])(
    'an empty body of a %s (%s) becomes none, or one of the stated length 0',
    async (method, line, end, became) => {
      const { received } = await bytesOf(head(`${method} /checkouts`, line) + end)
      expect(received).toMatch(/\r\nconnection: keep-alive\r\n/)
      expect(received.split('keep-alive\r\n')[1]).toBe(`${became}\r\n`)
    },
  )

  test.each([
    ['OPTIONS', '5', '4'],
    ['OPTIONS', '005', '005'],
    ['OPTIONS', 'x', 'x'],
    ['GET', '5', '5'],
    ['GET', '0', '0'],
  ])('%s with Max-Forwards %s arrives with %s', async (method, sent, became) => {
    const { received } = await bytesOf(
      head(`${method} /checkouts`, `Max-Forwards: ${sent}`),
    )
    expect(received).toContain(`\r\nMax-Forwards: ${became}\r\n`)
  })

  test.each([
    ['Content-Length: 2\t', 'ab', 400],
    ['Transfer-Encoding: chunked\t', '2\r\nab\r\n0\r\n\r\n', 400],
    ['X-A: one\r\n two', '', 400],
    ['X-A : one', '', 400],
    ['X-A: one\nX-B: two', '', 400],
    ['Content-Length:\t2 ', 'ab', 200],
    ['Transfer-Encoding:\tchunked ', '2\r\nab\r\n0\r\n\r\n', 200],
  ])('%j is answered %3$s', async (line, body, status) => {
    const { received, text } = await bytesOf(head('POST /checkouts', line) + body)
    expect(text).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
    expect(received === '').toBe(status === 400)
  })
})
