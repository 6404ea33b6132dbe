import { describe, expect, it } from 'vitest'
import {
  attack,
  attackedGateway,
  expectProblem,
  expectRefusal,
  type Step,
} from '../support/clients/attack.ts'

const headTimeoutMs = 1_000

const gateway = attackedGateway({ headTimeoutMs }, { atOnce: true })

const get = (target: string, headers = '') =>
  `GET ${target} HTTP/1.1\r\nHost: gateway\r\n${headers}\r\n`
const answered: Step = (socket) => new Promise((resolve) => socket.once('data', resolve))
/** Far longer than any client may take, in pieces that are never far apart; attack() stops at the other's end. */
const trickle = (bytes: string): Step[] =>
  Array.from({ length: 400 }, () => [bytes, 50]).flat()

// Slowloris: a byte now and then keeps an inactivity timer from ever running out, and the connection with it.
describe.concurrent('a request head that trickles in', () => {
  it.each<[string, Step[]]>([
    ['nothing at all', []],
    ['an endless target', ['GET /checkouts/', ...trickle('a')]],
    [
      'endless headers',
      ['GET /checkouts HTTP/1.1\r\nHost: a\r\n', ...trickle('X-A: b\r\n')],
    ],
    ['empty lines', trickle('\r\n')],
  ])('is answered with 408 at its deadline: %s', async (_name, steps) => {
    const startedAtMs = performance.now()
    const outcome = await attack(gateway.url, steps)
    expectRefusal(outcome, 408, 'request-timeout')
    expect(JSON.parse(outcome.answers[0]?.body ?? '')).toMatchObject({ retryable: true })
    expect(performance.now() - startedAtMs).toBeGreaterThan(headTimeoutMs - 50)
  })

  it('is answered with 408 on a kept connection too', async () => {
    const outcome = await attack(gateway.url, [
      get('/checkouts/1'),
      answered,
      'GET /checkouts/',
      ...trickle('a'),
    ])
    expect(outcome.answers.map((answer) => answer.status)).toEqual([200, 408])
    expectProblem(outcome.answers[1], 408, 'request-timeout')
  })

  // A 408 that overtakes the answer in front of it would be mistaken for that answer.
  it('gets its 408 after the answer that is still pending', async () => {
    const slow = '/checkouts/1?delay=1500'
    const outcome = await attack(gateway.url, [
      `${get(slow)}GET /checkouts/2`,
      ...trickle('a'),
    ])
    expect(outcome.answers.map((answer) => answer.status)).toEqual([200, 408])
    expect(outcome.answers[0]?.body).toBe(slow)
  })
})

// A small body of an answered request is read so that the connection can be kept. Sent a byte at a time it would
// keep it forever.
describe.concurrent('the body of an answered request does not hold its connection forever', () => {
  const patient = attackedGateway({}, { atOnce: true })

  it.each([
    [
      'an unknown path',
      'POST /nope HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n',
      404,
    ],
    [
      'a bad host',
      'POST /checkouts HTTP/1.1\r\nHost: a/b\r\nTransfer-Encoding: chunked\r\n\r\n60000\r\n',
      400,
    ],
    [
      'OPTIONS of everything',
      'OPTIONS * HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n',
      204,
    ],
  ])('%s', async (_name, head, status) => {
    const outcome = await attack(patient.url, [head, ...trickle('a')])
    expect(outcome.answers.map((answer) => answer.status)).toEqual([status])
  })
})
