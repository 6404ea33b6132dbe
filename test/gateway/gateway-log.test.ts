import { createHmac } from 'node:crypto'
import { describe, expect, test, vi } from 'vitest'
import { giveQuote } from '../support/clients/quotes.ts'
import { sendRaw } from '../support/clients/raw-connection.ts'
import {
  gatewayWith,
  rawUpstream,
  recordingUpstream,
} from '../support/gateways/between.ts'
import { keptLog, type LogLine, levels } from '../support/observing/log-lines.ts'

const secret = 'sk_live_secret'

type Log = Awaited<ReturnType<typeof keptLog>>

function loggedGateway(upstreamUrl: string, log: Log) {
  const urls = {
    SWAP_BASE_URL: upstreamUrl,
    PAYMENTS_BASE_URL: upstreamUrl,
    WEBHOOKS_BASE_URL: upstreamUrl,
  }
  const own = {
    SWAP_AUTHORIZATION: `Bearer ${secret}`,
    ADMIN_TOKEN: `${secret}_of_operators`,
  }
  return gatewayWith({ ...urls, ...own }, { logger: log.logger })
}

async function started(answer?: Parameters<typeof recordingUpstream>[0]) {
  const upstream = await recordingUpstream(answer)
  const log = await keptLog('trace')
  return { upstream, log, gateway: await loggedGateway(upstream.url, log) }
}

/** The lines about requests, once there are that many: the last is written after its answer is out. */
async function requestLines({ log }: { log: Log }, count: number): Promise<LogLine[]> {
  const found = () =>
    log
      .lines()
      .filter(({ level, msg }) => level === levels.debug && msg.startsWith('request'))
  await vi.waitFor(() => expect(found().length).toBeGreaterThanOrEqual(count))
  return found()
}

describe('what is said of a request', () => {
  test('is one line at debug, and nothing at info, while none fails; also where the answer is one write', async () => {
    const running = await started(({ target }, response) =>
      target.includes('/quotes') ? giveQuote(response) : response.end('ok'),
    )
    const quote = '/v3/pairs/ETH_USDC/quotes?amount=0.1'
    const targets = ['/v3/pairs?page=1', quote, quote, '/checkouts']
    const headers = { 'App-Name': 'a', 'X-Request-Id': 'id-1' }
    for (const target of targets)
      await (await fetch(running.gateway.url + target, { headers })).text()
    const lines = await requestLines(running, 4)
    expect(lines.map(({ path, status }) => [path, status])).toEqual(
      targets.map((path) => [path, 200]),
    )
    const first = {
      requestId: 'id-1',
      area: 'swap',
      method: 'GET',
      durationMs: expect.any(Number),
    }
    expect(lines[0]).toMatchObject(first)
    expect(running.log.lines(levels.info)).toEqual([])
  })

  test('is one line at warn for an upstream that failed, with the fault and its cause', async () => {
    const running = await started()
    await running.upstream.close()
    const response = await fetch(`${running.gateway.url}/v3/pairs`)
    const { requestId } = (await response.json()) as { requestId: string }
    await requestLines(running, 1)
    expect(running.log.lines(levels.info)).toEqual([
      expect.objectContaining({
        level: levels.warn,
        requestId,
        path: '/v3/pairs',
        status: 502,
        problem: 'upstream-unreachable',
        upstream: 'swap',
        fault: 'connection_refused',
        cause: expect.objectContaining({
          code: 'ECONNREFUSED',
          message: expect.any(String),
        }),
      }),
    ])
  })
})

describe('the request id', () => {
  const longest = 'x'.repeat(128)

  test('of a caller is kept if it can be logged', async () => {
    const { gateway, upstream } = await started()
    for (const id of ['a.b_c~d:e/f+g=h@i', longest]) {
      await fetch(`${gateway.url}/v3/pairs`, { headers: { 'x-ReQuest-ID': id } })
      expect(upstream.requests.at(-1)?.headers['x-request-id']).toBe(id)
      const refused = await fetch(`${gateway.url}/nowhere`, {
        headers: { 'X-Request-Id': id },
      })
      expect(refused.headers.get('x-request-id')).toBe(id)
      expect(await refused.json()).toMatchObject({ requestId: id })
    }
  })

  test.each([
    ['two words', 'X-Request-Id: two words'],
    ['one that is too long', `X-Request-Id: ${longest}x`],
    ['one in latin1', 'X-Request-Id: caf\xe9'],
    ['a quote', 'X-Request-Id: a"b'],
    ['nothing', 'X-Request-Id: '],
    ['two of them', 'X-Request-Id: one\r\nX-Request-Id: two'],
  ])(
    'is replaced, at the swap API as in the log, for a caller who sends %s',
    async (_what, lines) => {
      const running = await started()
      await sendRaw(
        running.gateway.url,
        `GET /v3/pairs HTTP/1.1\r\nHost: gate\r\n${lines}\r\nConnection: close\r\n\r\n`,
      )
      const [line] = await requestLines(running, 1)
      expect(line?.requestId).toMatch(/^[0-9a-f]{8}-[0-9a-f-]{27}$/)
      const raw = running.upstream.requests[0]?.rawHeaders ?? []
      const values = raw.filter(
        (_, index) => raw[index - 1]?.toLowerCase() === 'x-request-id',
      )
      expect(values).toEqual([line?.requestId])
    },
  )

  test('is never put on payments traffic; that of a caller passes, even if it cannot be logged', async () => {
    const { gateway, upstream } = await started()
    for (const path of ['/checkouts', '/webhooks/payments']) {
      const response = await fetch(gateway.url + path, { method: 'POST', body: '{}' })
      expect(upstream.requests.at(-1)?.headers).not.toHaveProperty('x-request-id')
      expect(response.headers.get('x-request-id')).toBeNull()
    }
    await fetch(`${gateway.url}/checkouts`, { headers: { 'X-Request-Id': 'two words' } })
    expect(upstream.requests.at(-1)?.headers['x-request-id']).toBe('two words')
  })
})

test('no secret and no payments query is logged at any level, whatever becomes of the request', async () => {
  const running = await started()
  const { gateway, upstream, log } = running
  const headers = {
    Authorization: `Bearer ${secret}`,
    Cookie: `session=${secret}`,
    'X-Signature': createHmac('sha256', secret).update('{}').digest('hex') + secret,
    'Proxy-Authorization': `Basic ${secret}`,
  }
  const targets = [
    '/v3/pairs',
    '/v3/orders',
    `/refunds/1?a[]=${secret}&a[]=%zz`,
    `/checkouts?key=#${secret}`,
    ...['/checkouts', '/webhooks/in', '/nowhere', '/%zz', '//checkouts'].map(
      (path) => `${path}?key=${secret}`,
    ),
  ]
  const rawHead = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  const requests = targets.map(
    (target) =>
      `POST ${target} HTTP/1.1\r\nHost: gate\r\n${rawHead.join('')}Content-Length: 2\r\nConnection: close\r\n\r\n{}`,
  )
  const malformed = [
    `GET /checkouts?key=${secret} HTTP/1.1\r\nHost: gate\r\nAuthorization: \x01${secret}\r\n\r\n`,
    `GET /checkouts?key=${secret} HTTP/1.1\r\nHost: gate\r\nX-Signature : ${secret}\r\n\r\n`,
    `GET /checkouts?key=${secret} HTTP/9.9\r\nHost: gate\r\n\r\n`,
    `GET /checkouts?key=${'x'.repeat(9_000)}${secret} HTTP/1.1\r\nHost: gate\r\n\r\n`,
    `TRACE /checkouts?key=${secret} HTTP/1.1\r\nHost: gate\r\n\r\n`,
    `CONNECT ${secret}:443 HTTP/1.1\r\nHost: gate\r\n\r\n`,
    `POST /checkouts?key=${secret} HTTP/1.1\r\nHost: gate\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n${secret}`,
  ]

  upstream.answer((_request, response) => {
    response.setHeader('Set-Cookie', `session=${secret}`).end(secret)
  })
  const answers = [
    (socket: { destroy(): void }) => socket.destroy(),
    (socket: { end(text: string): void }) =>
      socket.end(`HTTP/1.1 200 ${secret}\r\nBad Header: ${secret}\r\n\r\n`),
    (socket: { end(text: string): void }) =>
      socket.end(
        `HTTP/1.1 200 OK\r\nSet-Cookie: ${secret}\r\nContent-Length: 99\r\n\r\n${secret}`,
      ),
  ]
  for (const request of [...requests, ...malformed]) await sendRaw(gateway.url, request)
  for (const answer of answers) {
    const other = await loggedGateway((await rawUpstream(answer)).url, log)
    for (const request of requests) await sendRaw(other.url, request)
  }

  const lines = await requestLines(running, 4 * requests.length)
  expect(lines.length + log.lines(levels.info).length).toBeGreaterThan(50)
  expect(log.text()).not.toContain(secret)
})
