import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import {
  type ParsedAnswer,
  RawConnection,
  rawExchange,
  valuesOf,
  withoutHopByHop,
} from '../support/clients/raw-connection.ts'
import {
  gatewayTo,
  rawUpstream,
  recordedGateway,
  until,
} from '../support/gateways/between.ts'

const get = 'GET /checkouts HTTP/1.1\r\nHost: g\r\n\r\n'

/** What the client gets when the upstream says exactly these bytes. */
async function relayed(answer: string | Buffer, request = get): Promise<ParsedAnswer> {
  const upstream = await rawUpstream((socket) => {
    socket.end(typeof answer === 'string' ? Buffer.from(answer, 'latin1') : answer)
  })
  const gateway = await gatewayTo(upstream.url)
  return rawExchange(gateway.url, request)
}

describe('the headers of an answer', () => {
  test('keep their order, case, duplicates and latin1 bytes; nothing is added', async () => {
    const lines = [
      'x-first: 1',
      'SET-COOKIE: a=b; Path=/',
      'Content-Type: application/json',
      'Set-Cookie: c=d',
      'X-Latin: caf\xe9 \xff',
      'Vary: A',
      'vary: B',
      'X-Empty: ',
      'ETag: W/"1"',
      'Content-Length: 2',
      'Cache-Control: no-store',
      'Via: 1.1 other',
      'Server: upstream',
      'Date: Thu, 01 Jan 1970 00:00:00 GMT',
      'X-Request-Id: theirs',
    ]
    const answer = await relayed(`HTTP/1.1 200 OK\r\n${lines.join('\r\n')}\r\n\r\n{}`)
    expect(withoutHopByHop(answer.rawHeaders)).toEqual(
      lines.flatMap((line) => [
        line.slice(0, line.indexOf(':')),
        line.slice(line.indexOf(':') + 2),
      ]),
    )
    expect(answer.body.toString()).toBe('{}')
  })

  test('keep latin1 bytes when the body comes long after the head', async () => {
    const upstream = await rawUpstream((socket) => {
      socket.write(
        Buffer.from(
          'HTTP/1.1 200 OK\r\nX-Latin: \xe9\r\nContent-Length: 2\r\n\r\n',
          'latin1',
        ),
      )
    })
    const gateway = await gatewayTo(upstream.url)
    const client = new RawConnection(gateway.url, get)
    // Without a body yet the head has to be on its way: an event stream may say nothing for a long time.
    await until(() => client.received.includes('\r\n\r\n'), 'the head')
    expect(client.received.toString('latin1')).toContain('X-Latin: \xe9\r\n')
    client.socket.destroy()
  })

  // Node reads such a name as UTF-8 once it has seen a length. In one write, streamed, to HEAD, and to HTTP/1.0.
  test.each([
    ['in UTF-8', 'attachment; filename="\xe2\x82\xac.pdf"'],
    ['in latin1', 'attachment; filename="M\xfcller.pdf"'],
  ])('keep the bytes of a file name %s', async (_what, name) => {
    for (const length of [4, 40_000]) {
      for (const request of [
        get,
        get.replace('GET', 'HEAD'),
        'GET /v3/assets HTTP/1.0\r\nHost: g\r\n\r\n',
      ]) {
        const lines = `Content-Length: ${length}\r\nContent-Disposition: ${name}\r\nX-A: 1\r\n`
        const body = request.startsWith('HEAD') ? '' : 'x'.repeat(length)
        const answer = await relayed(`HTTP/1.1 200 OK\r\n${lines}\r\n${body}`, request)
        const got = ['content-disposition', 'content-length', 'x-a'].map((one) =>
          valuesOf(answer.rawHeaders, one),
        )
        expect([answer.status, ...got]).toEqual([200, [name], [String(length)], ['1']])
      }
    }
  })
})

test.each([
  ['200 All Good', 200, 'All Good'],
  ['200 ', 200, ''],
  ['299 Odd \t Reason: (x)', 299, 'Odd \t Reason: (x)'],
  ['418 \xc3\xa9t\xc3\xa9 \xe2\x82\xac', 418, '\xc3\xa9t\xc3\xa9 \xe2\x82\xac'],
  ['500 Oops', 500, 'Oops'],
  ['999 Further', 999, 'Further'],
  // Neither ASCII nor UTF-8: undici has mangled it.
  ['404 Non trouv\xe9', 404, ''],
])('the status line %j is relayed with %i and %j', async (statusLine, status, reason) => {
  const answer = await relayed(`HTTP/1.1 ${statusLine}\r\nContent-Length: 2\r\n\r\nhi`)
  expect([answer.status, answer.reason, answer.body.toString()]).toEqual([
    status,
    reason,
    'hi',
  ])
})

describe('the body of an answer', () => {
  test('that is gzip stays gzip', async () => {
    const body = gzipSync('{"a":1}')
    const head = `HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: ${body.length}\r\n\r\n`
    const answer = await relayed(Buffer.concat([Buffer.from(head), body]))
    expect(answer.body).toEqual(body)
    expect(valuesOf(answer.rawHeaders, 'content-encoding')).toEqual(['gzip'])
  })

  const chunks = '5;a=b\r\nhello\r\n1\r\n!\r\n0\r\nX-T: 1\r\n\r\n'
  test.each([
    [
      'that is chunked',
      `1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n${chunks}`,
    ],
    // RFC 9110 5.5
    [
      'whose coding has blanks behind it',
      `1 200 OK\r\nTransfer-Encoding: chunked  \r\n\r\n${chunks}`,
    ],
    ['that ends with the connection', '1 200 OK\r\n\r\nhello!'],
    ['of an HTTP/1.0 upstream', '0 200 OK\r\n\r\nhello!'],
  ])('%s arrives whole, in chunks', async (_what, rest) => {
    const answer = await relayed(`HTTP/1.${rest}`)
    expect(answer).toMatchObject({
      status: 200,
      reason: 'OK',
      whole: true,
      framing: 'chunked',
    })
    expect([answer.body.toString(), withoutHopByHop(answer.rawHeaders)]).toEqual([
      'hello!',
      [],
    ])
  })

  test('that is empty has its length stated as 0', async () => {
    const answer = await relayed('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
    expect(withoutHopByHop(answer.rawHeaders)).toEqual(['Content-Length', '0'])
  })

  test('reaches an HTTP/1.0 client without chunks, and the connection ends it', async () => {
    const answer = await relayed(
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n',
      'GET /checkouts HTTP/1.0\r\n\r\n',
    )
    expect([answer.framing, answer.body.toString()]).toEqual(['close', 'abc'])
  })
})

describe('an answer without a body', () => {
  test('to HEAD keeps the length that GET would have, and the connection serves the next request', async () => {
    const { upstream, gateway } = await recordedGateway({}, (_request, response) => {
      response.sendDate = false
      response.writeHead(200, ['Content-Length', '1234', 'ETag', '"x"']).end()
    })
    const client = new RawConnection(gateway.url, get.replace('GET', 'HEAD').repeat(2))
    for (const _ of [1, 2]) {
      const answer = await client.answer({ toHead: true })
      expect(withoutHopByHop(answer.rawHeaders)).toEqual([
        'Content-Length',
        '1234',
        'ETag',
        '"x"',
      ])
    }
    expect(client.received).toHaveLength(0)
    expect(upstream.requests.map(({ method }) => method)).toEqual(['HEAD', 'HEAD'])
  })

  test.each([
    [
      'to HEAD of a chunked resource loses its coding',
      '200 OK\r\nTransfer-Encoding: chunked',
      [],
    ],
    ['that is a 204 loses its length', '204 Gone Quiet\r\nContent-Length: 0', []],
    [
      'that is a 304 keeps the length of what was not sent',
      '304 Not Modified\r\nContent-Length: 77',
      ['Content-Length', '77'],
    ],
  ])('%s', async (what, head, kept) => {
    const answer = await relayed(
      `HTTP/1.1 ${head}\r\nX-A: 1\r\n\r\n`,
      what.includes('HEAD') ? get.replace('GET', 'HEAD') : get,
    )
    expect(`${answer.status} ${answer.reason}`).toBe(head.split('\r\n')[0])
    expect(withoutHopByHop(answer.rawHeaders)).toEqual([...kept, 'X-A', '1'])
    expect(valuesOf(answer.rawHeaders, 'transfer-encoding')).toEqual([])
  })
})
