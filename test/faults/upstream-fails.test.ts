import { describe, expect, test, vi } from 'vitest'
import { expectProblem, proxyStatus } from '../support/clients/problems.ts'
import { counted } from '../support/clients/quotes.ts'
import { RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import {
  gatewayTo,
  gatewayWith,
  pause,
  rawUpstream,
  recordingUpstream,
} from '../support/gateways/between.ts'
import { escapedErrors } from '../support/machine/escaped-errors.ts'
import { keptLog } from '../support/observing/log-lines.ts'

const get = 'GET /checkouts HTTP/1.1\r\nHost: g\r\n\r\n'
const post = 'POST /checkouts HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}'
const good = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const ended = (upstream: string, fault: string) =>
  `quotegate_upstream_requests_total{upstream="${upstream}",outcome="${fault}"}`

async function loggedGateway(url: string, settings: Record<string, number> = {}) {
  const log = await keptLog('info')
  const upstreams = { SWAP_BASE_URL: url, PAYMENTS_BASE_URL: url }
  const gateway = await gatewayWith(
    { ...upstreams, retries: 0, ...settings },
    { logger: log.logger },
  )
  const faults = () =>
    log.lines().flatMap(({ fault }) => (fault === undefined ? [] : [fault]))
  return { gateway, faults }
}

interface Failure {
  status: 502 | 504
  problem: string
  fault: string
  retryable: boolean
}

// On call, one follows a fault from the dashboard to the log and to what a caller got: all have to call it the same.
async function expectFailure(
  {
    url,
    request = get,
    ...settings
  }: { url: string; request?: string; [limit: string]: string | number },
  { status, problem, fault, retryable }: Failure,
) {
  const { gateway, faults } = await loggedGateway(url, settings as Record<string, number>)
  const answer = await rawExchange(gateway.url, request)
  expect(expectProblem(answer, status, problem).retryable).toBe(retryable)
  expect(proxyStatus(answer)).toBe(`quotegate; error=${fault}`)
  await vi.waitFor(() => expect(faults()).toEqual([fault]))
  expect(await counted(gateway, ended('payments', fault))).toBe(1)
  return { answer, gateway }
}

describe('an upstream', () => {
  test('that refuses connections, or whose name does not resolve: no server has seen the request', async () => {
    const unseen = {
      status: 502,
      problem: 'upstream-unreachable',
      retryable: true,
    } as const
    for (const request of [get, post])
      await expectFailure(
        { url: 'http://127.0.0.1:9', request },
        { ...unseen, fault: 'connection_refused' },
      )
    // expectProblem sees that nothing says where it is.
    await expectFailure(
      { url: 'http://localhost.invalid' },
      { ...unseen, fault: 'dns_error' },
    )
  })

  test('that speaks no TLS where https is set, or nothing at all: nothing was sent', async () => {
    const wrong = {
      status: 502,
      problem: 'upstream-unreachable',
      fault: 'tls_protocol_error',
    } as const
    const silent = {
      status: 504,
      problem: 'upstream-timeout',
      fault: 'connection_timeout',
    } as const
    const http = await recordingUpstream(() => {})
    await expectFailure(
      { url: `https://127.0.0.1:${http.port}` },
      { ...wrong, retryable: true },
    )
    const { port } = await rawUpstream(() => {})
    const given = {
      url: `https://127.0.0.1:${port}`,
      request: post,
      connectTimeoutMs: 300,
    }
    await expectFailure(given, { ...silent, retryable: true })
  })

  test.each([
    ['GET', get, true],
    ['POST', post, false],
  ])(
    'that does not answer a %s is a 504 after UPSTREAM_HEADERS_TIMEOUT_MS',
    async (_what, request, retryable) => {
      const { received, url } = await rawUpstream(() => {})
      const failure = {
        status: 504,
        problem: 'upstream-timeout',
        fault: 'http_response_timeout',
      } as const
      await expectFailure(
        { url, request, UPSTREAM_HEADERS_TIMEOUT_MS: 300 },
        { ...failure, retryable },
      )
      expect(received).toHaveLength(1)
    },
  )

  const quote =
    'GET /v3/pairs/ETH_USDC/quotes?amount=1 HTTP/1.1\r\nHost: g\r\nApp-Name: a\r\n\r\n'
  test.each([
    ['payments', 'closes', 'http_response_incomplete', get],
    ['payments', 'stalls', 'http_response_timeout', get],
    ['swap', 'closes', 'http_response_incomplete', quote],
    ['swap', 'stalls', 'http_response_timeout', quote],
  ])(
    'of %s that %s within its body is %s in the log and in the metrics',
    async (side, how, fault, request) => {
      const { url } = await rawUpstream((socket) => {
        socket.write(
          'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort',
          () => how === 'closes' && socket.end(),
        )
      })
      const { gateway, faults } = await loggedGateway(url, { bodyTimeoutMs: 50 })
      const client = new RawConnection(gateway.url, request)
      await vi.waitFor(() => expect(faults()).toEqual([fault]), 5_000)
      expect(await counted(gateway, ended(side, fault))).toBe(1)
      if (side === 'swap') return
      await client.closed()
      expect(await client.answer()).toMatchObject({ status: 200, whole: false })
    },
  )
})

describe('an answer that is not valid HTTP', () => {
  test.each([
    ['is not HTTP at all', 'hello there\r\n\r\n'],
    ['has a status below 100', 'HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n'],
    ['has a status of four digits', 'HTTP/1.1 2000 OK\r\n\r\n'],
    [
      'has a control character in a header',
      'HTTP/1.1 200 OK\r\nX-A: a\x01b\r\nContent-Length: 2\r\n\r\nok',
    ],
    [
      'has a bare CR in a header',
      'HTTP/1.1 200 OK\r\nX-A: a\rX-B: b\r\nContent-Length: 2\r\n\r\nok',
    ],
    [
      'has a header without a name',
      'HTTP/1.1 200 OK\r\n: 1\r\nContent-Length: 2\r\n\r\nok',
    ],
    [
      'has a length and chunks',
      `${good.slice(0, 17)}Transfer-Encoding: chunked\r\n${good.slice(17)}`,
    ],
    [
      'has two lengths that differ',
      'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!',
    ],
    [
      'has a coding that was not requested',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
    ],
    [
      'has a control character in its reason',
      'HTTP/1.1 200 O\x01K\r\nContent-Length: 2\r\n\r\nok',
    ],
    [
      'switches protocols unasked',
      'HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n',
    ],
    // undici takes it for the end.
    ['continues unasked', `HTTP/1.1 100 Continue\r\n\r\n${good}`],
    [
      'has a head of more than 64 KiB',
      `HTTP/1.1 200 OK\r\n${'X-Big: aaaaaaaaaaaaaaaa\r\n'.repeat(4_000)}\r\nok`,
    ],
  ])(
    'because it %s: a 502 with Proxy-Status, and the gateway keeps running',
    async (_what, bytes) => {
      const escaped = escapedErrors()
      let answers = 0
      const { url } = await rawUpstream((socket) => {
        answers += 1
        socket.end(Buffer.from(answers === 1 ? bytes : good, 'latin1'))
      })
      const failure = {
        status: 502,
        problem: 'upstream-invalid',
        retryable: true,
      } as const
      const { answer, gateway } = await expectFailure(
        { url },
        { ...failure, fault: 'http_protocol_error' },
      )
      expect(answer.informational).toEqual([])
      expect((await rawExchange(gateway.url, get)).body.toString()).toBe('ok')
      await pause(50)
      expect(escaped).toEqual([])
    },
  )

  test.each([
    ['has a broken chunk', '2\r\nok\r\nzz\r\n'],
    ['has a chunk longer than it says', '2\r\nokay\r\n0\r\n\r\n'],
  ])(
    'because it %s: the client cannot mistake it for a complete answer',
    async (_what, body) => {
      const chunked = `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${body}`
      const gateway = await gatewayTo(
        (await rawUpstream((socket) => socket.write(chunked))).url,
      )
      const client = new RawConnection(gateway.url, get)
      await client.closed()
      expect((await client.answer()).whole).toBe(false)
    },
  )
})

describe('an answer that is valid, if odd', () => {
  test('ends at its stated length, and the bytes after it reach no client', async () => {
    const escaped = escapedErrors()
    const upstream = await rawUpstream((socket) =>
      socket.write(`${good}${good.replace('ok', 'no')}`),
    )
    const gateway = await gatewayTo(upstream.url)
    const client = new RawConnection(gateway.url, get)
    expect((await client.answer()).body.toString()).toBe('ok')
    await pause(100)
    expect(client.received.toString()).toBe('')
    expect(escaped).toEqual([])
  })

  test('has a head of just under 64 KiB, comes in pieces, and all of it is relayed', async () => {
    const value = 'a'.repeat(60_000)
    const upstream = await rawUpstream(async (socket) => {
      for (const piece of [
        'H',
        'TTP/1.1 2',
        '01 \r\nX-',
        `Big: ${value}`,
        '\r\nContent-Length: 2\r',
        '\n\r',
        '\no',
      ]) {
        socket.write(piece)
        await pause(5)
      }
      socket.write('k')
    })
    const gateway = await gatewayTo(upstream.url)
    const answer = await rawExchange(gateway.url, get)
    // Not its reason phrase, of which undici keeps what came in the last piece.
    expect([answer.status, answer.body.toString()]).toEqual([201, 'ok'])
    expect(answer.rawHeaders).toContain(value)
  })
})
