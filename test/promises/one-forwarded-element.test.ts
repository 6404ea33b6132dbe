import { describe, expect, test } from 'vitest'
import { rawExchange, valuesOf, withoutHopByHop } from '../support/clients/raw-connection.ts'
import { gatewayTo, recordingUpstream } from '../support/gateways/between.ts'

/** The headers that the swap upstream is given for these lines. */
async function swapHeaders(lines: readonly string[], settings = {}): Promise<string[]> {
  const upstream = await recordingUpstream()
  const gateway = await gatewayTo(upstream.url, settings)
  const head = ['GET /v3/pairs HTTP/1.1', 'Host: g', ...lines].join('\r\n')
  expect((await rawExchange(gateway.url, `${head}\r\n\r\n`)).status).toBe(200)
  return withoutHopByHop(upstream.requests[0]?.rawHeaders ?? [])
}

const claims = [
  'X-Forwarded-For: 198.51.100.1',
  'x-forwarded-host: evil.example',
  'X-Real-IP: 198.51.100.2',
  'CF-Connecting-IP: 198.51.100.3',
  'True-Client-IP: 198.51.100.4',
  'Client-IP: 198.51.100.5',
  'forwarded: for=198.51.100.6',
  // To servers behind CGI or WSGI the same as with dashes.
  'X_Forwarded_For: 198.51.100.7',
  'X_Real_IP: 198.51.100.8',
]

describe('Forwarded on the swap side', () => {
  test('is exactly one element with the peer, whatever an untrusted peer claims', async () => {
    const got = await swapHeaders(claims)
    expect(valuesOf(got, 'forwarded')).toEqual(['for=127.0.0.1'])
    expect(got.filter((part) => part.includes('198.51') || part.includes('evil'))).toEqual([])
  })

  test('carries the client that a trusted peer names in Forwarded', async () => {
    const got = await swapHeaders(
      [
        'Forwarded: for=198.51.100.9;proto=https, for="[2001:db8::17]:4711";by=_edge',
        'X-Real-IP: 198.51.100.2',
      ],
      { TRUST_PROXY: 'loopback' },
    )
    expect(valuesOf(got, 'forwarded')).toEqual(['for="[2001:db8::17]"'])
    expect(valuesOf(got, 'x-real-ip')).toEqual([])
  })

  test('carries the client that a trusted peer names in X-Forwarded-For', async () => {
    const got = await swapHeaders(
      ['X-Forwarded-For: 198.51.100.1, 203.0.113.7', 'Forwarded: for=198.51.100.9'],
      {
        TRUST_PROXY: 'loopback',
        CLIENT_IP_HEADER: 'x-forwarded-for',
      },
    )
    expect(valuesOf(got, 'forwarded')).toEqual(['for=203.0.113.7'])
    expect(valuesOf(got, 'x-forwarded-for')).toEqual([])
  })

  test('carries the client that a trusted peer names in a header of one address', async () => {
    const got = await swapHeaders(['CF-Connecting-IP: ::ffff:203.0.113.8', 'X-Forwarded-For: 198.51.100.1'], {
      TRUST_PROXY: 'loopback',
      CLIENT_IP_HEADER: 'cf-connecting-ip',
    })
    expect(valuesOf(got, 'forwarded')).toEqual(['for=203.0.113.8'])
    expect(valuesOf(got, 'cf-connecting-ip')).toEqual([])
  })

  test.each(['for="', 'for=_hidden', ''])(
    'is unknown when a trusted peer names no client: %j',
    async (value) => {
      const got = await swapHeaders([`Forwarded: ${value}`], { TRUST_PROXY: 'loopback' })
      expect(valuesOf(got, 'forwarded')).toEqual(['for=unknown'])
    },
  )
})

describe('Via on the swap side', () => {
  test('is appended after the existing lines', async () => {
    const got = await swapHeaders(['Via: 1.0 fred, 1.1 edge (quotegate)', 'X-A: 1', 'via: 2 cdn'])
    expect(valuesOf(got, 'via')).toEqual(['1.0 fred, 1.1 edge (quotegate)', '2 cdn', '1.1 quotegate'])
  })

  test.each(['1.1 quotegate', 'HTTP/1.1 QuoteGate', '1.1 edge, 1.1 quotegate (x)'])(
    '%s means a loop: 508 with Proxy-Status, and the upstream sees nothing',
    async (via) => {
      const upstream = await recordingUpstream()
      const gateway = await gatewayTo(upstream.url)
      const answer = await rawExchange(
        gateway.url,
        `GET /v3/pairs HTTP/1.1\r\nHost: g\r\nVia: ${via}\r\n\r\n`,
      )
      expect(answer.status).toBe(508)
      expect(valuesOf(answer.rawHeaders, 'proxy-status')).toEqual(['quotegate; error=proxy_loop_detected'])
      expect(JSON.parse(answer.body.toString())).toMatchObject({
        type: 'urn:quotegate:problem:loop-detected',
      })
      expect(upstream.requests).toEqual([])
    },
  )

  test('makes a gateway whose swap upstream is itself answer 508 instead of looping', async () => {
    const second = await recordingUpstream()
    const inner = await gatewayTo(second.url)
    const outer = await gatewayTo(inner.url)
    const answer = await rawExchange(outer.url, 'GET /v3/pairs HTTP/1.1\r\nHost: g\r\n\r\n')
    expect(answer.status).toBe(508)
    expect(second.requests).toEqual([])
  })

  test('is not put on answers', async () => {
    const upstream = await recordingUpstream((_request, response) => {
      response.sendDate = false
      response.writeHead(200, ['Content-Length', '2']).end('ok')
    })
    const gateway = await gatewayTo(upstream.url)
    const answer = await rawExchange(gateway.url, 'GET /v3/pairs HTTP/1.1\r\nHost: g\r\n\r\n')
    expect(withoutHopByHop(answer.rawHeaders)).toEqual(['Content-Length', '2'])
  })
})

describe('what SWAP_ settings supply', () => {
  const settings = { SWAP_APP_NAME: 'ours', SWAP_APP_VERSION: '9', SWAP_AUTHORIZATION: 'Bearer ours' }

  test('is sent when the caller sent none', async () => {
    const got = await swapHeaders(['X-A: 1'], settings)
    expect(valuesOf(got, 'app-name')).toEqual(['ours'])
    expect(valuesOf(got, 'app-version')).toEqual(['9'])
    expect(valuesOf(got, 'authorization')).toEqual(['Bearer ours'])
  })

  test("does not replace or join the caller's own", async () => {
    const got = await swapHeaders(
      ['app-name: theirs', 'APP-VERSION: 1', 'authorization: Bearer theirs'],
      settings,
    )
    expect(valuesOf(got, 'app-name')).toEqual(['theirs'])
    expect(valuesOf(got, 'app-version')).toEqual(['1'])
    expect(valuesOf(got, 'authorization')).toEqual(['Bearer theirs'])
  })

  test('never reaches the payments upstream', async () => {
    const upstream = await recordingUpstream()
    const gateway = await gatewayTo(upstream.url, settings)
    await rawExchange(gateway.url, 'GET /checkouts HTTP/1.1\r\nHost: g\r\n\r\n')
    expect(withoutHopByHop(upstream.requests[0]?.rawHeaders ?? [])).toEqual([])
  })
})

test("a swap request keeps its other headers in order, with the gateway's after them", async () => {
  const got = await swapHeaders([
    'Accept: */*',
    'user-agent: caf\xe9',
    'X-Dup: 1',
    'x-dup: 2',
    'X-Request-Id: r',
  ])
  expect(got).toEqual([
    ...['Accept', '*/*', 'user-agent', 'caf\xe9', 'X-Dup', '1', 'x-dup', '2', 'X-Request-Id', 'r'],
    ...['Forwarded', 'for=127.0.0.1', 'Via', '1.1 quotegate'],
  ])
})

test.each(['5', '1'])('OPTIONS is relayed with Max-Forwards counted down from %s', async (count) => {
  const upstream = await recordingUpstream()
  const gateway = await gatewayTo(upstream.url)
  await rawExchange(gateway.url, `OPTIONS /v3/pairs HTTP/1.1\r\nHost: g\r\nMax-Forwards: ${count}\r\n\r\n`)
  expect(upstream.requests[0]?.headers['max-forwards']).toBe(String(Number(count) - 1))
})
