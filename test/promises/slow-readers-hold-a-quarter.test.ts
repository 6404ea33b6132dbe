import { connect, type Socket } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import {
  gatewayTo,
  pause,
  recordingUpstream,
  until,
} from '../support/gateways/between.ts'
import { ownPatience } from '../support/gateways/gateway.ts'

const get = (path: string) =>
  `GET ${path} HTTP/1.1\r\nHost: g\r\nApp-Name: wallet\r\n\r\n`
const post = (path: string) =>
  `POST ${path} HTTP/1.1\r\nHost: g\r\nContent-Length: 0\r\n\r\n`
const limits = { ...ownPatience, UPSTREAM_CONNECTIONS: 8 }
/** More than all buffers between an upstream and a client take. */
const large = Buffer.alloc(64_000_000, 'x')

/** Clients that take 64 KiB of their answers every 2.5 s, so that no answer ever stalls. */
function readSlowly(url: string, request: string, count: number): Socket[] {
  const sockets = Array.from({ length: count }, () =>
    connect(Number(new URL(url).port), '127.0.0.1'),
  )
  for (const socket of sockets)
    socket
      .on('error', () => {})
      .on('readable', () => {})
      .write(request)
  const timer = setInterval(() => {
    for (const socket of sockets) socket.read()
  }, 2_500)
  onTestFinished(() => {
    clearInterval(timer)
    for (const socket of sockets) socket.destroy()
  })
  return sockets
}

const upstreamWithLarge = () =>
  recordingUpstream((request, response) =>
    response.end(request.target.endsWith('/large') ? large : 'small'),
  )

/** A caller that tries again as the 503 says. Each try waits for a second, and a slow client is known by then. */
async function asked(url: string, path: string, times: number): Promise<unknown[]> {
  const answers: unknown[] = []
  while (answers.length < times && !answers.includes(200))
    answers.push((await rawExchange(url, get(path))).status)
  return answers
}

// Twice as many as there are connections held all of them, and all other requests got 503.
describe.each([
  ['swap', '/v3/assets', 7, '/v3/assets'],
  ['swap, quotes', '/v3/assets', 7, '/v3/pairs/A_B/quotes?amount=1'],
  ['payments', '/checkouts', 8, '/checkouts'],
])('an upstream (%s)', (_name, path, held, other) => {
  test('callers that read large answers slowly do not keep others waiting', async () => {
    const upstream = await upstreamWithLarge()
    const gateway = await gatewayTo(upstream.url, limits)
    readSlowly(gateway.url, get(`${path}/large`), 16)
    await until(() => upstream.requests.length >= held, 'all connections to be held')
    expect(await asked(gateway.url, other, 3)).toContain(200)
  })
})

test('no caller is cut while no other request waits', async () => {
  const upstream = await upstreamWithLarge()
  const gateway = await gatewayTo(upstream.url, limits)
  const sockets = readSlowly(gateway.url, get('/checkouts/large'), 7)
  await until(() => upstream.requests.length === 7, 'the answers to begin')
  const client = new RawConnection(gateway.url)
  for (let round = 0; round < 12; round += 1) {
    client.write(get('/checkouts'))
    expect((await client.answer()).status).toBe(200)
    await pause(500)
  }
  expect(sockets.filter(({ destroyed }) => destroyed)).toHaveLength(0)
  expect(upstream.connections.size).toBe(8)
})

test('the answer to a POST is never cut for others, because it may say what became of a payment', async () => {
  const upstream = await upstreamWithLarge()
  const gateway = await gatewayTo(upstream.url, { ...limits, UPSTREAM_CONNECTIONS: 4 })
  const sockets = readSlowly(gateway.url, post('/checkouts/large'), 4)
  await until(() => upstream.requests.length === 4, 'all connections to be held')
  expect(await asked(gateway.url, '/checkouts', 4)).toEqual([503, 503, 503, 503])
  expect(sockets.filter(({ destroyed }) => destroyed)).toHaveLength(0)
})
