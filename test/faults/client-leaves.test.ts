import type { Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import { counted } from '../support/clients/quotes.ts'
import { RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import { gatewayTo, pause, rawUpstream, recordingUpstream, until } from '../support/gateways/between.ts'

const get = 'GET /checkouts HTTP/1.1\r\nHost: g\r\n\r\n'

describe('a client that leaves', () => {
  test.each(['destroy', 'resetAndDestroy'] as const)(
    'while the upstream thinks (%s): the connection to the upstream is closed soon',
    async (leave) => {
      const upstream = await recordingUpstream(() => {})
      const gateway = await gatewayTo(upstream.url)
      const client = new RawConnection(gateway.url)
      client.write(get)
      await until(() => upstream.requests.length === 1, 'the request to arrive')
      const [connection] = upstream.connections
      client.socket[leave]()
      await until(() => connection?.destroyed === true, 'the upstream connection to close')
    },
  )

  test('while its answer streams: the connection to the upstream is closed soon', async () => {
    let sending: NodeJS.Timeout | undefined
    const upstream = await recordingUpstream((_request, response) => {
      sending = setInterval(() => response.write(Buffer.alloc(1000)), 5)
    })
    const gateway = await gatewayTo(upstream.url)
    const client = new RawConnection(gateway.url)
    client.write(get)
    await until(() => client.received.length > 2000, 'some of the body')
    const [connection] = upstream.connections
    client.socket.destroy()
    await until(() => connection?.destroyed === true, 'the upstream connection to close')
    clearInterval(sending)
  })

  test('that stops reading its answer and leaves: the connection to the upstream is closed soon', async () => {
    const upstream = await recordingUpstream((_request, response) => {
      response.end(Buffer.alloc(64 * 1024 * 1024))
    })
    const gateway = await gatewayTo(upstream.url)
    const client = new RawConnection(gateway.url)
    client.write(get)
    await until(() => client.received.length > 0, 'some of the body')
    client.socket.pause()
    await pause(200)
    const [connection] = upstream.connections
    expect(connection?.destroyed).toBe(false)
    client.socket.resetAndDestroy()
    await until(() => connection?.destroyed === true, 'the upstream connection to close')
  })

  test('in the middle of its body: the upstream never sees that request end', async () => {
    const upstream = await recordingUpstream()
    const gateway = await gatewayTo(upstream.url)
    const client = new RawConnection(gateway.url)
    client.write('POST /checkouts HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n')
    await until(() => upstream.requests.length === 1, 'the request to arrive')
    const [connection] = upstream.connections
    client.socket.destroy()
    // Well before the time that a refused sender is listened to.
    await until(() => connection?.destroyed === true, 'the upstream connection to close', 1_500)
    expect(upstream.requests[0]?.complete).toBe(false)
  })
})

// A client that leaves closes its side, and Node then speaks of a request that it could not read.
test.each(['/checkouts', '/v3/orders/float', '/v3/anything'])(
  'a client that closes its side in the middle of its body has left, and sent nothing malformed: %s',
  async (path) => {
    const gateway = await gatewayTo((await recordingUpstream()).url)
    const inFlight = () => counted(gateway, 'quotegate_http_requests_in_flight')
    const client = new RawConnection(gateway.url)
    client.write(`POST ${path} HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n`)
    await expect.poll(inFlight).toBe(1)
    client.socket.end()
    await until(() => client.ended, 'the end of the connection')
    await expect.poll(inFlight).toBe(0)
    expect(client.received.toString()).toBe('')
    const page = await gateway.metrics()
    expect(page).toMatch(/^quotegate_http_requests_total\{.*status_class="aborted"\} 1$/m)
    expect(page).not.toMatch(/^quotegate_problems_total\{.*\} [1-9]/m)
  },
)

test('a client that has its answer and closes its side in the middle of its body gets nothing more', async () => {
  const gateway = await gatewayTo('http://127.0.0.1:9')
  const client = new RawConnection(gateway.url)
  client.write('POST /nowhere HTTP/1.1\r\nHost: g\r\nContent-Length: 9\r\n\r\nhello')
  expect((await client.answer()).status).toBe(404)
  client.socket.end()
  await client.closed()
  expect(client.received.toString()).toBe('')
  expect(await counted(gateway, 'quotegate_problems_total{type="malformed-request"}')).toBe(0)
})

describe('a client that leaves while its request waits for a connection', () => {
  test.each([
    ['GET', get.replace('/checkouts', '/checkouts/second')],
    ['POST', 'POST /checkouts/second HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}'],
    ['POST still being sent', 'POST /checkouts/second HTTP/1.1\r\nHost: g\r\nContent-Length: 9\r\n\r\n{}'],
  ])('costs the upstream nothing (%s)', async (_what, second) => {
    const sockets: Socket[] = []
    const upstream = await rawUpstream((socket) => sockets.push(socket))
    const gateway = await gatewayTo(upstream.url, { UPSTREAM_CONNECTIONS: 1 })
    const first = new RawConnection(gateway.url)
    first.write(get.replace('/checkouts', '/checkouts/first'))
    await until(() => sockets.length === 1, 'the first request to arrive')

    const leaver = new RawConnection(gateway.url)
    leaver.write(second)
    await pause(100)
    leaver.socket.destroy()
    await pause(100)

    sockets[0]?.end('HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nfirst')
    expect((await first.answer()).body.toString()).toBe('first')
    const third = rawExchange(gateway.url, get.replace('/checkouts', '/checkouts/third'))
    await until(() => sockets.length === 2, 'the third request to arrive')
    sockets[1]?.end('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nthird')
    expect((await third).body.toString()).toBe('third')
    expect(Buffer.concat(upstream.received).toString()).not.toContain('/checkouts/second')
  })
})
