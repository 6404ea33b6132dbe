import { describe, expect, it } from 'vitest'
import {
  attack,
  attackedGateway,
  expectProblem,
  expectRefusal,
  type Step,
  smuggled,
} from '../support/clients/attack.ts'

const gateway = attackedGateway()

const request = (method: string, target: string, headers = '', body = '') =>
  `${method} ${target} HTTP/1.1\r\nHost: gateway\r\n${headers}\r\n${body}`
const last = request('GET', '/checkouts/last', 'Connection: close\r\n')
const untilAnswered: Step = (socket) =>
  new Promise((resolve) => socket.once('data', resolve))
const seen = () => gateway.received.map(({ method, target }) => `${method} ${target}`)
const everyMethod = ['GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS']

// TRACE shows a browser's secrets to scripts, CONNECT makes an open proxy of a gateway.
describe('TRACE and CONNECT get 405', () => {
  it.each(['', 'Max-Forwards: 0\r\n'])(
    'TRACE, which keeps the connection (%j)',
    async (headers) => {
      const { answers } = await attack(
        gateway.url,
        request('TRACE', '/checkouts', headers) + last,
      )
      expect(answers.map((answer) => answer.status)).toEqual([405, 200])
      expectProblem(answers[0], 405, 'method-not-allowed')
      expect(answers[0]?.headers.get('allow')).toEqual(everyMethod)
      expect(seen()).toEqual(['GET /checkouts/last'])
    },
  )

  it.each([
    ['a:443', ''],
    ['/checkouts', 'Content-Length: 5\r\n'],
  ])(
    'CONNECT %s, and the bytes for the tunnel are ignored (%j)',
    async (target, headers) => {
      const outcome = await attack(
        gateway.url,
        request('CONNECT', target, headers) + smuggled,
      )
      expectRefusal(outcome, 405, 'method-not-allowed')
      expect(outcome.answers[0]?.headers.get('allow')).toEqual(everyMethod)
      expect(seen()).toEqual([])
    },
  )

  // Node takes its error listener off the socket of a CONNECT: an unheard error ends the process.
  it('also if the sender of a CONNECT resets the connection', async () => {
    const reset: Step = (socket) =>
      void socket.once('data', () => socket.resetAndDestroy())
    for (let round = 0; round < 20; round += 1)
      await attack(gateway.url, [request('CONNECT', 'a:443'), reset])
    const { answers } = await attack(gateway.url, last)
    expect(answers.map((answer) => answer.status)).toEqual([200])
  })
})

// RFC 9110 7.6.2: an OPTIONS that may go no further is a question to this hop.
describe('OPTIONS', () => {
  it.each([
    ['*', ''],
    ['/checkouts', 'Max-Forwards: 0\r\n'],
    ['/v3/pairs', 'Max-Forwards: 00\r\n'],
  ])('for %s with %j is answered here', async (target, headers) => {
    const { answers } = await attack(
      gateway.url,
      request('OPTIONS', target, headers) + last,
    )
    expect(answers.map((answer) => answer.status)).toEqual([204, 200])
    expect(answers[0]?.headers.get('allow')).toEqual(everyMethod)
    expect(answers[0]?.headers.has('content-length')).toBe(false)
    expect(seen()).toEqual(['GET /checkouts/last'])
  })

  it.each(['/checkouts', '/v3/pairs'])(
    'for %s is relayed with Max-Forwards reduced by one',
    async (target) => {
      await attack(
        gateway.url,
        request('OPTIONS', target, 'Max-Forwards: 1\r\nConnection: close\r\n'),
      )
      expect(gateway.received.map(({ headers }) => headers['max-forwards'])).toEqual([
        '0',
      ])
    },
  )
})

// A protocol that is switched underneath the gateway is a tunnel past every rule of it (h2c smuggling).
describe('Upgrade is not offered: an upgrade', () => {
  const h2c =
    'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n'
  const hidden = `POST /checkouts/hidden HTTP/1.1\r\nHost: a\r\nContent-Length: ${smuggled.length}\r\n\r\n`

  it.each([
    'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZQ==\r\n',
    h2c,
  ])('is dropped, and the request is relayed: %j', async (headers) => {
    // Java's client offers h2c with each request, and keeps its connection: test/regression/upgrades.test.ts.
    const up = request('GET', '/checkouts/up', headers)
    const { answers } = await attack(gateway.url, [up, untilAnswered, last])
    expect(answers.map((answer) => answer.body)).toEqual([
      '/checkouts/up',
      '/checkouts/last',
    ])
    for (const name of ['upgrade', 'http2-settings'])
      expect(gateway.received[0]?.headers).not.toHaveProperty(name)
    expect(gateway.received[0]?.headers.connection).not.toMatch(/upgrade/i)
  })

  // Node drops what comes in one piece behind such a request. Here that is the head of a POST, and its body
  // would be read as the next request. Of a head without blanks, as many bytes count as there are blanks missing.
  const blankless = ['Host:a', 'Connection:Upgrade', 'Upgrade:h2c']
  while (blankless.length < hidden.length) blankless.push(`x-${blankless.length}:0`)
  it.each([
    ['as the first request', request('GET', '/checkouts/up', h2c)],
    [
      'as the second request',
      request('GET', '/checkouts/first') + request('GET', '/checkouts/up', h2c),
    ],
    ['with a body', request('GET', '/checkouts/up', `${h2c}Content-Length: 2\r\n`, '{}')],
    [
      'without blanks in its head',
      `GET /checkouts/up HTTP/1.1\r\n${blankless.join('\r\n')}\r\n\r\n`,
    ],
  ])(
    'ends the connection if the bytes after it may be lost, %s',
    async (_which, upgrade) => {
      const { answers } = await attack(gateway.url, [upgrade + hidden, 100, smuggled])
      expect(answers.at(-1)?.body).toBe('/checkouts/up')
      expect(answers.at(-1)?.headers.get('connection')).toEqual(['close'])
      expect(seen().at(-1)).toBe('GET /checkouts/up')
    },
  )
})

// A client that waits for a 100 that never comes sends no body; one that is asked for a body which is then
// refused has sent it for nothing.
describe('Expect: 100-continue is answered here, any other expectation gets 417: an expectation', () => {
  // That one of 100-continue is met before the body is sent: short-bodies-before-connections.test.ts.
  it.each([
    ['anything else is 417', 'Expect: 100-continued\r\n', 417, 'expectation-failed'],
    [
      'a head that is refused is not met',
      'Host: b\r\nExpect: 100-continue\r\n',
      400,
      'malformed-request',
    ],
  ])('of %s', async (_what, headers, status, slug) => {
    const all = `${headers}Content-Length: 5\r\n`
    const outcome = await attack(
      gateway.url,
      request('POST', '/checkouts', all, 'hello') + smuggled,
    )
    expect(outcome.informational).toEqual([])
    expectRefusal(outcome, status, slug)
    expect(seen()).toEqual([])
  })
})

// Closing after each wrong path costs a handshake for every typing error.
it.each([
  ['GET', '', ''],
  ['HEAD', '', ''],
  ['POST', 'Content-Length: 5\r\n', 'hello'],
])(
  'keeps the connection after a 404 to a %s once its body is read',
  async (method, headers, body) => {
    const wrong = request(method, '/nope', headers, body)
    const { answers } = await attack(gateway.url, wrong + last, { methods: [method] })
    expect(answers.map((answer) => answer.status)).toEqual([404, 200])
    expect(seen()).toEqual(['GET /checkouts/last'])
  },
)
