import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import {
  type AttackedGateway,
  attack,
  expectProblem,
  expectRefusal,
  smuggled,
  startAttackedGateway,
} from '../support/clients/attack.ts'

let gateway: AttackedGateway
beforeAll(async () => {
  gateway = await startAttackedGateway()
})
afterAll(() => gateway.close())
beforeEach(() => {
  gateway.received.length = 0
})

const request = (method: string, target: string, headers = '', body = '') =>
  `${method} ${target} HTTP/1.1\r\nHost: gateway\r\n${headers}\r\n${body}`
const last = request('GET', '/checkouts/last', 'Connection: close\r\n')
const seen = () => gateway.received.map(({ method, target }) => `${method} ${target}`)
const everyMethod = ['GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS']

// TRACE shows a browser's secrets to scripts, CONNECT makes an open proxy of a gateway.
describe('TRACE and CONNECT get 405', () => {
  it.each(['', 'Max-Forwards: 0\r\n'])(
    'answers TRACE with 405 and keeps the connection (%j)',
    async (headers) => {
      const { answers } = await attack(gateway.url, request('TRACE', '/checkouts', headers) + last)
      expect(answers.map((answer) => answer.status)).toEqual([405, 200])
      expectProblem(answers[0], 405, 'method-not-allowed')
      expect(answers[0]?.headers.get('allow')).toEqual(everyMethod)
      expect(seen()).toEqual(['GET /checkouts/last'])
    },
  )

  it.each([
    ['a:443', ''],
    ['/checkouts', ''],
    ['a:443', 'Content-Length: 5\r\n'],
  ])('answers CONNECT %s with 405 and ignores the bytes for the tunnel (%j)', async (target, headers) => {
    const outcome = await attack(gateway.url, request('CONNECT', target, headers) + smuggled)
    expectRefusal(outcome, 405, 'method-not-allowed')
    expect(outcome.answers[0]?.headers.get('allow')).toEqual(everyMethod)
    expect(seen()).toEqual([])
  })

  // Node takes its error listener off the socket of a CONNECT: an unheard error ends the process.
  it('keeps running if the sender of a CONNECT resets the connection', async () => {
    for (let round = 0; round < 20; round += 1) {
      await attack(gateway.url, [
        request('CONNECT', 'a:443'),
        (socket) => {
          socket.once('data', () => socket.resetAndDestroy())
        },
      ])
    }
    const { answers } = await attack(gateway.url, last)
    expect(answers.map((answer) => answer.status)).toEqual([200])
  })
})

// RFC 9110 7.6.2: an OPTIONS that may go no further is a question to this hop.
describe('OPTIONS', () => {
  it.each([
    ['*', ''],
    ['/checkouts', 'Max-Forwards: 0\r\n'],
    ['/v3/pairs', 'Max-Forwards: 0\r\n'],
    ['/checkouts', 'Max-Forwards: 00\r\n'],
  ])('for %s with %j is answered here', async (target, headers) => {
    const { answers } = await attack(gateway.url, request('OPTIONS', target, headers) + last)
    expect(answers.map((answer) => answer.status)).toEqual([204, 200])
    expect(answers[0]?.headers.get('allow')).toEqual(everyMethod)
    expect(answers[0]?.headers.has('content-length')).toBe(false)
    expect(seen()).toEqual(['GET /checkouts/last'])
  })

  it('is relayed with Max-Forwards reduced by one', async () => {
    await attack(gateway.url, request('OPTIONS', '/checkouts', 'Max-Forwards: 1\r\n') + last)
    expect(seen()).toEqual(['OPTIONS /checkouts', 'GET /checkouts/last'])
    expect(gateway.received[0]?.headers['max-forwards']).toBe('0')
  })
})

// A protocol that is switched underneath the gateway is a tunnel past every rule of it (h2c smuggling).
describe('Upgrade is not offered: an upgrade', () => {
  const upgrades = [
    ['websocket', 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZQ==\r\n'],
    ['h2c', 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n'],
  ] as const

  it.each(upgrades)('to %s is dropped, and the request is relayed', async (_name, headers) => {
    const { answers } = await attack(gateway.url, [
      request('GET', '/checkouts/up', headers),
      // Java's client offers h2c on each new connection: it must be able to keep that.
      (socket) => new Promise((resolve) => socket.once('data', resolve)),
      last,
    ])
    expect(answers.map((answer) => answer.body)).toEqual(['/checkouts/up', '/checkouts/last'])
    for (const name of ['upgrade', 'http2-settings'])
      expect(gateway.received[0]?.headers).not.toHaveProperty(name)
    expect(gateway.received[0]?.headers.connection).not.toMatch(/upgrade/i)
  })

  // Node drops what comes in one piece behind such a request. Here that is the head of a POST, and its body
  // would be read as the next request.
  it.each([
    ['as the first request', ''],
    ['as the second request', request('GET', '/checkouts/first')],
    ['with a body', ''],
  ])('ends the connection if the bytes after it may be lost, %s', async (name, before) => {
    const body = name === 'with a body' ? ['Content-Length: 2\r\n', '{}'] : ['', '']
    const hidden = `POST /checkouts/hidden HTTP/1.1\r\nHost: a\r\nContent-Length: ${smuggled.length}\r\n\r\n`
    const { answers } = await attack(gateway.url, [
      `${before}${request('GET', '/checkouts/up', upgrades[1][1] + body[0], body[1])}${hidden}`,
      100,
      smuggled,
    ])
    expect(answers.at(-1)?.body).toBe('/checkouts/up')
    expect(answers.at(-1)?.headers.get('connection')).toEqual(['close'])
    expect(seen().at(-1)).toBe('GET /checkouts/up')
  })

  // A byte for each blank that is missing, as many as the hidden head has.
  it('ends the connection when the blanks missing in its head leave room for another', async () => {
    const hidden = `POST /checkouts/hidden HTTP/1.1\r\nHost: a\r\nContent-Length: ${smuggled.length}\r\n\r\n`
    const blankless = ['Host:a', 'Connection:Upgrade', 'Upgrade:h2c']
    while (blankless.length < hidden.length) blankless.push(`x-${blankless.length}:0`)
    const { answers } = await attack(gateway.url, [
      `GET /checkouts/up HTTP/1.1\r\n${blankless.join('\r\n')}\r\n\r\n${hidden}`,
      100,
      smuggled,
    ])
    expect(answers.map(({ headers }) => headers.get('connection'))).toEqual([['close']])
    expect(seen()).toEqual(['GET /checkouts/up'])
  })
})

// A client that waits for a 100 that never comes sends no body; one that is asked for a body which is then
// refused has sent it for nothing.
describe('Expect: 100-continue is answered here, any other expectation gets 417: an expectation', () => {
  it('of 100-continue is met before the body is sent', async () => {
    const { answers, informational } = await attack(gateway.url, [
      request('POST', '/checkouts/c', 'Expect: 100-continue\r\nContent-Length: 5\r\nConnection: close\r\n'),
      (socket) => new Promise((resolve) => socket.once('data', resolve)),
      'hello',
    ])
    expect(informational).toEqual([100])
    expect(answers.map((answer) => answer.status)).toEqual([200])
    expect(gateway.received[0]?.body.toString()).toBe('hello')
    expect(gateway.received[0]?.headers).not.toHaveProperty('expect')
  })

  it.each(['200-ok', 'more', '100-continued'])('of anything else (%s) is 417', async (expectation) => {
    const headers = `Expect: ${expectation}\r\nContent-Length: 5\r\n`
    expectRefusal(
      await attack(gateway.url, request('POST', '/checkouts', headers, 'hello') + smuggled),
      417,
      'expectation-failed',
    )
    expect(seen()).toEqual([])
  })

  it('is not met for a head that is refused', async () => {
    const headers = 'Host: other\r\nExpect: 100-continue\r\nContent-Length: 5\r\n'
    const outcome = await attack(gateway.url, request('POST', '/checkouts', headers, 'hello') + smuggled)
    expect(outcome.informational).toEqual([])
    expectRefusal(outcome, 400, 'malformed-request')
  })
})

// Closing after each wrong path costs a handshake for every typing error.
it.each([
  ['GET', ''],
  ['HEAD', ''],
  ['POST', 'hello'],
])('keeps the connection after a 404 to a %s once its body is read', async (method, body) => {
  const { answers } = await attack(
    gateway.url,
    request(method, '/nope', body === '' ? '' : `Content-Length: ${body.length}\r\n`, body) + last,
    { methods: [method] },
  )
  expect(answers.map((answer) => answer.status)).toEqual([404, 200])
  if (method !== 'HEAD') expectProblem(answers[0], 404, 'not-found')
  expect(seen()).toEqual(['GET /checkouts/last'])
})
