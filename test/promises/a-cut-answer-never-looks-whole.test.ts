import { describe, expect, test } from 'vitest'
import { RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import { gatewayTo, rawUpstream } from '../support/gateways/between.ts'

const get = 'GET /checkouts HTTP/1.1\r\nHost: g\r\n\r\n'

describe('an upstream that breaks off within its body', () => {
  const cut: [string, string][] = [
    ['a stated length', 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort'],
    ['chunks', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n'],
    ['a chunk', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nshort'],
    [
      'chunks but for the last line',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n0\r\n',
    ],
    [
      'a stated length and Connection: close',
      'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 10\r\n\r\nshort',
    ],
    ['HTTP/1.0 and a stated length', 'HTTP/1.0 200 OK\r\nContent-Length: 10\r\n\r\nshort'],
  ]

  test.each(
    cut.flatMap(([what, bytes]) => [
      [what, 'closes', bytes],
      [what, 'resets', bytes],
    ]),
  )(
    "with %s, and %s: the client's connection breaks, and its answer does not look complete",
    async (_what, how, bytes) => {
      const upstream = await rawUpstream((socket) => {
        socket.write(bytes as string, () =>
          how === 'closes' ? socket.end() : setTimeout(() => socket.resetAndDestroy(), 50),
        )
      })
      const gateway = await gatewayTo(upstream.url)
      const client = new RawConnection(gateway.url)
      client.write(get)
      await client.closed()
      const answer = await client.answer()
      expect(answer.whole).toBe(false)
      expect(client.received.toString()).not.toContain('\r\n0\r\n\r\n')
    },
  )

  test("with chunks: an HTTP/1.0 client's connection is reset, because a normal end would mean a complete answer", async () => {
    const upstream = await rawUpstream((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n', () => socket.end())
    })
    const gateway = await gatewayTo(upstream.url)
    const client = new RawConnection(gateway.url)
    client.write('GET /checkouts HTTP/1.0\r\n\r\n')
    await client.closed()
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(client.error).toMatchObject({ code: 'ECONNRESET' })
  })

  test('is not counted as complete or kept: the next request gets a new connection', async () => {
    let answers = 0
    const upstream = await rawUpstream((socket) => {
      answers += 1
      socket.end(
        answers === 1
          ? 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort'
          : 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',
      )
    })
    const gateway = await gatewayTo(upstream.url)
    const first = new RawConnection(gateway.url)
    first.write(get)
    await first.closed()
    expect((await rawExchange(gateway.url, get)).body.toString()).toBe('ok')
  })
})
