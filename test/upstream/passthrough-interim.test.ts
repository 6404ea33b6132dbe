import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { untilCounted } from '../support/clients/quotes.ts'
import { RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import { gatewayTo, rawUpstream, until } from '../support/gateways/between.ts'

const final = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const kept = 'Link: </a.css>; rel=preload\r\nX-Kept: \xe9 \xfc\r\nlink: </b.js>\r\n'
const hints = `HTTP/1.1 103 Early Hints\r\n${kept}Connection: X-Gone\r\nX-Gone: 1\r\nContent-Length: 5\r\nKeep-Alive: timeout=1\r\n\r\n`
const others = 'HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 199 Any Thing\r\nA: b\r\n\r\n'

async function exchange(
  request: string,
  answer: (socket: Socket) => void,
): Promise<string> {
  const upstream = await rawUpstream(answer)
  const gateway = await gatewayTo(upstream.url)
  const client = new RawConnection(gateway.url)
  client.write(request)
  await until(
    () => /\r\n\r\nok$/.test(client.received.toString('latin1')) || client.ended,
    'the answer',
  )
  return client.received.toString('latin1')
}

const say = (bytes: string) => (socket: Socket) => void socket.write(bytes, 'latin1')
const request = (line: string, ...lines: string[]) =>
  `${[line, 'Host: g', 'App-Name: a', ...lines].join('\r\n')}\r\n\r\n`
const statuses = (received: string) =>
  Array.from(received.matchAll(/^HTTP\/1\.1 (\d+)/gm), ([, status]) => Number(status))

// RFC 9110 15.2: a proxy MUST forward 1xx answers. Some clients preload what a 103 names.
describe('an interim answer', () => {
  test.each(['GET /checkouts', 'GET /v3/orders?toAddress=x'])(
    'to %s reaches its client in its place, with its reason, less the headers of the hop',
    async (line) => {
      const received = await exchange(
        request(`${line} HTTP/1.1`),
        say(others + hints + final),
      )
      const expected = `${others}HTTP/1.1 103 Early Hints\r\n${kept}\r\nHTTP/1.1 200 OK\r\n`
      expect(received.slice(0, expected.length)).toBe(expected)
    },
  )

  test('reaches its client before the answer', async () => {
    let socket: Socket | undefined
    const upstream = await rawUpstream((accepted) => {
      socket = accepted
      accepted.write(hints, 'latin1')
    })
    const gateway = await gatewayTo(upstream.url)
    const client = new RawConnection(gateway.url)
    client.write(request('GET /checkouts HTTP/1.1'))
    await until(() => client.received.includes('</b.js>\r\n\r\n'), 'the hints')
    socket?.write(final)
    expect(await client.answer()).toMatchObject({ status: 200, informational: [103] })
  })

  test('to a POST with 100-continue comes after the 100', async () => {
    const upstream = await rawUpstream(say(hints + final))
    const gateway = await gatewayTo(upstream.url)
    const client = new RawConnection(gateway.url)
    client.write(
      request('POST /checkouts HTTP/1.1', 'Expect: 100-continue', 'Content-Length: 2'),
    )
    await until(() => client.received.includes('100 Continue\r\n\r\n'), 'the 100')
    client.write('{}')
    expect((await client.answer()).informational).toEqual([100, 103])
  })

  const body = JSON.stringify({ pairId: 'A_B', fromAmount: 1 })
  const order = (line: string) => request(line, `Content-Length: ${body.length}`) + body
  test.each([
    ['a client of HTTP/1.0', request('GET /checkouts HTTP/1.0')],
    ['that of a quote', request('GET /v3/pairs/A_B/quotes?amount=1 HTTP/1.1')],
    ['that of a float order', order('POST /v3/orders/float HTTP/1.1')],
    ['that of an order', order('POST /v3/orders HTTP/1.1')],
  ])('never reaches %s', async (_whom, bytes) => {
    expect(statuses(await exchange(bytes, say(hints + final)))).toEqual([200])
  })

  test('begins the time for the head again, but not the whole time of a float order', async () => {
    const upstream = await rawUpstream((socket) => {
      let said = 0
      const timer = setInterval(() => {
        said += 1
        socket.write(said === 15 ? final : 'HTTP/1.1 102 Processing\r\n\r\n')
      }, 200)
      socket.once('close', () => clearInterval(timer))
    })
    const times = { UPSTREAM_HEADERS_TIMEOUT_MS: 1_500, UPSTREAM_TOTAL_TIMEOUT_MS: 2_000 }
    const gateway = await gatewayTo(upstream.url, times)
    const status = async (bytes: string) => (await rawExchange(gateway.url, bytes)).status
    const lines = [
      request('GET /checkouts HTTP/1.1'),
      order('POST /v3/orders/float HTTP/1.1'),
    ]
    expect(await Promise.all(lines.map(status))).toEqual([200, 504])
  })

  test('with Connection: close makes the answer a 502', async () => {
    const upstream = await rawUpstream(
      say(hints.replace('X-Gone\r\n', 'close\r\n') + final),
    )
    const gateway = await gatewayTo(upstream.url)
    expect(
      (await rawExchange(gateway.url, request('GET /checkouts HTTP/1.1'))).status,
    ).toBe(502)
  })

  test('is not buffered for a client that reads nothing', async () => {
    const long = `HTTP/1.1 103 Early Hints\r\nX-Long: ${'x'.repeat(8_000)}\r\n\r\n`
    const upstream = await rawUpstream((socket) => {
      for (let count = 0; count < 5_000; count += 1) socket.write(long)
      socket.write(final)
    })
    const gateway = await gatewayTo(upstream.url)
    const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1')
    onTestFinished(() => void socket.destroy())
    let received = 0
    socket.on('data', (bytes) => {
      received += bytes.length
      if (bytes.includes('\r\n\r\nok')) socket.end()
    })
    socket.pause()
    socket.write(request('GET /checkouts HTTP/1.1'))
    const answered =
      'quotegate_upstream_requests_total{upstream="payments",outcome="answered"}'
    await untilCounted(gateway, answered, 1)
    socket.resume()
    await once(socket, 'close')
    // What the kernel took, out of 40 MB.
    expect(received).toBeLessThan(30_000_000)
  })
})
