import type { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { expectProblem, proxyStatus } from '../support/clients/problems.ts'
import { RawConnection, rawExchange, valuesOf } from '../support/clients/raw-connection.ts'
import { gatewayTo, rawUpstream, until } from '../support/gateways/between.ts'

/** An upstream that begins its answer to the first request and never ends it, so that the one connection is taken. */
async function taken(settings: Record<string, number>) {
  const sockets: Socket[] = []
  const upstream = await rawUpstream((socket) => {
    sockets.push(socket)
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n')
  })
  const gateway = await gatewayTo(upstream.url, { UPSTREAM_CONNECTIONS: 1, ...settings })
  const holder = new RawConnection(gateway.url)
  return {
    gateway,
    received: () => Buffer.concat(upstream.received).toString(),
    async take(path: string) {
      holder.write(`GET ${path} HTTP/1.1\r\nHost: g\r\n\r\n`)
      await until(() => holder.received.includes('\r\n\r\n'), 'the connection to be taken')
    },
    free: () => sockets[0]?.end('123456789'),
  }
}

const body = 'Content-Length: 2\r\n\r\n{}'

// 128 bodies that trickled a byte every 29 s held all connections, and those that queued for one waited for 70 s and more.
test.each([
  ['a payment', '/checkouts', 'POST /checkouts/late', body],
  ['a GET', '/checkouts', 'GET /checkouts/late', '\r\n'],
  ['an order', '/v3/assets', 'POST /v3/orders?late', body],
  ['a swap request whose body streams', '/v3/assets', 'PUT /v3/late', 'Content-Length: 90000\r\n\r\n{'],
])(
  '%s that waits for a connection is answered 503 within UPSTREAM_HEADERS_TIMEOUT_MS, and was never sent',
  async (_name, held, line, rest) => {
    const { gateway, received, take } = await taken({
      UPSTREAM_HEADERS_TIMEOUT_MS: 300,
      UPSTREAM_TOTAL_TIMEOUT_MS: 600_000,
    })
    await take(held)
    const refused = await rawExchange(gateway.url, `${line} HTTP/1.1\r\nHost: g\r\nApp-Name: a\r\n${rest}`)
    expect(expectProblem(refused, 503, 'saturated').retryable).toBe(true)
    expect(valuesOf(refused.rawHeaders, 'retry-after')).toEqual(['1'])
    expect(proxyStatus(refused)).toBe('quotegate; error=connection_limit_reached')
    expect(received()).not.toContain('late')
  },
)

const order = JSON.stringify({ pairId: 'A_B', fromAmount: 1, toAmount: 2, toAddress: 'late' })
test.each([
  ['a quote', 'GET /v3/pairs/LATE_B/quotes?amount=1', '\r\n'],
  ['a float order', 'POST /v3/orders/float', `Content-Length: ${order.length}\r\n\r\n${order}`],
])(
  '%s that waits for a connection is answered 503 within UPSTREAM_TOTAL_TIMEOUT_MS, and was never sent',
  async (_name, line, rest) => {
    const { gateway, received, take } = await taken({
      UPSTREAM_HEADERS_TIMEOUT_MS: 600_000,
      UPSTREAM_TOTAL_TIMEOUT_MS: 300,
    })
    await take('/v3/assets')
    const refused = await rawExchange(gateway.url, `${line} HTTP/1.1\r\nHost: g\r\nApp-Name: a\r\n${rest}`)
    expect(expectProblem(refused, 503, 'saturated').retryable).toBe(true)
    expect(proxyStatus(refused)).toBe('quotegate; error=connection_limit_reached')
    expect(received().toLowerCase()).not.toContain('late')
  },
)

test('a request whose turn comes in time is sent', async () => {
  const { gateway, received, take, free } = await taken({ UPSTREAM_HEADERS_TIMEOUT_MS: 60_000 })
  await take('/checkouts')
  const client = new RawConnection(gateway.url)
  client.write(`POST /checkouts/in-time HTTP/1.1\r\nHost: g\r\n${body}`)
  free()
  await until(() => received().includes('in-time'), 'it to be sent')
})
