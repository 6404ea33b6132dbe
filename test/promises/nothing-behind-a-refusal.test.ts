import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import {
  type AttackedGateway,
  after,
  attack,
  expectProblem,
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

const get = (target: string, headers = '') => `GET ${target} HTTP/1.1\r\nHost: gateway\r\n${headers}\r\n`
const seen = () => gateway.received.map(({ method, target }) => `${method} ${target}`)

// Answers carry no name: a client that gets them in another order takes one customer's for the other's.
it('answers pipelined requests in their order, also slow ones and refusals', async () => {
  const { answers } = await attack(
    gateway.url,
    get('/checkouts/1?delay=120') +
      get('/nope') +
      get('/checkouts/2?delay=40') +
      get('/checkouts/3', 'Connection: close\r\n'),
  )
  expect(answers.map((answer) => answer.status)).toEqual([200, 404, 200, 200])
  expect(answers.filter((answer) => answer.status === 200).map((answer) => answer.body)).toEqual([
    '/checkouts/1?delay=120',
    '/checkouts/2?delay=40',
    '/checkouts/3',
  ])
})

// A GET behind a POST means to see what the POST did (RFC 9112 9.3.2). Sent on side by side, over two
// connections to the upstream, either may come first.
it('sends a pipelined request on only when the one before it has been answered', async () => {
  let seenAtFirstAnswer: string[] = []
  await attack(gateway.url, [
    'POST /checkouts/1?delay=150 HTTP/1.1\r\nHost: gateway\r\nContent-Length: 2\r\n\r\n{}',
    get('/checkouts/2', 'Connection: close\r\n'),
    (socket) =>
      new Promise<void>((resolve) => {
        socket.once('data', () => {
          seenAtFirstAnswer = seen()
          resolve()
        })
        void after(100).then(() => expect(seen()).toEqual(['POST /checkouts/1?delay=150']))
      }),
  ])
  expect(seenAtFirstAnswer[0]).toBe('POST /checkouts/1?delay=150')
  expect(seen()).toEqual(['POST /checkouts/1?delay=150', 'GET /checkouts/2'])
})

// Requests cost more memory than their bytes, and one connection can send thousands before the first answer.
it('answers two thousand requests sent at once, each of them once and in order', async () => {
  const targets = Array.from({ length: 2_000 }, (_, index) => `/checkouts/${index}`)
  const { answers } = await attack(
    gateway.url,
    targets.map((target) => get(target)).join('') + get('/checkouts/last', 'Connection: close\r\n'),
  )
  expect(answers.map((answer) => answer.body)).toEqual([...targets, '/checkouts/last'])
  expect(gateway.received.length).toBe(2_001)
})

// What follows a malformed request may be the rest of its body.
describe('a request that two servers could read differently is refused, and nothing behind it is served', () => {
  it.each([
    ['two hosts', 'GET /checkouts/x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n'],
    [
      'two lengths',
      'POST /checkouts/x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab',
    ],
    ['a dot segment', get('/checkouts/..')],
    ['an expectation that is not met', get('/checkouts/x', 'Expect: more\r\n')],
    ['201 headers', get('/checkouts/x', 'X-A: b\r\n'.repeat(201))],
  ])('%s', async (_name, refused) => {
    const connect = 'CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n'
    const expects = get('/checkouts/x', 'Expect: other\r\n')
    for (const behind of [smuggled, smuggled + smuggled, connect, expects, 'nonsense\r\n\r\n']) {
      const { answers, rest } = await attack(gateway.url, refused + behind)
      expect(answers.length).toBe(1)
      expect(rest).toBe('')
      expect(seen()).toEqual([])
    }
  })
})

// The client matches answers to requests by counting: a refusal that overtakes an answer becomes that answer.
describe('a malformed request behind a valid one', () => {
  it('is refused after the answer to the good one, and never instead of it', async () => {
    const { answers } = await attack(
      gateway.url,
      `${get('/checkouts/1?delay=100')}nonsense\r\n\r\n${smuggled}`,
    )
    expect(answers.map((answer) => answer.status)).toEqual([200, 400])
    expect(answers[0]?.body).toBe('/checkouts/1?delay=100')
    expectProblem(answers[1], 400, 'malformed-request')
    expect(seen()).toEqual(['GET /checkouts/1?delay=100'])
  })

  it('does not affect the answers to valid requests', async () => {
    const good = ['/checkouts/1?delay=50', '/checkouts/2', '/checkouts/3?delay=50']
    const { answers } = await attack(gateway.url, `${good.map((target) => get(target)).join('')}\0\0`)
    expect(answers.map((answer) => answer.status)).toEqual([200, 200, 200, 400])
    expect(answers.slice(0, 3).map((answer) => answer.body)).toEqual(good)
  })

  it('is refused in its turn when only its body is broken', async () => {
    const broken = 'POST /checkouts/3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n'
    const { answers } = await attack(
      gateway.url,
      get('/checkouts/1?delay=50') + get('/checkouts/2') + broken + smuggled,
    )
    expect(answers.map((answer) => answer.status)).toEqual([200, 200, 400])
    expectProblem(answers[2], 400, 'malformed-request')
    expect(seen()).toEqual(['GET /checkouts/1?delay=50', 'GET /checkouts/2'])
  })

  it('is refused in its turn when it has two hosts, and nothing behind it is served', async () => {
    const bad = get('/checkouts/2', 'Host: other\r\n')
    const { answers } = await attack(
      gateway.url,
      get('/checkouts/1?delay=50') + bad + smuggled + smuggled + get('/checkouts/..'),
    )
    expect(answers.map((answer) => answer.status)).toEqual([200, 400])
    await after(50)
    expect(seen()).toEqual(['GET /checkouts/1?delay=50'])
  })

  it('is refused in its turn when it is too large', async () => {
    const large = get('/checkouts/2', 'X-A: '.padEnd(60_000, 'a'))
    const { answers } = await attack(gateway.url, get('/checkouts/1?delay=50') + large)
    expect(answers.map((answer) => answer.status)).toEqual([200, 431])
  })
})

// A stray line end or a second request behind "Connection: close" is common, and cost the first its answer.
it.each([
  ['a request that says close', get('/checkouts/1?delay=50', 'Connection: close\r\n')],
  ['a request of HTTP/1.0', 'GET /checkouts/1?delay=50 HTTP/1.0\r\n\r\n'],
])('answers %s although more bytes follow, and serves none of them', async (_name, bytes) => {
  const { answers } = await attack(gateway.url, bytes + smuggled)
  expect(answers.map((answer) => answer.body)).toEqual(['/checkouts/1?delay=50'])
  expect(seen()).toEqual(['GET /checkouts/1?delay=50'])
})

// Node takes its listeners off the socket of a CONNECT at once, the answers in front of it or not.
it('never answers a CONNECT in place of the request in front of it', async () => {
  const connect = 'CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n'
  const { answers } = await attack(gateway.url, get('/checkouts/1?delay=50') + connect + smuggled)
  expect(answers).toEqual([])
  expect(seen().join()).not.toContain('smuggled')
})
