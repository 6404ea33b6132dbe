import { describe, expect, it } from 'vitest'
import {
  attack,
  attackedGateway,
  expectProblem,
  expectRefusal,
  type Outcome,
  smuggled,
} from '../support/clients/attack.ts'
import { pause } from '../support/gateways/between.ts'

const gateway = attackedGateway()

const headOf = (headers: string, target = '/checkouts/limits') =>
  `GET ${target} HTTP/1.1\r\nHost: gateway\r\n${headers}\r\n`
const headersOf = (count: number) =>
  Array.from({ length: count }, (_, index) => `X-${index}: v\r\n`).join('')
const inPieces = (count: number, size: number) =>
  Array.from({ length: count }, () => ['a'.repeat(size), 1]).flat()

function expectUnseen(outcome: Outcome, status: number, slug: string): void {
  expectRefusal(outcome, status, slug)
  expect(gateway.received).toEqual([])
}

// Node drops headers past a number without a word. The last one is often Authorization: the request then goes
// on as another caller's, or without an owner.
describe('a request head has at most 200 headers', () => {
  it('brings every one of 200 to the upstream, the last Authorization too', async () => {
    // Host, Connection and Authorization are three of them.
    await attack(
      gateway.url,
      headOf(`${headersOf(197)}Connection: close\r\nAuthorization: last\r\n`),
    )
    expect(gateway.received[0]?.headers).toMatchObject({
      'x-0': 'v',
      'x-196': 'v',
      authorization: 'last',
    })
  })

  it.each([200, 2_000])('refuses Host and %d more with 431', async (count) =>
    expectUnseen(
      await attack(gateway.url, headOf(headersOf(count)) + smuggled),
      431,
      'head-too-large',
    ),
  )
})

// An unlimited head is memory for the asking; one that is cut is another request.
describe('a request head has at most 16 KiB', () => {
  // Cookies and signed tokens of 8 KiB and more are a fact; nginx's default of 8k is a common complaint.
  it('passes a value of 9 KB whole', async () => {
    const value = 'a'.repeat(9_000)
    await attack(gateway.url, headOf(`X-A: ${value}\r\nConnection: close\r\n`))
    expect(gateway.received[0]?.headers['x-a']).toBe(value)
  })

  // In pieces the parser only shows the last one, which may look like anything.
  it.each([
    ['a value of 16 KiB', [headOf(`X-A: ${'a'.repeat(16_384)}\r\n`) + smuggled]],
    ['a value of 300,000 bytes', [headOf(`X-A: ${'a'.repeat(300_000)}\r\n`) + smuggled]],
    [
      'many medium headers',
      [headOf(`X-A: ${'a'.repeat(180)}\r\n`.repeat(100)) + smuggled],
    ],
    [
      'a value in many pieces',
      ['GET /checkouts HTTP/1.1\r\nHost: a\r\nX-A: ', 20, ...inPieces(40, 2_000)],
    ],
  ])('refuses %s with 431', async (_what, steps) => {
    const { answers } = await attack(gateway.url, steps)
    expect(answers).toHaveLength(1)
    expectProblem(answers[0], 431, 'head-too-large')
    expect(gateway.received).toEqual([])
  })
})

// A target that is refused as a large head sends its reader to the wrong place: it was the query.
describe('a target has at most 8 KiB', () => {
  it('passes 8192 bytes', async () => {
    const target = '/checkouts/'.padEnd(8_192, 'a')
    await attack(gateway.url, headOf('Connection: close\r\n', target))
    expect(gateway.received.map((request) => request.target)).toEqual([target])
  })

  it.each([8_193, 17_408, 100_000])('refuses %d bytes with 414', async (size) => {
    const outcome = await attack(
      gateway.url,
      headOf('', '/checkouts/'.padEnd(size, 'a')) + smuggled,
    )
    expectUnseen(outcome, 414, 'target-too-long')
  })

  it('refuses it with 414 on a kept connection and in pieces too', async () => {
    const { answers } = await attack(gateway.url, [
      headOf('', '/checkouts/first'),
      (socket) => new Promise((resolve) => socket.once('data', resolve)),
      'GET /checkouts/',
      ...inPieces(9, 1_000),
      ' HTTP/1.1\r\nHost: a\r\n\r\n',
    ])
    expect(answers.map(({ status }) => status)).toEqual([200, 414])
  })
})

// Closing with bytes unread resets the connection, and a reset discards an answer that is still on its way.
it.each([
  ['a head that is too large', headOf(`X-A: ${'a'.repeat(50_000)}\r\n`)],
  [
    'a bad target',
    'POST /checkouts/.. HTTP/1.1\r\nHost: a\r\nContent-Length: 8388608\r\n\r\n',
  ],
  [
    'two hosts',
    'POST /checkouts HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 8388608\r\n\r\n',
  ],
  [
    'an unknown path',
    'POST /nope HTTP/1.1\r\nHost: a\r\nContent-Length: 8388608\r\n\r\n',
  ],
  [
    'such a path, chunked',
    'POST /nope HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n800000\r\n',
  ],
])('gives the sender of 8 MiB behind %s its whole answer', async (_name, head) => {
  const half = Buffer.alloc(4_194_304, 97)
  const outcome = await attack(gateway.url, [head, half, 50, half, pause.bind(null, 1)])
  expect(outcome.answers.map((answer) => answer.status)).toEqual([
    expect.toBeOneOf([400, 404, 431]),
  ])
  expect(outcome.error).toBeUndefined()
  expect(gateway.received).toEqual([])
})
