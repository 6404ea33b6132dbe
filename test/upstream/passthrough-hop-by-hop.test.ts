import { describe, expect, test } from 'vitest'
import {
  RawConnection,
  rawExchange,
  valuesOf,
  withoutHopByHop,
} from '../support/clients/raw-connection.ts'
import { gatewayTo, rawUpstream, recordedGateway } from '../support/gateways/between.ts'

// Which headers are left of any is the property of test/http/headers.test.ts.

async function headersUpstream(lines: string): Promise<string[]> {
  const { upstream, gateway } = await recordedGateway()
  await rawExchange(gateway.url, `GET /checkouts HTTP/1.1\r\nHost: g\r\n${lines}\r\n`)
  return upstream.requests[0]?.rawHeaders ?? []
}

async function headersClient(lines: string): Promise<string[]> {
  const upstream = await rawUpstream((socket) =>
    socket.end(`HTTP/1.1 200 OK\r\n${lines}Content-Length: 2\r\n\r\nok`),
  )
  const gateway = await gatewayTo(upstream.url)
  const answer = await rawExchange(
    gateway.url,
    'GET /checkouts HTTP/1.1\r\nHost: g\r\n\r\n',
  )
  expect(answer.body.toString()).toBe('ok')
  return answer.rawHeaders
}

const ofTheHop =
  'X-A: 1\r\nKeep-Alive: timeout=77\r\nproxy-connection: keep-alive\r\nTE: trailers\r\nTrailer: X-T\r\nUpgrade: h2c\r\n' +
  'HTTP2-Settings: AAMAAABkAAQAAP__\r\nX-B: 2\r\n'
const named =
  'X-One: 1\r\nConnection: close, X-ONE\r\nX-Two: 2\r\nconnection: x-two ,, x-three\r\nX-Three: 3\r\nX-Four: 4\r\n'

describe('hop-by-hop headers, and those that any line of Connection names, are not relayed', () => {
  test('from a request', async () => {
    const got = await headersUpstream(ofTheHop)
    expect(withoutHopByHop(got)).toEqual(['X-A', '1', 'X-B', '2'])
    expect([valuesOf(got, 'keep-alive'), valuesOf(got, 'connection')]).toEqual([
      [],
      ['keep-alive'],
    ])
    expect(withoutHopByHop(await headersUpstream(named))).toEqual(['X-Four', '4'])
  })

  test('from an answer', async () => {
    const got = await headersClient(ofTheHop)
    expect(withoutHopByHop(got)).toEqual(['X-A', '1', 'X-B', '2', 'Content-Length', '2'])
    expect(got).not.toContain('timeout=77')
    expect(withoutHopByHop(await headersClient(named))).toEqual([
      'X-Four',
      '4',
      'Content-Length',
      '2',
    ])
  })
})

describe('Connection', () => {
  test('cannot remove headers that the gateway sets for the swap API', async () => {
    const { upstream, gateway } = await recordedGateway({ SWAP_APP_NAME: 'supplied' })
    await rawExchange(
      gateway.url,
      'GET /v3/pairs HTTP/1.1\r\nHost: g\r\nApp-Name: own\r\nX-Request-Id: mine\r\n' +
        'Connection: forwarded, via, app-name, x-request-id\r\n\r\n',
    )
    expect(upstream.requests[0]?.headers).toMatchObject({
      forwarded: 'for=127.0.0.1',
      via: '1.1 quotegate',
      'app-name': 'own',
      'x-request-id': 'mine',
    })
  })

  test("close from the upstream leaves the client's connection open", async () => {
    const { gateway } = await recordedGateway({}, (_request, response) => {
      response.writeHead(200, { Connection: 'close' }).end('ok')
    })
    const client = new RawConnection(gateway.url)
    for (const _ of [1, 2]) {
      client.write('GET /checkouts HTTP/1.1\r\nHost: g\r\n\r\n')
      expect((await client.answer()).body.toString()).toBe('ok')
    }
  })
})
