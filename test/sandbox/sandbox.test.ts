import { connect } from 'node:net'
import { describe, expect, test } from 'vitest'
import type { Sandbox } from '../../src/sandbox/sandbox.ts'
import { ask, askForQuote, ManualClock, pay, startedSandbox, startMs } from './support.ts'

/** Sends bytes as they are and resolves to everything that comes back. */
function sendRaw(sandbox: Sandbox, bytes: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(Number(new URL(sandbox.url).port), '127.0.0.1', () => socket.write(bytes))
    let received = ''
    socket.setEncoding('latin1').on('data', (text) => {
      received += text
    })
    socket.on('error', () => {})
    socket.on('close', () => resolve(received))
  })
}

describe('recorded requests', () => {
  test('hold what was sent, byte for byte, in order', async () => {
    const sandbox = await startedSandbox({ clock: new ManualClock() })
    await ask(sandbox, 'GET', '/sandbox/faults')
    await askForQuote(sandbox, '/v3/pairs/ETH_USDC/quotes?amount=0.10&x=%20')
    await pay(sandbox, 'POST', '/checkouts', '{"amount": 0.1000000000000000055}')
    const [quote, checkout] = sandbox.requests
    expect(sandbox.requests).toHaveLength(2)
    expect(quote).toMatchObject({ method: 'GET', target: '/v3/pairs/ETH_USDC/quotes?amount=0.10&x=%20' })
    expect(quote?.rawHeaders).toEqual(expect.arrayContaining(['App-Name', 'tests']))
    expect(quote?.receivedAtMs).toBe(startMs)
    expect(checkout?.body.toString()).toBe('{"amount": 0.1000000000000000055}')
  })

  test('are forgotten past the bound, the oldest first', async () => {
    const sandbox = await startedSandbox({ recordRequests: 2 })
    for (const amount of [1, 2, 3]) await askForQuote(sandbox, `/v3/pairs/ETH_USDC/quotes?amount=${amount}`)
    expect(sandbox.requests.map(({ target }) => target.at(-1))).toEqual(['2', '3'])
  })

  test('are forgotten past 64 MiB of bodies', async () => {
    const sandbox = await startedSandbox()
    const body = 'x'.repeat(1024 * 1024)
    for (let n = 0; n < 70; n += 1) await pay(sandbox, 'POST', '/checkouts', body)
    expect(sandbox.requests).toHaveLength(64)
  })

  test('hold the request of a client that left before its end', async () => {
    const sandbox = await startedSandbox()
    const socket = connect(Number(new URL(sandbox.url).port), '127.0.0.1')
    socket.write('POST /checkouts HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf')
    await expect.poll(() => sandbox.requests.length).toBe(1)
    socket.destroy()
    await expect.poll(() => sandbox.requests[0]?.body.toString()).toBe('half')
  })
})

describe('for any request', () => {
  test.each([
    ['an unknown path', 'GET /nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n', 404],
    ['a broken escape', 'GET /v3/pairs/%zz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n', 400],
    ['a target with no readable host', 'GET http://[ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n', 400],
    ['an asterisk', 'OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n', 404],
    ['no Host', 'GET /v3/pairs HTTP/1.1\r\nConnection: close\r\n\r\n', 200],
    [
      'an unknown expectation',
      'GET /v3/pairs HTTP/1.1\r\nHost: a\r\nExpect: tea\r\nConnection: close\r\n\r\n',
      200,
    ],
    ['a wrong method', 'DELETE /v3/pairs HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n', 404],
    ['what is not HTTP', 'hello\r\n\r\n', 400],
    ['a huge header', `GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
  ])('the sandbox answers %s in JSON, with a Date and its own name', async (_what, bytes, status) => {
    const sandbox = await startedSandbox({ clock: new ManualClock() })
    const received = await sendRaw(sandbox, bytes)
    expect(received).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
    expect(received).toContain('\r\nSandbox: quotegate\r\n')
    expect(received).toContain(`\r\nDate: ${new Date(startMs).toUTCString()}\r\n`)
    expect(received).toContain('\r\nContent-Type: application/json')
    expect((await askForQuote(sandbox)).status).toBe(200)
  })
})
