import { describe, expect, test } from 'vitest'
import { expectProblem } from '../support/clients/problems.ts'
import { counted, giveQuote, quotePath } from '../support/clients/quotes.ts'
import {
  get,
  RawConnection,
  rawExchange,
  valuesOf,
} from '../support/clients/raw-connection.ts'
import {
  gatewayTo,
  recordedGateway,
  recordingUpstream,
  until,
} from '../support/gateways/between.ts'

const unfinished = (line: string, rest = 'Content-Length: 500\r\n\r\n{') =>
  `${line} HTTP/1.1\r\nHost: g\r\nApp-Name: slow\r\n${rest}`

test('a connection past CLIENT_CONNECTIONS gets a 503; the others are served, a freed place is used again', async () => {
  const { upstream, gateway } = await recordedGateway({ CLIENT_CONNECTIONS: 3 })
  const serve = async (connection: RawConnection | undefined) => {
    connection?.write(get('/checkouts'))
    expect((await connection?.answer())?.status).toBe(200)
  }
  const taken = [1, 2, 3].map(() => new RawConnection(gateway.url))
  for (const connection of taken) await serve(connection)
  const refused = new RawConnection(gateway.url)
  refused.write('POST /checkouts HTTP/1.1\r\nHost: g\r\nContent-Length: 4\r\n\r\nbody')
  expectProblem(await refused.answer(), 503, 'too-many-connections')
  await refused.closed()
  expect(
    await counted(gateway, 'quotegate_problems_total{type="too-many-connections"}'),
  ).toBe(1)
  expect(upstream.requests).toHaveLength(3)
  await serve(taken[0])
  taken[1]?.socket.destroy()
  await expect
    .poll(async () => (await rawExchange(gateway.url, get('/checkouts'))).status)
    .toBe(200)
})

test('a client that takes nothing of its answer for as long as an upstream may be silent is cut off', async () => {
  const upstream = await recordingUpstream((_request, response) =>
    response.end(Buffer.alloc(64_000_000)),
  )
  const gateway = await gatewayTo(upstream.url, { bodyTimeoutMs: 2_000 })
  const client = new RawConnection(gateway.url, get('/checkouts'))
  client.socket.pause()
  await until(() => upstream.connections.size === 1, 'the answer to begin')
  await until(() => upstream.connections.size === 0, 'the answer to be given up')
})

describe('bodyIdleTimeoutMs', () => {
  test.each([
    ['a payment', 'POST /checkouts'],
    ['a float order', 'POST /v3/orders/float'],
    ['a fixed order', 'POST /v3/orders'],
    ['a swap request', 'PUT /v3/other'],
  ])(
    '%s whose body stalls is answered with 408, and its connection is closed',
    async (_name, line) => {
      const { upstream, gateway } = await recordedGateway({ bodyIdleTimeoutMs: 200 })
      const inChunks = unfinished(line, 'Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n')
      for (const bytes of [unfinished(line), inChunks]) {
        const client = new RawConnection(gateway.url, bytes)
        const answer = await client.answer()
        expect(expectProblem(answer, 408, 'request-timeout').retryable).toBe(true)
        expect(valuesOf(answer.rawHeaders, 'connection')).toEqual(['close'])
        await client.closed()
      }
      expect(upstream.requests.some(({ complete }) => complete)).toBe(false)
    },
  )

  test('a quote is answered without the body of its request, and the gateway stops waiting for that', async () => {
    const { gateway } = await recordedGateway({}, (_request, response) =>
      giveQuote(response),
    )
    const client = new RawConnection(
      gateway.url,
      unfinished(`GET ${quotePath}?amount=0.1`),
    )
    expect((await client.answer()).status).toBe(200)
    await client.closed()
  })
})
