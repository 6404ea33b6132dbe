import { describe, expect, onTestFinished, test } from 'vitest'
import { expectProblem, proxyStatus } from '../support/clients/problems.ts'
import {
  RawConnection,
  rawExchange,
  valuesOf,
} from '../support/clients/raw-connection.ts'
import {
  gatewayTo,
  pause,
  recordedGateway,
  recordingUpstream,
  until,
} from '../support/gateways/between.ts'

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: g\r\n\r\n`

/** Clients whose bodies never end. Each sends a byte now and then, so that no idle time ends them. */
function trickle(url: string, path: string, count: number): RawConnection[] {
  const clients = Array.from({ length: count }, () => new RawConnection(url))
  for (const client of clients)
    client.write(`POST ${path} HTTP/1.1\r\nHost: g\r\nContent-Length: 100000\r\n\r\nx`)
  const timer = setInterval(() => {
    for (const { socket } of clients) if (socket.writable) socket.write('x')
  }, 50)
  onTestFinished(() => clearInterval(timer))
  return clients
}

// 1,200 bodies that trickled took all connections and all of the queue, and everybody else got 503.
describe.each([
  ['swap', '/v3/assets'],
  ['payments', '/checkouts'],
])('bodies that trickle (%s)', (_name, path) => {
  test('hold a quarter of the connections, wait in a quarter of the queue, and leave the rest to others', async () => {
    const { upstream, gateway } = await recordedGateway({
      UPSTREAM_CONNECTIONS: 8,
      queue: 10,
    })
    const streaming = () =>
      upstream.requests.filter(({ method }) => method === 'POST').length
    const clients = trickle(gateway.url, path, 20)
    const answered = () => clients.filter(({ received }) => received.length > 0)
    // Of 20, 2 stream and 3 wait.
    await until(() => answered().length === 15, 'the others to be refused')
    await until(() => streaming() === 2, 'a quarter to stream')
    for (const client of answered()) {
      const refused = await client.answer()
      expect(expectProblem(refused, 503, 'saturated').retryable).toBe(true)
      expect(valuesOf(refused.rawHeaders, 'retry-after')).toEqual(['1'])
      expect(proxyStatus(refused)).toBe('quotegate; error=connection_limit_reached')
    }
    for (let count = 0; count < 20; count += 1)
      expect((await rawExchange(gateway.url, get(path))).status).toBe(200)
    const short = `PUT ${path} HTTP/1.1\r\nHost: g\r\nContent-Length: 5\r\n\r\nshort`
    expect((await rawExchange(gateway.url, short)).status).toBe(200)
    expect(streaming()).toBe(2)
  })

  test('are sent whole and in their order of arrival when their turn comes', async () => {
    const upstream = await recordingUpstream((request, response) =>
      response.end(request.body),
    )
    const gateway = await gatewayTo(upstream.url, { UPSTREAM_CONNECTIONS: 4, queue: 4 })
    const clients = ['a', 'b'].map((letter, index) => {
      const client = new RawConnection(gateway.url)
      const upload = `PUT ${path}/${letter} HTTP/1.1\r\nHost: g\r\nContent-Length: 100000\r\n\r\n`
      client.write(upload + letter.repeat(10 + index))
      return client
    })
    await until(() => upstream.requests.length === 1, 'the first one')
    for (const [index, client] of clients.entries()) {
      const letter = 'ab'[index] as string
      client.write(letter.repeat(100_000 - 10 - index))
      expect((await client.answer()).body.toString()).toBe(letter.repeat(100_000))
    }
    expect(upstream.requests.map(({ target }) => target)).toEqual([
      `${path}/a`,
      `${path}/b`,
    ])
  })
})

test('a body that is given up while it waits frees its place, and is never sent', async () => {
  const { upstream, gateway } = await recordedGateway({
    UPSTREAM_CONNECTIONS: 4,
    queue: 4,
  })
  trickle(gateway.url, '/checkouts', 1)
  await until(() => upstream.requests.length === 1, 'one to stream')
  for (let round = 0; round < 5; round += 1) {
    const client = new RawConnection(gateway.url)
    client.write(
      `POST /checkouts/waits HTTP/1.1\r\nHost: g\r\nContent-Length: 100000\r\n\r\n${round}`,
    )
    await pause(50)
    expect(client.received.toString()).toBe('')
    client.socket.destroy()
    await pause(50)
  }
  expect(upstream.requests).toHaveLength(1)
})
