import { describe, expect, test } from 'vitest'
import { expectProblem, proxyStatus } from '../support/clients/problems.ts'
import { rawExchange, withoutHopByHop } from '../support/clients/raw-connection.ts'
import {
  gatewayTo,
  recordedGateway,
  recordingUpstream,
} from '../support/gateways/between.ts'

const head = (path: string, lines: readonly string[] = []) =>
  `${[`GET ${path} HTTP/1.1`, 'Host: g', ...lines].join('\r\n')}\r\n\r\n`

/** The headers that the upstream of this path is given for these lines. */
async function headersFor(
  lines: readonly string[],
  settings = {},
  path = '/v3/pairs',
): Promise<string[]> {
  const { upstream, gateway } = await recordedGateway(settings)
  expect((await rawExchange(gateway.url, head(path, lines))).status).toBe(200)
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
const trusting = { TRUST_PROXY: 'loopback' }

describe('Forwarded to the swap API is exactly one element, whatever an untrusted peer claims', () => {
  test.each<
    [what: string, lines: string[], settings: Record<string, string>, forwarded: string]
  >([
    ['the peer, whatever an untrusted peer claims', claims, {}, 'for=127.0.0.1'],
    [
      'the user whom a trusted peer names in Forwarded',
      [
        'Forwarded: for=198.51.100.9;proto=https, for="[2001:db8::17]:4711";by=_edge',
        'X-Real-IP: 198.51.100.2',
      ],
      trusting,
      'for="[2001:db8::17]"',
    ],
    [
      'the user whom a trusted peer names in X-Forwarded-For',
      ['X-Forwarded-For: 198.51.100.1, 203.0.113.7', 'Forwarded: for=198.51.100.9'],
      { ...trusting, CLIENT_IP_HEADER: 'x-forwarded-for' },
      'for=203.0.113.7',
    ],
    [
      'the user whom a trusted peer names in a header of one address',
      ['CF-Connecting-IP: ::ffff:203.0.113.8', 'X-Forwarded-For: 198.51.100.1'],
      { ...trusting, CLIENT_IP_HEADER: 'cf-connecting-ip' },
      'for=203.0.113.8',
    ],
    [
      'unknown, where what a trusted peer says is broken',
      ['Forwarded: for="'],
      trusting,
      'for=unknown',
    ],
    [
      'unknown, where a trusted peer hides its user',
      ['Forwarded: for=_hidden'],
      trusting,
      'for=unknown',
    ],
    [
      'unknown, where a trusted peer says nothing',
      ['Forwarded: '],
      trusting,
      'for=unknown',
    ],
  ])('it names %s', async (_what, lines, settings, forwarded) => {
    const got = await headersFor([...lines, 'X-Request-Id: r'], settings)
    expect(got).toEqual([
      'X-Request-Id',
      'r',
      'Forwarded',
      forwarded,
      'Via',
      '1.1 quotegate',
    ])
  })
})

test("a swap request keeps its other headers in order, with the gateway's after them", async () => {
  const lines = [
    'Accept: */*',
    'user-agent: caf\xe9',
    'X-Dup: 1',
    'Via: 1.1 edge (quotegate)',
    'x-dup: 2',
    'via: 2 cdn',
  ]
  expect(await headersFor([...lines, 'X-Request-Id: r'])).toEqual([
    ...lines.flatMap((line) => line.split(': ')),
    'X-Request-Id',
    'r',
    'Forwarded',
    'for=127.0.0.1',
    'Via',
    '1.1 quotegate',
  ])
})

describe('Via to the swap API', () => {
  test.each(['1.1 quotegate', 'HTTP/1.1 QuoteGate', '1.1 edge, 1.1 quotegate (x)'])(
    '%s means a loop: 508 with Proxy-Status, and the upstream sees nothing',
    async (via) => {
      const { upstream, gateway } = await recordedGateway()
      const answer = await rawExchange(gateway.url, head('/v3/pairs', [`Via: ${via}`]))
      expectProblem(answer, 508, 'loop-detected')
      expect(proxyStatus(answer)).toBe('quotegate; error=proxy_loop_detected')
      expect(upstream.requests).toEqual([])
    },
  )

  test('is not put on answers', async () => {
    const upstream = await recordingUpstream((_request, response) => {
      response.sendDate = false
      response.writeHead(200, ['Content-Length', '2']).end('ok')
    })
    const gateway = await gatewayTo(upstream.url)
    const answer = await rawExchange(gateway.url, head('/v3/pairs'))
    expect(withoutHopByHop(answer.rawHeaders)).toEqual(['Content-Length', '2'])
  })
})

describe('what SWAP_ settings supply', () => {
  const settings = {
    SWAP_APP_NAME: 'ours',
    SWAP_APP_VERSION: '9',
    SWAP_AUTHORIZATION: 'Bearer ours',
  }

  test('never reaches the payments upstream', async () => {
    expect(await headersFor([], settings, '/checkouts')).toEqual([])
  })
})
