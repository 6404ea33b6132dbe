import { createHmac } from 'node:crypto'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { giveQuote } from '../support/clients/quotes.ts'
import { sendRaw } from '../support/clients/raw-client.ts'
import { type RunningGateway, startGateway } from '../support/gateways/gateway.ts'
import { keptLog, type LogLine, levels } from '../support/observing/log-lines.ts'
import { startRawUpstream } from '../support/upstreams/raw-upstream.ts'
import { type RecordingUpstream, startRecordingUpstream } from '../support/upstreams/recording-upstream.ts'

interface Started {
  gateway: RunningGateway
  upstream: RecordingUpstream
  log: Awaited<ReturnType<typeof keptLog>>
}

const open: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const part of open.splice(0).reverse()) await part.close()
})

async function started(answer?: Parameters<typeof startRecordingUpstream>[0]): Promise<Started> {
  const upstream = await startRecordingUpstream(answer)
  const log = await keptLog('trace')
  const baseUrls = {
    SWAP_BASE_URL: upstream.url,
    PAYMENTS_BASE_URL: upstream.url,
    WEBHOOKS_BASE_URL: upstream.url,
  }
  const gateway = await startGateway(baseUrls, { logger: log.logger })
  open.push(upstream, gateway)
  return { gateway, upstream, log }
}

/** The lines about requests, once there are that many: the last is written after its answer is out. */
async function requestLines({ log }: Started, count: number): Promise<LogLine[]> {
  const found = () =>
    log.lines().filter(({ level, msg }) => level === levels.debug && msg.startsWith('request'))
  await vi.waitFor(() => expect(found().length).toBeGreaterThanOrEqual(count))
  return found()
}

describe('what is said of a request', () => {
  test('is one line at debug', async () => {
    const running = await started()
    await (
      await fetch(`${running.gateway.url}/v3/pairs?page=1`, { headers: { 'X-Request-Id': 'id-1' } })
    ).text()
    const lines = await requestLines(running, 1)
    expect(running.log.lines()).toHaveLength(1)
    expect(lines[0]).toMatchObject({
      requestId: 'id-1',
      area: 'swap',
      method: 'GET',
      path: '/v3/pairs?page=1',
      status: 200,
      durationMs: expect.any(Number),
    })
  })

  test('has its status also if the answer is written in one write', async () => {
    const running = await started((_request, response) => giveQuote(response))
    for (const path of [
      '/checkouts',
      '/v3/pairs/ETH_USDC/quotes?amount=0.1',
      '/v3/pairs/ETH_USDC/quotes?amount=0.1',
    ])
      await (await fetch(`${running.gateway.url}${path}`, { headers: { 'App-Name': 'a' } })).text()
    const lines = await requestLines(running, 3)
    expect(lines.map(({ status }) => status)).toEqual([200, 200, 200])
  })

  test('is empty at info while no request fails', async () => {
    const running = await started()
    await (await fetch(`${running.gateway.url}/v3/pairs`)).text()
    await requestLines(running, 1)
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
        cause: expect.objectContaining({ code: 'ECONNREFUSED', message: expect.any(String) }),
      }),
    ])
  })

  test('is one line at warn for an answer that breaks off after its head was sent', async () => {
    const answer = 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf'
    const upstream = await startRawUpstream((socket) => socket.end(answer))
    const log = await keptLog()
    const gateway = await startGateway({ SWAP_BASE_URL: upstream.url }, { logger: log.logger })
    open.push(upstream, gateway)
    await expect(fetch(`${gateway.url}/v3/pairs`).then((response) => response.text())).rejects.toThrow()
    await vi.waitFor(() => expect(log.lines(levels.warn)).toHaveLength(1))
    expect(log.lines(levels.warn)[0]).toMatchObject({ upstream: 'swap', cause: { name: expect.any(String) } })
  })

  test('is one line at info for a request that is refused', async () => {
    const running = await started()
    await (await fetch(`${running.gateway.url}/nowhere`)).text()
    await requestLines(running, 1)
    expect(running.log.lines(levels.info)).toEqual([
      expect.objectContaining({ level: levels.info, problem: 'not-found', status: 404 }),
    ])
  })
})

describe('the request id', () => {
  const longest = 'x'.repeat(128)

  test.each(['id-1', 'a.b_c~d:e/f+g=h@i', longest])(
    'of a caller is kept if it can be logged: %s',
    async (id) => {
      const { gateway, upstream } = await started()
      await fetch(`${gateway.url}/v3/pairs`, { headers: { 'x-ReQuest-ID': id } })
      expect(upstream.requests[0]?.headers['x-request-id']).toBe(id)
      const refused = await fetch(`${gateway.url}/nowhere`, { headers: { 'X-Request-Id': id } })
      expect(refused.headers.get('x-request-id')).toBe(id)
      expect(await refused.json()).toMatchObject({ requestId: id })
    },
  )

  test.each([
    ['two words', 'X-Request-Id: two words'],
    ['one that is too long', `X-Request-Id: ${longest}x`],
    ['one in latin1', 'X-Request-Id: caf\xe9'],
    ['a quote', 'X-Request-Id: a"b'],
    ['nothing', 'X-Request-Id: '],
    ['two of them', 'X-Request-Id: one\r\nX-Request-Id: two'],
  ])('is replaced for a caller who sends %s', async (_what, lines) => {
    const { gateway, upstream } = await started()
    await sendRaw(
      gateway.url,
      `GET /v3/pairs HTTP/1.1\r\nHost: gate\r\n${lines}\r\nConnection: close\r\n\r\n`,
    )
    expect(upstream.requests[0]?.headers['x-request-id']).toMatch(/^[0-9a-f]{8}-[0-9a-f-]{27}$/)
    const names = upstream.requests[0]?.rawHeaders.filter((part) => part.toLowerCase() === 'x-request-id')
    expect(names).toHaveLength(1)
  })

  test('is the same at the swap upstream and in the log', async () => {
    const running = await started()
    await (await fetch(`${running.gateway.url}/v3/pairs`)).text()
    const [line] = await requestLines(running, 1)
    expect(running.upstream.requests[0]?.headers['x-request-id']).toBe(line?.requestId)
  })

  test.each(['/checkouts', '/webhooks/payments'])('is never put on payments traffic: %s', async (path) => {
    const { gateway, upstream } = await started()
    const response = await fetch(gateway.url + path, { method: 'POST', body: '{}' })
    expect(upstream.requests[0]?.headers).not.toHaveProperty('x-request-id')
    expect(response.headers.get('x-request-id')).toBeNull()
  })

  test('of a caller reaches the payments upstream unchanged, even if it cannot be logged', async () => {
    const { gateway, upstream } = await started()
    await fetch(`${gateway.url}/checkouts`, { headers: { 'X-Request-Id': 'two words' } })
    expect(upstream.requests[0]?.headers['x-request-id']).toBe('two words')
  })

  test.each(['/v3/pairs', '/checkouts'])("of an upstream's own answer is not changed: %s", async (path) => {
    const { gateway, upstream } = await started()
    upstream.answer((_request, response) => {
      response.setHeader('X-Request-Id', "the upstream's own").end('ok')
    })
    const response = await fetch(gateway.url + path, { headers: { 'X-Request-Id': 'id-1' } })
    expect(response.headers.get('x-request-id')).toBe("the upstream's own")
  })
})

test('no secret and no payments query is logged at any level, whatever becomes of the request', async () => {
  const running = await started()
  const { gateway, upstream, log } = running
  const secret = 'sk_live_secret'
  const headers = {
    Authorization: `Bearer ${secret}`,
    Cookie: `session=${secret}`,
    'X-Signature': createHmac('sha256', secret).update('{}').digest('hex') + secret,
    'Proxy-Authorization': `Basic ${secret}`,
  }
  const targets = [
    '/v3/pairs',
    '/v3/orders',
    `/checkouts?key=${secret}`,
    `/refunds/1?a[]=${secret}&a[]=%zz`,
    `/webhooks/in?token=${secret}`,
    `/nowhere?key=${secret}`,
    `/%zz?key=${secret}`,
    `//checkouts?key=${secret}`,
    `/checkouts?key=#${secret}`,
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
      socket.end(`HTTP/1.1 200 OK\r\nSet-Cookie: ${secret}\r\nContent-Length: 99\r\n\r\n${secret}`),
  ]
  for (const request of [...requests, ...malformed]) await sendRaw(gateway.url, request)
  for (const answer of answers) {
    const broken = await startRawUpstream(answer)
    const baseUrls = {
      SWAP_BASE_URL: broken.url,
      PAYMENTS_BASE_URL: broken.url,
      WEBHOOKS_BASE_URL: broken.url,
    }
    const other = await startGateway(baseUrls, { logger: log.logger })
    open.push(broken, other)
    for (const request of requests) await sendRaw(other.url, request)
  }

  const lines = await requestLines(running, 4 * requests.length)
  expect(lines.length + log.lines(levels.info).length).toBeGreaterThan(50)
  expect(log.text()).not.toContain(secret)
})
