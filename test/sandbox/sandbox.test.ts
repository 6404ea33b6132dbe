import { describe, expect, test } from 'vitest'
import {
  RawConnection,
  rawExchange,
  valuesOf,
} from '../support/clients/raw-connection.ts'
import { stage, startMs } from './support.ts'

describe('recorded requests', () => {
  test('hold what was sent, byte for byte, in order, and nothing of the controls', async () => {
    const { sandbox, get, quote, pay } = await stage()
    await get('/sandbox/faults')
    await quote('amount=0.10&x=%20')
    await pay('POST', '/checkouts', '{"amount": 0.1000000000000000055}')
    const [asked, checkout, ...more] = sandbox.requests
    expect(more).toEqual([])
    expect(asked).toMatchObject({
      method: 'GET',
      target: '/v3/pairs/ETH_USDC/quotes?amount=0.10&x=%20',
    })
    expect(asked?.rawHeaders).toEqual(expect.arrayContaining(['App-Name', 'tests']))
    expect(asked?.receivedAtMs).toBe(startMs)
    expect(checkout?.body.toString()).toBe('{"amount": 0.1000000000000000055}')
  })

  test('are forgotten past the bound, the oldest first', async () => {
    const { sandbox, quote } = await stage({ recordRequests: 2 })
    for (const amount of [1, 2, 3]) await quote(`amount=${amount}`)
    expect(sandbox.requests.map(({ target }) => target.at(-1))).toEqual(['2', '3'])
  })

  test('are forgotten past 64 MiB of bodies', async () => {
    const { sandbox, pay } = await stage()
    const body = 'x'.repeat(1024 * 1024)
    for (let n = 0; n < 70; n += 1) await pay('POST', '/checkouts', body)
    expect(sandbox.requests).toHaveLength(64)
  })

  test('hold the request of a caller that left before its end', async () => {
    const { sandbox } = await stage()
    const half = 'POST /checkouts HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf'
    const { socket } = new RawConnection(sandbox.url, half)
    await expect.poll(() => sandbox.requests.length).toBe(1)
    socket.destroy()
    await expect.poll(() => sandbox.requests[0]?.body.toString()).toBe('half')
  })
})

describe('for any request', () => {
  test.each([
    ['an unknown path', 'GET /nothing HTTP/1.1\r\nHost: a', 404],
    ['a broken escape', 'GET /v3/pairs/%zz HTTP/1.1\r\nHost: a', 400],
    ['a target with no readable host', 'GET http://[ HTTP/1.1\r\nHost: a', 400],
    ['an asterisk', 'OPTIONS * HTTP/1.1\r\nHost: a', 404],
    ['no Host', 'GET /v3/pairs HTTP/1.1\r\nX: 1', 200],
    ['an unknown expectation', 'GET /v3/pairs HTTP/1.1\r\nHost: a\r\nExpect: tea', 200],
    ['a wrong method', 'DELETE /v3/pairs HTTP/1.1\r\nHost: a', 404],
    ['what is not HTTP', 'hello', 400],
    ['a huge header', `GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(20_000)}`, 431],
  ])(
    'the sandbox answers %s in JSON, with a Date and its own name',
    async (_what, head, expected) => {
      const { sandbox, quote } = await stage()
      const { status, rawHeaders, body } = await rawExchange(
        sandbox.url,
        `${head}\r\n\r\n`,
      )
      expect(status).toBe(expected)
      expect(() => JSON.parse(body.toString())).not.toThrow()
      const fields = ['sandbox', 'date', 'content-type'].map((name) =>
        valuesOf(rawHeaders, name),
      )
      expect(fields).toEqual([
        ['quotegate'],
        [new Date(startMs).toUTCString()],
        [expect.stringMatching('json')],
      ])
      expect((await quote()).status).toBe(200)
    },
  )
})
