import { describe, expect, it } from 'vitest'
import { attack, attackedGateway, expectProblem } from '../support/clients/attack.ts'
import { gatewayTo, rawUpstream } from '../support/gateways/between.ts'

const attacked = attackedGateway()

const get = (target: string, headers = '') =>
  `GET ${target} HTTP/1.1\r\nHost: gateway\r\n${headers}Connection: close\r\n\r\n`

// A CR or LF from a header value, written into an answer, ends it early: the rest is an answer that the
// attacker wrote, for the next request on that connection.
describe('an answer cannot be split', () => {
  it.each([
    'OK\r\nX: y\rSet-Cookie: a=b\r\n',
    'OK\r\nX: y\nSet-Cookie: a=b\r\n',
    'OK\r\nX: y\r\n Set-Cookie: a=b\r\n',
    'OK\r\nX: y\0Set-Cookie: a=b\r\n',
    'OK\r\nX\rSet-Cookie: a=b\r\n',
    'OK\rSet-Cookie: a=b\r\n',
  ])('by an upstream that sends %j', async (reasonAndLines) => {
    const upstream = await rawUpstream((socket) => {
      socket.end(`HTTP/1.1 200 ${reasonAndLines}Content-Length: 2\r\n\r\nok`, 'latin1')
    })
    const gateway = await gatewayTo(upstream.url)
    const { answers, rest } = await attack(gateway.url, get('/checkouts/x'))
    expect(answers.length).toBe(1)
    expect(rest).toBe('')
    // Either the whole answer is refused, or the odd line end has become part of one clean value.
    expect(answers[0]?.headers.has('set-cookie')).toBe(false)
    if (answers[0]?.status !== 200) expectProblem(answers[0], 502, 'upstream-invalid')
  })

  // The one value of a request that is shown in answers is the request id.
  it('by a request id, which is replaced unless it is a plain word', async () => {
    for (const id of ['a b', 'a"b', 'a\x80b', 'a'.repeat(200), '<script>', 'a,b']) {
      const { answers } = await attack(
        attacked.url,
        get('/nope', `X-Request-Id: ${id}\r\n`),
      )
      expectProblem(answers[0], 404, 'not-found')
      expect(answers[0]?.headers.get('x-request-id')).toEqual([
        expect.stringMatching(/^[0-9a-f-]{36}$/),
      ])
    }
  })
})
