import { describe, expect, it } from 'vitest'
import {
  attack,
  attackedGateway,
  expectProblem,
  smuggled,
} from '../support/clients/attack.ts'
import { pause } from '../support/gateways/between.ts'

// What waits in a pipeline must not be late only because the machine is slow.
const gateway = attackedGateway({ headTimeoutMs: 120_000 })

const get = (target: string, headers = '') =>
  `GET ${target} HTTP/1.1\r\nHost: gateway\r\n${headers}\r\n`
const slow = '/checkouts/1?delay=50'
const connect = 'CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n'
const twoHosts = get('/checkouts/x', 'Host: other\r\n')
const seen = () => gateway.received.map(({ method, target }) => `${method} ${target}`)

// What follows a malformed request may be the rest of its body.
describe('a request that two servers could read differently is refused, and nothing behind it is served', () => {
  it.each([
    ['two hosts', twoHosts],
    [
      'two lengths',
      'POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab',
    ],
    ['a dot segment', get('/checkouts/..')],
    ['an expectation that is not met', get('/checkouts/x', 'Expect: more\r\n')],
    ['201 headers', get('/checkouts/x', 'X-A: b\r\n'.repeat(201))],
  ])('%s', async (_name, refused) => {
    const expects = get('/checkouts/x', 'Expect: other\r\n')
    for (const behind of [
      smuggled,
      smuggled + smuggled,
      connect,
      expects,
      'nonsense\r\n\r\n',
    ]) {
      const { answers, rest } = await attack(gateway.url, refused + behind)
      expect([answers.length, rest, seen()]).toEqual([1, '', []])
    }
  })
})

// The client matches answers to requests by counting: a refusal that overtakes an answer becomes that answer.
describe('behind a valid request, in its turn and never instead of an answer, is refused', () => {
  it.each([
    ['what is not a request', `nonsense\r\n\r\n${smuggled}`, 400],
    ['a stray byte', '\0\0', 400],
    [
      'one with a broken body',
      'POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n',
      400,
    ],
    ['one with two hosts', twoHosts + smuggled + smuggled + get('/checkouts/..'), 400],
    ['one that is too large', get('/checkouts/2', 'X-A: '.padEnd(60_000, 'a')), 431],
  ])('%s', async (_what, bytes, status) => {
    const valid = [slow, '/checkouts/2', '/checkouts/3?delay=50']
    const outcome = await attack(
      gateway.url,
      valid.map((target) => get(target)).join('') + bytes,
    )
    expect(outcome.answers.slice(0, -1).map(({ body }) => body)).toEqual(valid)
    expectProblem(
      outcome.answers.at(-1),
      status,
      status === 400 ? 'malformed-request' : 'head-too-large',
    )
    await pause(50)
    expect(seen()).toEqual(valid.map((target) => `GET ${target}`))
  })
})

// A stray line end or a second request behind "Connection: close" is common, and cost the first its answer.
it.each([
  ['a request that says close', get(slow, 'Connection: close\r\n')],
  ['a request of HTTP/1.0', `GET ${slow} HTTP/1.0\r\n\r\n`],
])(
  '%s is answered although more bytes follow, and none of them is served',
  async (_name, bytes) => {
    const { answers } = await attack(gateway.url, bytes + smuggled)
    expect(answers.map((answer) => answer.body)).toEqual([slow])
    expect(seen()).toEqual([`GET ${slow}`])
  },
)

// Requests cost more memory than their bytes, and one connection can send thousands before the first answer. Answers
// carry no name: a client that gets them in another order takes one customer's for the other's.
it.each([
  ['two thousand', Array.from({ length: 2_000 }, (_, index) => `/checkouts/${index}`)],
  [
    'slow ones and refusals among',
    [slow, '/nope', '/checkouts/2?delay=20', '/checkouts/3'],
  ],
])(
  '%s pipelined requests are answered, each of them once and in order',
  async (_how, targets) => {
    const requests = targets.map((target) => get(target)).join('')
    const { answers } = await attack(
      gateway.url,
      requests + get('/checkouts/last', 'Connection: close\r\n'),
    )
    const all = [...targets, '/checkouts/last']
    expect(answers.map(({ status, body }) => (status === 404 ? '/nope' : body))).toEqual(
      all,
    )
    expect(gateway.received.map(({ target }) => target)).toEqual(
      all.filter((target) => target !== '/nope'),
    )
  },
)

// A GET behind a POST means to see what the POST did (RFC 9112 9.3.2). Sent on side by side, over two
// connections to the upstream, either may come first.
it('a pipelined request is sent on only when the one before it has been answered', async () => {
  const post =
    'POST /checkouts/1?delay=300 HTTP/1.1\r\nHost: gateway\r\nContent-Length: 2\r\n\r\n{}'
  const attacked = attack(
    gateway.url,
    post + get('/checkouts/2', 'Connection: close\r\n'),
  )
  await expect.poll(() => seen().length).toBe(1)
  await pause(100)
  expect(seen()).toEqual(['POST /checkouts/1?delay=300'])
  await attacked
  expect(seen()).toEqual(['POST /checkouts/1?delay=300', 'GET /checkouts/2'])
})

// Node takes its listeners off the socket of a CONNECT at once, the answers in front of it or not.
it('a CONNECT is never answered in place of the request in front of it', async () => {
  const { answers } = await attack(gateway.url, get(slow) + connect + smuggled)
  expect(answers).toEqual([])
  expect(seen().join()).not.toContain('smuggled')
})
