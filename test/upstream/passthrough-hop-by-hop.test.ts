import { describe, expect, test } from 'vitest'
import { RawConnection, rawExchange, valuesOf, withoutHopByHop } from '../support/clients/raw-connection.ts'
import { gatewayTo, rawUpstream, recordingUpstream } from '../support/gateways/between.ts'

async function headersUpstream(lines: string): Promise<string[]> {
  const upstream = await recordingUpstream()
  const gateway = await gatewayTo(upstream.url)
  await rawExchange(gateway.url, `GET /checkouts HTTP/1.1\r\nHost: g\r\n${lines}\r\n`)
  return upstream.requests[0]?.rawHeaders ?? []
}

async function headersClient(lines: string): Promise<string[]> {
  const upstream = await rawUpstream((socket) =>
    socket.end(`HTTP/1.1 200 OK\r\n${lines}Content-Length: 2\r\n\r\nok`),
  )
  const gateway = await gatewayTo(upstream.url)
  const answer = await rawExchange(gateway.url, 'GET /checkouts HTTP/1.1\r\nHost: g\r\n\r\n')
  expect(answer.body.toString()).toBe('ok')
  return answer.rawHeaders
}

const hopByHop = [
  'Keep-Alive: timeout=77',
  'proxy-connection: keep-alive',
  'TE: trailers',
  'Trailer: X-T',
  'Upgrade: h2c',
  'HTTP2-Settings: AAMAAABkAAQAAP__',
]

describe('hop-by-hop headers', () => {
  test.each(hopByHop)('%s of a request is not relayed', async (line) => {
    const got = await headersUpstream(`X-A: 1\r\n${line}\r\nX-B: 2\r\n`)
    expect(withoutHopByHop(got)).toEqual(['X-A', '1', 'X-B', '2'])
    expect(valuesOf(got, 'keep-alive')).toEqual([])
    expect(valuesOf(got, 'connection')).toEqual(['keep-alive'])
  })

  test.each(hopByHop)('%s of an answer is not relayed', async (line) => {
    const got = await headersClient(`X-A: 1\r\n${line}\r\nX-B: 2\r\n`)
    expect(withoutHopByHop(got)).toEqual(['X-A', '1', 'X-B', '2', 'Content-Length', '2'])
    expect(got).not.toContain('timeout=77')
  })

  test('an offer to upgrade is ignored, and the request is relayed without it', async () => {
    const got = await headersUpstream(
      'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: a2V5\r\nSec-WebSocket-Version: 13\r\n',
    )
    expect(withoutHopByHop(got)).toEqual(['Sec-WebSocket-Key', 'a2V5', 'Sec-WebSocket-Version', '13'])
  })
})

describe('Connection', () => {
  test('removes what any of its lines names, in a request', async () => {
    const got = await headersUpstream(
      'X-One: 1\r\nConnection: close, X-ONE\r\nX-Two: 2\r\nconnection: x-two ,, x-three\r\nX-Three: 3\r\nX-Four: 4\r\n',
    )
    expect(withoutHopByHop(got)).toEqual(['X-Four', '4'])
  })

  test('removes what any of its lines names, in an answer', async () => {
    const got = await headersClient(
      'X-One: 1\r\nConnection: close, X-ONE\r\nX-Two: 2\r\nconnection: x-two\r\nX-Four: 4\r\n',
    )
    expect(withoutHopByHop(got)).toEqual(['X-Four', '4', 'Content-Length', '2'])
  })

  // CVE-2021-33197 of Go's reverse proxy: a client named what the proxy relies on, and it was gone.
  test.each([
    ['App-Name', 'wallet'],
    ['App-Version', '1'],
    ['App-Anything', '1'],
    ['User-Agent', 'ua'],
    ['Authorization', 'Bearer key'],
    ['Forwarded', 'for=192.0.2.1'],
    ['Via', '1.1 edge'],
  ])('cannot remove %s', async (name, value) => {
    const got = await headersUpstream(`${name}: ${value}\r\nConnection: ${name.toLowerCase()}\r\n`)
    expect(withoutHopByHop(got)).toEqual([name, value])
  })

  test('cannot remove the length or the host of a request', async () => {
    const upstream = await recordingUpstream()
    const gateway = await gatewayTo(upstream.url)
    await rawExchange(
      gateway.url,
      'POST /checkouts HTTP/1.1\r\nHost: g\r\nConnection: host, content-length, transfer-encoding\r\nContent-Length: 2\r\n\r\nok',
    )
    expect(upstream.requests[0]?.headers['content-length']).toBe('2')
    expect(upstream.requests[0]?.headers.host).toBe(`127.0.0.1:${upstream.port}`)
    expect(upstream.requests[0]?.body.toString()).toBe('ok')
  })

  test('cannot remove headers that the gateway sets for the swap upstream', async () => {
    const upstream = await recordingUpstream()
    const gateway = await gatewayTo(upstream.url, { SWAP_APP_NAME: 'supplied' })
    await rawExchange(
      gateway.url,
      'GET /v3/pairs HTTP/1.1\r\nHost: g\r\nApp-Name: own\r\nX-Request-Id: mine\r\nConnection: forwarded, via, app-name, x-request-id\r\n\r\n',
    )
    const got = upstream.requests[0]?.rawHeaders ?? []
    expect(valuesOf(got, 'forwarded')).toEqual(['for=127.0.0.1'])
    expect(valuesOf(got, 'via')).toEqual(['1.1 quotegate'])
    expect(valuesOf(got, 'app-name')).toEqual(['own'])
    expect(valuesOf(got, 'x-request-id')).toEqual(['mine'])
  })

  test('close from the client ends its connection and says nothing to the upstream', async () => {
    const upstream = await recordingUpstream()
    const gateway = await gatewayTo(upstream.url)
    const client = new RawConnection(gateway.url)
    client.write('GET /checkouts HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n')
    const answer = await client.answer()
    expect(valuesOf(answer.rawHeaders, 'connection')).toEqual(['close'])
    await client.closed()
    expect(valuesOf(upstream.requests[0]?.rawHeaders ?? [], 'connection')).toEqual(['keep-alive'])
  })

  test("close from the upstream leaves the client's connection open", async () => {
    const upstream = await recordingUpstream((_request, response) => {
      response.writeHead(200, { Connection: 'close' }).end('ok')
    })
    const gateway = await gatewayTo(upstream.url)
    const client = new RawConnection(gateway.url)
    for (const _ of [1, 2]) {
      client.write('GET /checkouts HTTP/1.1\r\nHost: g\r\n\r\n')
      expect((await client.answer()).body.toString()).toBe('ok')
    }
  })
})
