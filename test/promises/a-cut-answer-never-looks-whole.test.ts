import { describe, expect, test } from 'vitest'
import { RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import { gatewayTo, pause, rawUpstream } from '../support/gateways/between.ts'

const chunked = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
const get = (version: string) => `GET /checkouts HTTP/${version}\r\nHost: g\r\n\r\n`

describe('an upstream that breaks off within its body', () => {
  test.each(
    [
      ['a stated length', 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort'],
      [
        'a length and close',
        'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 10\r\n\r\nshort',
      ],
      ['a length of HTTP/1.0', 'HTTP/1.0 200 OK\r\nContent-Length: 10\r\n\r\nshort'],
      ['chunks', `${chunked}5\r\nshort\r\n`],
      ['half a chunk', `${chunked}9\r\nshort`],
      // RFC 9110 6.5.1: no trailer may say how long the body was.
      [
        'trailers that name a length',
        `${chunked}5\r\nshort\r\n0\r\nContent-Length: 5\r\n\r\n`,
      ],
      ['chunks but for the last line', `${chunked}5\r\nshort\r\n0\r\n`],
    ].flatMap(([what = '', bytes = '']) => [
      [what, 'closes', bytes] as const,
      [what, 'resets', bytes] as const,
    ]),
  )(
    "with %s, and %s: the client's connection breaks, and its answer is not whole",
    async (_what, how, bytes) => {
      const upstream = await rawUpstream((socket) => {
        const reset = () => setTimeout(() => socket.resetAndDestroy(), 50)
        socket.write(bytes, () => (how === 'closes' ? socket.end() : reset()))
      })
      const gateway = await gatewayTo(upstream.url)
      const client = new RawConnection(gateway.url)
      client.write(get('1.1'))
      await client.closed()
      expect((await client.answer()).whole).toBe(false)
      expect(client.received.toString()).not.toContain('\r\n0\r\n\r\n')
    },
  )

  test("with chunks: an HTTP/1.0 client's connection is reset, because a normal end would mean a complete answer", async () => {
    const upstream = await rawUpstream((socket) => {
      socket.write(`${chunked}5\r\nshort\r\n`, () => socket.end())
    })
    const gateway = await gatewayTo(upstream.url)
    const client = new RawConnection(gateway.url)
    client.write(get('1.0'))
    await client.closed()
    await pause(50)
    expect(client.error).toMatchObject({ code: 'ECONNRESET' })
  })

  test('is not asked again on that connection', async () => {
    const answers = ['9\r\n\r\nshort', '2\r\n\r\nok']
    const upstream = await rawUpstream((socket) => {
      socket.end(`HTTP/1.1 200 OK\r\nContent-Length: ${answers.shift()}`)
    })
    const gateway = await gatewayTo(upstream.url)
    const first = new RawConnection(gateway.url)
    first.write(get('1.1'))
    await first.closed()
    expect((await rawExchange(gateway.url, get('1.1'))).body.toString()).toBe('ok')
  })
})
