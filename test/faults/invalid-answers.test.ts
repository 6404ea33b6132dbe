import { describe, expect, test } from 'vitest'
import { expectProblem, proxyStatus } from '../support/clients/problems.ts'
import { RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import { gatewayTo, pause, rawUpstream } from '../support/gateways/between.ts'
import { escapedErrors } from '../support/machine/escaped-errors.ts'

const get = 'GET /checkouts HTTP/1.1\r\nHost: g\r\n\r\n'
const good = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

describe('an answer that is not valid HTTP', () => {
  test.each([
    ['is not HTTP at all', 'hello there\r\n\r\n'],
    ['has a status of four digits', 'HTTP/1.1 2000 OK\r\n\r\n'],
    ['has no status', 'HTTP/1.1 OK\r\n\r\n'],
    ['is of another version', 'HTTP/3.0 200 OK\r\nContent-Length: 2\r\n\r\nok'],
    ['has a control character in a header', 'HTTP/1.1 200 OK\r\nX-A: a\x01b\r\nContent-Length: 2\r\n\r\nok'],
    ['has a NUL in a header', 'HTTP/1.1 200 OK\r\nX-A: a\x00b\r\nContent-Length: 2\r\n\r\nok'],
    ['has a bare CR in a header', 'HTTP/1.1 200 OK\r\nX-A: a\rX-B: b\r\nContent-Length: 2\r\n\r\nok'],
    ['has a space in a header name', 'HTTP/1.1 200 OK\r\nX A: 1\r\nContent-Length: 2\r\n\r\nok'],
    ['has a header without a name', 'HTTP/1.1 200 OK\r\n: 1\r\nContent-Length: 2\r\n\r\nok'],
    [
      'has a length and chunks',
      'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
    ],
    ['has two lengths that differ', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!'],
    ['has a length that is not a number', 'HTTP/1.1 200 OK\r\nContent-Length: 2x\r\n\r\nok'],
    ['has a negative length', 'HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok'],
    [
      'has a coding that was not requested',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
    ],
    ['has a control character in its reason', 'HTTP/1.1 200 O\x01K\r\nContent-Length: 2\r\n\r\nok'],
    [
      'switches protocols unasked',
      'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n',
    ],
    [
      'has a head of more than 64 KiB',
      `HTTP/1.1 200 OK\r\nX-Big: ${'a'.repeat(70_000)}\r\nContent-Length: 2\r\n\r\nok`,
    ],
    [
      'has a head of more than 64 KiB in many headers',
      `HTTP/1.1 200 OK\r\n${'X-Big: aaaaaaaaaaaaaaaa\r\n'.repeat(4_000)}\r\nok`,
    ],
  ])('because it %s: a 502 with Proxy-Status, and the gateway keeps running', async (_what, bytes) => {
    const escaped = escapedErrors()
    let answers = 0
    const upstream = await rawUpstream((socket) => {
      answers += 1
      socket.end(Buffer.from(answers === 1 ? bytes : good, 'latin1'))
    })
    const gateway = await gatewayTo(upstream.url)
    const answer = await rawExchange(gateway.url, get)
    expectProblem(answer, 502, 'upstream-invalid')
    expect(proxyStatus(answer)).toBe('quotegate; error=http_protocol_error')
    expect(answer.informational).toEqual([])
    expect((await rawExchange(gateway.url, get)).body.toString()).toBe('ok')
    await pause(50)
    expect(escaped).toEqual([])
  })

  test.each([
    ['has a broken chunk', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nzz\r\n'],
    [
      'has a chunk longer than it says',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokay\r\n0\r\n\r\n',
    ],
  ])('because it %s: the client cannot mistake it for a complete answer', async (_what, bytes) => {
    const upstream = await rawUpstream((socket) => socket.write(bytes))
    const gateway = await gatewayTo(upstream.url)
    const client = new RawConnection(gateway.url)
    client.write(get)
    await client.closed()
    expect((await client.answer()).whole).toBe(false)
  })
})

describe('an answer that is valid, if odd', () => {
  test('is not relayed after an unrequested 100 Continue, which undici treats as the end', async () => {
    const upstream = await rawUpstream((socket) => socket.end(`HTTP/1.1 100 Continue\r\n\r\n${good}`))
    const gateway = await gatewayTo(upstream.url)
    const answer = await rawExchange(gateway.url, get)
    expectProblem(answer, 502, 'upstream-invalid')
    expect(answer.informational).toEqual([])
  })

  test('ends at its stated length, and the bytes after it reach no client', async () => {
    const escaped = escapedErrors()
    const upstream = await rawUpstream((socket) =>
      socket.write(`${good}HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray`),
    )
    const gateway = await gatewayTo(upstream.url)
    const client = new RawConnection(gateway.url)
    client.write(get)
    expect((await client.answer()).body.toString()).toBe('ok')
    await pause(100)
    expect(client.received.toString()).toBe('')
    expect(escaped).toEqual([])
  })

  test('has a head of just under 64 KiB, and all of it is relayed', async () => {
    const value = 'a'.repeat(60_000)
    const upstream = await rawUpstream((socket) =>
      socket.end(`HTTP/1.1 200 OK\r\nX-Big: ${value}\r\nContent-Length: 2\r\n\r\nok`),
    )
    const gateway = await gatewayTo(upstream.url)
    expect((await rawExchange(gateway.url, get)).rawHeaders).toContain(value)
  })

  test('comes one byte at a time and is put together again', async () => {
    const upstream = await rawUpstream(async (socket) => {
      for (const byte of 'HTTP/1.1 201 \r\nX-A: 1\r\nContent-Length: 2\r\n\r\nok') {
        socket.write(byte)
        await pause(1)
      }
    })
    const gateway = await gatewayTo(upstream.url)
    const answer = await rawExchange(gateway.url, get)
    // Not its reason phrase, of which undici keeps what came in the last piece.
    expect([answer.status, answer.body.toString()]).toEqual([201, 'ok'])
    expect(answer.rawHeaders).toContain('X-A')
  })
})
