import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { RawConnection, rawExchange, withoutHopByHop } from '../support/clients/raw-connection.ts'
import { gatewayTo, recordingUpstream } from '../support/gateways/between.ts'
import type { Recorded } from '../support/upstreams/recording-upstream.ts'

/** What the upstream was given for these bytes. */
async function forwarded(request: string | Buffer, settings = {}): Promise<Recorded> {
  const upstream = await recordingUpstream()
  const gateway = await gatewayTo(upstream.url, settings)
  const answer = await rawExchange(gateway.url, request)
  expect(answer.status).toBe(200)
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
    expect((await forwarded(`GET ${target} HTTP/1.1\r\nHost: g\r\n\r\n`)).target).toBe(target)
  })

  test('a query with bytes that are not ASCII is refused, because Node cannot read it', async () => {
    const upstream = await recordingUpstream()
    const gateway = await gatewayTo(upstream.url)
    const answer = await rawExchange(gateway.url, 'GET /checkouts?name=\xe9 HTTP/1.1\r\nHost: g\r\n\r\n')
    expect(answer.status).toBe(400)
    expect(upstream.requests).toEqual([])
  })

  test.each(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND', 'M-SEARCH', 'PURGE', 'REPORT'])(
    'the method %s reaches the upstream',
    async (method) => {
      expect((await forwarded(`${method} /checkouts HTTP/1.1\r\nHost: g\r\n\r\n`)).method).toBe(method)
    },
  )

  test('a path prefix of the base URL goes before the target and changes nothing in it', async () => {
    const upstream = await recordingUpstream()
    const gateway = await gatewayTo(upstream.url, { PAYMENTS_BASE_URL: `${upstream.url}/api/v1/` })
    await rawExchange(gateway.url, 'GET /checkouts//a%2F?x=/ HTTP/1.1\r\nHost: g\r\n\r\n')
    expect(upstream.requests[0]?.target).toBe('/api/v1/checkouts//a%2F?x=/')
  })

  test('a target that looks like another host stays a path of the upstream', async () => {
    const upstream = await recordingUpstream()
    const gateway = await gatewayTo(upstream.url, { PAYMENTS_PATHS: '/' })
    await rawExchange(gateway.url, 'GET //evil.example/x HTTP/1.1\r\nHost: evil.example\r\n\r\n')
    expect(upstream.requests[0]?.target).toBe('//evil.example/x')
    expect(upstream.requests[0]?.headers.host).toBe(`127.0.0.1:${upstream.port}`)
  })

  test('the absolute form is sent as its path, and its host is ignored', async () => {
    const got = await forwarded(
      'GET http://evil.example/checkouts?a=b HTTP/1.1\r\nHost: evil.example\r\n\r\n',
    )
    expect(got.target).toBe('/checkouts?a=b')
    expect(got.headers.host).toMatch(/^127\.0\.0\.1:/)
  })
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
      'traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      'Range: bytes=0-1',
      'If-None-Match: "x"',
      'Max-Forwards: 3',
    ]
    const { rawHeaders } = await forwarded(
      `POST /checkouts HTTP/1.1\r\nHost: g\r\n${lines.join('\r\n')}\r\nContent-Length: 2\r\n\r\n{}`,
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

  test('are only Host and Connection if the client sent none', async () => {
    const { rawHeaders } = await forwarded('GET /checkouts HTTP/1.1\r\nHost: g\r\n\r\n')
    expect(withoutHopByHop(rawHeaders)).toEqual([])
    expect(rawHeaders).toHaveLength(4)
  })

  test('reach the webhook receiver unchanged as well', async () => {
    const upstream = await recordingUpstream()
    const gateway = await gatewayTo('http://127.0.0.1:9', { WEBHOOKS_BASE_URL: `${upstream.url}/in` })
    await rawExchange(
      gateway.url,
      'POST /webhooks/a?b HTTP/1.1\r\nHost: g\r\nX-Sig: 1\r\nForwarded: for=x\r\nContent-Length: 3\r\n\r\n{ }',
    )
    const [got] = upstream.requests
    expect(got?.target).toBe('/in/webhooks/a?b')
    expect(withoutHopByHop(got?.rawHeaders ?? [])).toEqual([
      'X-Sig',
      '1',
      'Forwarded',
      'for=x',
      'content-length',
      '3',
    ])
    expect(got?.body.toString()).toBe('{ }')
  })
})

describe('the body of a payments request', () => {
  test.each(['POST', 'PUT', 'PATCH', 'DELETE', 'GET', 'OPTIONS'])(
    'of a %s arrives byte for byte with its length',
    async (method) => {
      const body = Buffer.from([0, 255, 13, 10, 13, 10, 0x80, 0x7b])
      const head = `${method} /checkouts HTTP/1.1\r\nHost: g\r\nContent-Length: ${body.length}\r\n\r\n`
      const got = await forwarded(Buffer.concat([Buffer.from(head), body]))
      expect(got.body).toEqual(body)
      expect(got.headers['content-length']).toBe('8')
      expect(got.headers['transfer-encoding']).toBeUndefined()
    },
  )

  test('that is gzip stays gzip', async () => {
    const body = gzipSync('{"amount":"10.00"}')
    const head = `POST /checkouts HTTP/1.1\r\nHost: g\r\nContent-Encoding: gzip\r\nContent-Length: ${body.length}\r\n\r\n`
    const got = await forwarded(Buffer.concat([Buffer.from(head), body]))
    expect(got.body).toEqual(body)
    expect(got.headers['content-encoding']).toBe('gzip')
  })

  test.each(['POST', 'DELETE', 'GET'])('of a chunked %s arrives whole', async (method) => {
    const upstream = await recordingUpstream()
    const gateway = await gatewayTo(upstream.url)
    const client = new RawConnection(gateway.url)
    client.write(`${method} /checkouts HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n`)
    for (const chunk of [
      '5\r\nhello\r\n',
      '1;ext=1\r\n \r\n',
      '005\r\nworld\r\n',
      '0\r\nX-Trailer: t\r\n\r\n',
    ]) {
      client.write(chunk)
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    expect((await client.answer()).status).toBe(200)
    const [got] = upstream.requests
    expect(got?.body.toString()).toBe('hello world')
    expect(got?.headers['transfer-encoding']).toBe('chunked')
  })

  test.each([
    ['POST', 'Content-Length: 0\r\n'],
    ['PUT', 'Content-Length: 0\r\n'],
    ['POST', 'Transfer-Encoding: chunked\r\n'],
  ])('of a %s that is empty (%j) has its length stated as 0', async (method, framing) => {
    const end = framing.startsWith('T') ? '0\r\n\r\n' : ''
    const got = await forwarded(`${method} /checkouts HTTP/1.1\r\nHost: g\r\n${framing}\r\n${end}`)
    expect(withoutHopByHop(got.rawHeaders)).toEqual(['content-length', '0'])
    expect(got.body).toHaveLength(0)
  })

  test('of a DELETE without a body stays absent', async () => {
    const got = await forwarded('DELETE /checkouts/1 HTTP/1.1\r\nHost: g\r\n\r\n')
    expect(withoutHopByHop(got.rawHeaders)).toEqual([])
  })

  test('is kept apart from the next request on the same connection', async () => {
    const upstream = await recordingUpstream((request, response) => response.end(request.body))
    const gateway = await gatewayTo(upstream.url)
    const client = new RawConnection(gateway.url)
    client.write(
      'POST /checkouts HTTP/1.1\r\nHost: g\r\nContent-Length: 3\r\n\r\noneDELETE /checkouts HTTP/1.1\r\nHost: g\r\nContent-Length: 3\r\n\r\ntwo',
    )
    expect((await client.answer()).body.toString()).toBe('one')
    expect((await client.answer()).body.toString()).toBe('two')
  })
})
