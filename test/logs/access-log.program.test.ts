import { describe, expect, test, vi } from 'vitest'
import { ask, giveQuote } from '../support/clients/quotes.ts'
import { sendRaw } from '../support/clients/raw-connection.ts'
import { gatewayWith, recordingUpstream, until } from '../support/gateways/between.ts'
import { startListening } from '../support/gateways/program.ts'
import { keptLog, linesOf } from '../support/observing/log-lines.ts'
import { startLogged } from './support.ts'

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'
const secret = 'sk_live_secret'
const order = {
  path: '/v3/orders/float',
  method: 'POST',
  body: '{"pairId":"ETH_USDC","fromAmount":0.1,"toAddress":"0xto"}',
}

async function started(settings: Record<string, string> = {}) {
  const upstream = await recordingUpstream((request, response) => {
    if (request.target.includes('/quotes')) giveQuote(response)
    else if (!request.target.includes('hang')) response.end('ok')
  })
  const { url } = upstream
  const baseUrls = { SWAP_BASE_URL: url, PAYMENTS_BASE_URL: url, WEBHOOKS_BASE_URL: url }
  return { upstream, gateway: await startLogged({ ...baseUrls, ...settings }) }
}

test('every line of the program is JSON with its level and time, and without ACCESS_LOG no success is logged', async () => {
  const { upstream } = await started()
  // Where the kernel cuts the listen backlog, a start has a line about it.
  const { url, ...program } = await startListening({
    SWAP_BASE_URL: upstream.url,
    CLIENT_CONNECTIONS: '1000',
  })
  for (const { status } of [await ask(url), await ask(url, order)])
    expect(status).toBe(200)
  await ask(url, { path: '/nowhere' })
  program.child.kill('SIGTERM')
  const lines = linesOf((await program.exit).stdout)
  expect(lines.map(({ msg }) => msg)).toEqual([
    'quotegate is listening',
    expect.stringMatching(/^not-found: /),
    expect.stringMatching(/^stopping/),
    'stopped',
  ])
  for (const { level, time } of lines) {
    expect(level).toMatch(/^(?:info|warn)$/)
    expect(new Date(String(time)).toISOString()).toBe(time)
  }
})

describe('with ACCESS_LOG=on, there is one line for', () => {
  test('a quote that was fetched, one for the hit, and one for a quote that is refused, with its problem', async () => {
    const { gateway } = await started()
    const headers = [
      'App-Name',
      'wallet',
      'traceparent',
      `00-${traceId}-00f067aa0ba902b7-01`,
    ]
    const path = '/v3/pairs/ETH_USDC/quotes?amount=0.1'
    const answers = [
      await ask(gateway.url, { path, headers }),
      await ask(gateway.url, { path, headers }),
    ]
    await ask(gateway.url, { path: '/v3/pairs/ETH_USDC/quotes?amount=much' })
    const [miss, hit, refused] = await gateway.requests(3)
    const common = {
      level: 'info',
      time: expect.any(String),
      log: 'access',
      msg: 'request',
      method: 'GET',
      path,
      status: 200,
      upstream: 'swap',
      durationMs: expect.any(Number),
      application: 'wallet',
      client: '127.0.0.x',
      traceId,
    }
    const [first, second] = answers.map(({ headers }) => headers['x-request-id'])
    expect(miss).toEqual({
      ...common,
      requestId: first,
      cache: 'miss',
      upstreamMs: expect.any(Number),
    })
    expect(hit).toEqual({ ...common, requestId: second, cache: 'hit' })
    expect(refused).toMatchObject({
      status: 400,
      problem: 'bad-amount',
      upstream: 'swap',
    })
  })

  test('an order that was sent, and one that was answered by its key', async () => {
    const { gateway } = await started()
    const headers = [
      'App-Name',
      'wallet',
      'Content-Type',
      'application/json',
      'Idempotency-Key',
      'click',
    ]
    for (let times = 1; times <= 2; times += 1)
      await ask(gateway.url, { ...order, headers })
    const [sent, replayed] = await gateway.requests(2)
    expect(sent).toMatchObject({ status: 200, upstreamMs: expect.any(Number) })
    expect(sent).not.toHaveProperty('replayed')
    expect(replayed).toMatchObject({ status: 200, replayed: true })
    expect(replayed).not.toHaveProperty('upstreamMs')
  })

  test('a payment and a webhook, without the query and without an App-Name', async () => {
    const { gateway } = await started()
    const headers = ['Authorization', secret, 'App-Name', 'wallet']
    for (const path of [`/checkouts?key=${secret}`, `/webhooks/in?token=${secret}`])
      await ask(gateway.url, { path, method: 'POST', body: secret, headers })
    const lines = await gateway.requests(2)
    expect(lines.map(({ path, upstream, status }) => [path, upstream, status])).toEqual([
      ['/checkouts', 'payments', 200],
      ['/webhooks/in', 'webhooks', 200],
    ])
    for (const line of lines) {
      expect(line).toMatchObject({
        upstreamMs: expect.any(Number),
        durationMs: expect.any(Number),
      })
      expect(line).not.toHaveProperty('application')
    }
    expect(gateway.text()).not.toContain(secret)
  })

  test('a client that left before it was answered', async () => {
    const { gateway, upstream } = await started()
    const leaving = new AbortController()
    const left = ask(gateway.url, {
      path: '/checkouts/hang',
      signal: leaving.signal,
    }).catch(() => {})
    await until(() => upstream.requests.length === 1, 'the call')
    leaving.abort()
    await left
    const [line] = await gateway.requests(1)
    expect(line).toMatchObject({
      status: 0,
      path: '/checkouts/hang',
      client: '127.0.0.x',
    })
    expect(line?.upstreamMs).toBeLessThanOrEqual(Number(line?.durationMs))
  })
})

test('of a query on /v3 no line shows a value but those of harmless parameters, at any level', async () => {
  const { gateway } = await started({ LOG_LEVEL: 'trace' })
  const query = `amount=1&toAddress=0x${secret}&${secret}.with.a.name.that.is.long=1`
  for (const path of [
    '/v3/pairs/ETH_USDC/quotes',
    '/v3/pairs/ETH_USDC/quotes;x',
    '/v3/rates',
  ])
    await ask(gateway.url, { path: `${path}?${query}` })
  // Its problem is logged too.
  await ask(gateway.url, {
    path: `/v3/pairs/ETH_USDC/quotes?amount=much&toAddress=0x${secret}`,
  })
  expect(
    (await gateway.requests(4)).map(({ path }) => String(path).split('?')[1]),
  ).toEqual([...Array(3).fill('amount=1&toAddress=…&…=…'), 'amount=much&toAddress=…'])
  await gateway.close()
  expect(gateway.text()).not.toContain(secret)
})

test.each([
  ['masked', '198.51.100.x'],
  ['full', '198.51.100.7'],
  ['none', undefined],
])(
  'with LOG_CLIENT_ADDRESS=%s the user is logged as %s',
  async (LOG_CLIENT_ADDRESS, client) => {
    const { gateway } = await started({ LOG_CLIENT_ADDRESS, TRUST_PROXY: '127.0.0.1' })
    const headers = ['App-Name', 'wallet', 'Forwarded', 'for=198.51.100.7']
    await ask(gateway.url, { headers })
    await ask(gateway.url, { headers, path: '/checkouts' })
    for (const line of await gateway.requests(2)) expect(line.client).toBe(client)
    if (LOG_CLIENT_ADDRESS !== 'full')
      expect(gateway.text()).not.toContain('198.51.100.7')
  },
)

test('a hostile caller cannot forge or lengthen a line, move the cursor or get a secret logged', async () => {
  const { gateway } = await started()
  const forged = '{"level":"fatal","msg":"forged"}'
  const heads = [
    `GET /v3/pairs/${'x'.repeat(7_000)}/quotes?amount=1 HTTP/1.1\r\nApp-Name: ${'y'.repeat(5_000)}`,
    `GET /v3/pairs?q=%0A${encodeURIComponent(forged)} HTTP/1.1\r\nApp-Name: a\x85\x9b1A${forged}`,
    `GET /v3/pairs HTTP/1.1\r\nApp-Name: a\r\nApp-Name: ${forged}`,
    `GET /v3/pairs HTTP/1.1\r\ntraceparent: 00-${forged}-00f067aa0ba902b7-01\r\nX-Request-Id: ${forged}`,
    `GET /%0a${forged} HTTP/1.1\r\nAuthorization: Bearer ${secret}`,
    `GET /checkouts?key=${secret} HTTP/1.1\r\nCookie: ${secret}\r\nX-Signature: ${secret}`,
  ]
  for (const head of heads)
    await sendRaw(gateway.url, `${head}\r\nHost: gate\r\nConnection: close\r\n\r\n`)
  const requests = await gateway.requests(heads.length)
  await gateway.close()
  expect(
    gateway.lines().filter(({ msg, level }) => msg === 'forged' || level === 'fatal'),
  ).toEqual([])
  expect(requests).toHaveLength(heads.length)
  expect(gateway.text()).not.toContain(secret)
  expect(gateway.text()).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f]/)
  for (const line of requests) expect(JSON.stringify(line).length).toBeLessThan(2_000)
})

test("requests are logged from when an application's logger is set to debug", async () => {
  const { logger, ...log } = await keptLog('info')
  const gateway = await gatewayWith({}, { logger })
  const logged = () => log.lines().filter(({ msg }) => msg === 'request').length
  await ask(gateway.url)
  expect(logged()).toBe(0)
  Object.assign(logger, { level: 'debug' })
  await ask(gateway.url)
  await vi.waitFor(() => expect(logged()).toBe(1))
})
