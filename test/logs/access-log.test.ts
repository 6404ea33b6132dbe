import { afterEach, describe, expect, test, vi } from 'vitest'
import { ask, giveQuote } from '../support/clients/quotes.ts'
import { sendRaw } from '../support/clients/raw-client.ts'
import { recordingUpstream } from '../support/gateways/between.ts'
import { killPrograms } from '../support/gateways/program.ts'
import type { LogLine } from '../support/observing/log-lines.ts'
import { type LoggedGateway, startLogged } from './support.ts'

afterEach(killPrograms)

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'
const secret = 'sk_live_secret'

async function started(settings: Record<string, string> = {}): Promise<LoggedGateway> {
  const { url } = await recordingUpstream((request, response) => {
    if (request.target.includes('/quotes')) giveQuote(response)
    else if (request.target.includes('hang')) return
    else response.end('ok')
  })
  const baseUrls = { SWAP_BASE_URL: url, PAYMENTS_BASE_URL: url, WEBHOOKS_BASE_URL: url }
  return startLogged({ ...baseUrls, ACCESS_LOG: 'on', ...settings })
}

async function accessLines(gateway: LoggedGateway, count: number): Promise<LogLine[]> {
  await vi.waitFor(() => expect(gateway.lines('access').length).toBeGreaterThanOrEqual(count), 10_000)
  return gateway.lines('access')
}

test('every line of the log is JSON, with its level as a word and its time in ISO 8601', async () => {
  const gateway = await started()
  await ask(gateway.url, { path: '/nowhere' })
  await accessLines(gateway, 1)
  const lines = await gateway.stopped()
  expect(lines.length).toBeGreaterThan(3)
  for (const { level, time } of lines) {
    expect(level).toMatch(/^(?:info|warn)$/)
    expect(new Date(String(time)).toISOString()).toBe(time)
  }
})

describe('with ACCESS_LOG=on, there is one line for', () => {
  test('a quote that was fetched, and one for the hit', async () => {
    const gateway = await started()
    const headers = ['App-Name', 'wallet', 'traceparent', `00-${traceId}-00f067aa0ba902b7-01`]
    const path = '/v3/pairs/ETH_USDC/quotes?amount=0.1'
    const answers = [await ask(gateway.url, { path, headers }), await ask(gateway.url, { path, headers })]
    const lines = await accessLines(gateway, 2)
    expect(lines).toEqual(
      ['miss', 'hit'].map((cache, index) => ({
        level: 'info',
        time: expect.any(String),
        log: 'access',
        requestId: answers[index]?.headers['x-request-id'],
        traceId,
        method: 'GET',
        path,
        status: 200,
        cache,
        upstream: 'swap',
        durationMs: expect.any(Number),
        ...(cache === 'miss' && { upstreamMs: expect.any(Number) }),
        application: 'wallet',
        client: '127.0.0.x',
        msg: 'request',
      })),
    )
  })

  test('a request that is refused, with its problem', async () => {
    const gateway = await started()
    await ask(gateway.url, { path: '/v3/pairs/ETH_USDC/quotes?amount=much' })
    const [line] = await accessLines(gateway, 1)
    expect(line).toMatchObject({ status: 400, problem: 'bad-amount', upstream: 'swap' })
  })

  test('an order that was sent, and one that was answered by its key', async () => {
    const gateway = await started()
    const headers = ['App-Name', 'wallet', 'Content-Type', 'application/json', 'Idempotency-Key', 'click']
    const body = '{"pairId":"ETH_USDC","fromAmount":0.1,"toAddress":"0xto"}'
    for (const path of ['/v3/orders/float', '/v3/orders/float'])
      await ask(gateway.url, { path, method: 'POST', headers, body })
    const [sent, replayed] = await accessLines(gateway, 2)
    expect(sent).toMatchObject({ status: 200, upstreamMs: expect.any(Number) })
    expect(sent).not.toHaveProperty('replayed')
    expect(replayed).toMatchObject({ status: 200, replayed: true })
    expect(replayed).not.toHaveProperty('upstreamMs')
  })

  test('a payment and a webhook, without the query and without an App-Name', async () => {
    const gateway = await started()
    for (const path of [`/checkouts?key=${secret}`, `/webhooks/in?token=${secret}`])
      await ask(gateway.url, { path, method: 'POST', body: secret, headers: ['Authorization', secret] })
    const lines = await accessLines(gateway, 2)
    expect(lines.map(({ path, upstream, status }) => [path, upstream, status])).toEqual([
      ['/checkouts', 'payments', 200],
      ['/webhooks/in', 'webhooks', 200],
    ])
    for (const line of lines) {
      expect(line).toMatchObject({ upstreamMs: expect.any(Number), durationMs: expect.any(Number) })
      expect(line).not.toHaveProperty('application')
    }
  })

  test('a client that left before it was answered', async () => {
    const gateway = await started()
    const leaving = new AbortController()
    const left = ask(gateway.url, { path: '/checkouts/hang', signal: leaving.signal })
    setTimeout(() => leaving.abort(), 300)
    await expect(left).rejects.toThrow()
    const [line] = await accessLines(gateway, 1)
    expect(line).toMatchObject({ status: 0, path: '/checkouts/hang', client: '127.0.0.x' })
    expect(line?.upstreamMs).toBeLessThanOrEqual(Number(line?.durationMs))
  })
})

test('of a query on /v3 no line shows a value but those of harmless parameters, at any level', async () => {
  const gateway = await started({ LOG_LEVEL: 'trace' })
  const query = `amount=1&toAddress=0x${secret}&${secret}.with.a.name.that.is.long=1`
  for (const path of ['/v3/pairs/ETH_USDC/quotes', '/v3/pairs/ETH_USDC/quotes;x', '/v3/rates'])
    await ask(gateway.url, { path: `${path}?${query}` })
  // Its problem is logged too.
  await ask(gateway.url, { path: `/v3/pairs/ETH_USDC/quotes?amount=much&toAddress=0x${secret}` })
  const lines = await accessLines(gateway, 4)
  expect(lines.map(({ path }) => String(path).split('?')[1])).toEqual([
    ...Array(3).fill('amount=1&toAddress=…&…=…'),
    'amount=much&toAddress=…',
  ])
  await gateway.stopped()
  expect(gateway.text()).not.toContain(secret)
})

test('without ACCESS_LOG successful requests are not logged', async () => {
  const gateway = await started({ ACCESS_LOG: 'off' })
  for (let times = 0; times < 3; times += 1) expect((await ask(gateway.url)).status).toBe(200)
  expect((await gateway.stopped()).map(({ msg }) => msg)).toEqual([
    'quotegate is listening',
    expect.stringMatching(/^stopping/),
    'stopped',
  ])
})

test.each([
  ['masked', '198.51.100.x'],
  ['full', '198.51.100.7'],
  ['none', undefined],
])('with LOG_CLIENT_ADDRESS=%s the client is logged as %s', async (mode, client) => {
  const gateway = await started({ LOG_CLIENT_ADDRESS: mode, TRUST_PROXY: '127.0.0.1' })
  const headers = ['App-Name', 'wallet', 'Forwarded', 'for=198.51.100.7']
  await ask(gateway.url, { headers })
  await ask(gateway.url, { headers, path: '/checkouts' })
  for (const line of await accessLines(gateway, 2)) expect(line.client).toBe(client)
  if (mode !== 'full') expect(gateway.text()).not.toContain('198.51.100.7')
})

test('a hostile client cannot forge or lengthen a line, move the cursor or get a secret logged', async () => {
  const gateway = await started()
  const forged = '{"level":"fatal","msg":"forged"}'
  const heads = [
    `GET /v3/pairs/${'x'.repeat(7_000)}/quotes?amount=1 HTTP/1.1\r\nApp-Name: ${'y'.repeat(5_000)}`,
    `GET /v3/pairs?q=%0A${encodeURIComponent(forged)} HTTP/1.1\r\nApp-Name: a\x85\x9b1A${forged}`,
    `GET /v3/pairs HTTP/1.1\r\nApp-Name: a\r\nApp-Name: ${forged}`,
    `GET /v3/pairs HTTP/1.1\r\ntraceparent: 00-${forged}-00f067aa0ba902b7-01\r\nX-Request-Id: ${forged}`,
    `GET /%0a${forged} HTTP/1.1\r\nAuthorization: Bearer ${secret}`,
    `GET /checkouts?key=${secret} HTTP/1.1\r\nCookie: ${secret}\r\nX-Signature: ${secret}`,
  ]
  for (const head of heads) await sendRaw(gateway.url, `${head}\r\nHost: gate\r\nConnection: close\r\n\r\n`)
  await accessLines(gateway, heads.length)
  const lines = await gateway.stopped()
  expect(lines.filter(({ msg, level }) => msg === 'forged' || level === 'fatal')).toEqual([])
  expect(gateway.lines('access')).toHaveLength(heads.length)
  const text = gateway.text()
  expect(text).not.toContain(secret)
  expect(text).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f]/)
  for (const line of gateway.lines('access')) expect(JSON.stringify(line).length).toBeLessThan(2_000)
})
