import { describe, expect, test } from 'vitest'
import { settingNames } from '../../src/config/settings.ts'
import { status as declaredStatus } from '../../src/operations/schemas.ts'
import { newFolder } from '../journal/disk-support.ts'
import { aSecond } from '../support/gateways/between.ts'
import { freePort } from '../support/machine/free-port.ts'
import { valkey } from '../support/stores/valkey.ts'
import { act, ask, floatOrder, gatewayWith, production, quote } from './support.ts'

async function statusOf(operationsUrl: string, headers: Record<string, string> = {}) {
  const { body } = await ask(`${operationsUrl}/status`, { headers })
  return JSON.parse(body)
}

describe('/status', () => {
  test('says what is declared, and nothing else, also of a folder', async () => {
    const gateway = await gatewayWith({ STATE_DIRECTORY: newFolder() })
    await quote(gateway)
    const said = await statusOf(gateway.operationsUrl)
    // What is not declared is left out of what is read.
    expect(declaredStatus.parse(said)).toEqual(said)
    expect(said.journal.disk.failures).toEqual({ open: 0, write: 0, sync: 0, keys: 0 })
  })

  test('has the version, the state of the upstreams, the cache and the settings', async () => {
    const gateway = await gatewayWith({ UPSTREAM_CONNECTIONS: 7, queue: 9 })
    await quote(gateway)
    const status = await statusOf(gateway.operationsUrl)
    expect(status).toMatchObject({
      version: expect.stringMatching(/^\d+\.\d+\.\d+/),
      mode: 'SANDBOX',
      ready: true,
      access: 'full',
      degraded: false,
      store: { kind: 'memory', up: true },
      cache: { entries: 1, bytes: expect.any(Number) },
      ledger: { entries: 1 },
      journal: { disk: null, stream: null },
      ordersRefused: 0,
      lastRefusals: [],
      clock: { estimateMs: 0, lowMs: expect.any(Number) },
    })
    expect(status.uptimeMs).toBeGreaterThan(0)
    const swap = status.upstreams.find(({ name }: { name: string }) => name === 'swap')
    expect(swap).toMatchObject({ inFlight: 0, connectionsMost: 7, queueMost: 9, openPairs: 0 })
    const closed = { state: 'closed', retryAfterMs: 0 }
    expect(swap.breakers).toEqual(['connections', 'orders', 'rest'].map((name) => ({ name, ...closed })))
    const payments = status.upstreams.find(({ name }: { name: string }) => name === 'payments')
    expect(payments.breakers).toEqual([{ name: 'connections', ...closed }])
    expect(status.settings.map(({ name }: { name: string }) => name)).toEqual(settingNames)
    expect(status.settings).toContainEqual({
      name: 'UPSTREAM_CONNECTIONS',
      value: '7',
      source: 'environment',
    })
    expect(status.settings).toContainEqual({
      name: 'ACCESS_LOG',
      value: expect.any(String),
      source: expect.any(String),
    })
  })

  test('says LIVE as soon as one upstream is not the sandbox', async () => {
    const { operationsUrl } = await gatewayWith({
      SWAP_BASE_URL: 'http://127.0.0.1:9',
      PAYMENTS_BASE_URL: 'sandbox',
    })
    expect((await statusOf(operationsUrl)).mode).toBe('LIVE')
  })

  test("says which upstream's breaker is open", async () => {
    const gateway = await gatewayWith({
      SWAP_BASE_URL: 'http://127.0.0.1:9',
      breakerFailures: 1,
      retries: 0,
    })
    await quote(gateway)
    await aSecond()
    await quote(gateway)
    const { upstreams } = await statusOf(gateway.operationsUrl)
    const open = { name: 'connections', state: 'open', retryAfterMs: expect.any(Number) }
    const swap = { name: 'swap', breakers: expect.arrayContaining([open]), openPairs: 0 }
    expect(upstreams).toContainEqual(expect.objectContaining(swap))
  })

  test('names the peers that sent a client-address header and are not trusted', async () => {
    const gateway = await gatewayWith()
    await quote(gateway)
    expect((await statusOf(gateway.operationsUrl)).untrustedPeers).toEqual({ count: 0, peers: [] })
    await fetch(`${gateway.url}/v3/pairs/ETH_USDC/quotes?amount=1`, {
      headers: { 'App-Name': 'demo', Forwarded: 'for=198.51.100.7' },
    })
    expect((await statusOf(gateway.operationsUrl)).untrustedPeers).toEqual({ count: 1, peers: ['127.0.0.1'] })
  })

  test('remembers a refused order with the age of its quote, though no console was open', async () => {
    const gateway = await gatewayWith({ ORDER_EXPIRY_MARGIN_MS: 60_000 })
    const { id } = await quote(gateway, { application: 'wallet' })
    expect(await floatOrder(gateway, { application: 'wallet' })).toBe(409)
    const { lastRefusals, ordersRefused } = await statusOf(gateway.operationsUrl)
    expect(ordersRefused).toBe(1)
    expect(lastRefusals).toEqual([
      expect.objectContaining({
        reason: 'expired',
        pair: 'ETH_USDC',
        amount: '0.1',
        application: 'wallet',
        quoteId: id,
        quoteAgeMs: expect.any(Number),
        expiredForMs: 0,
      }),
    ])
  })

  test('keeps the last fifty refusals, the newest first, and counts them all', async () => {
    const gateway = await gatewayWith({ ORDER_UNKNOWN_QUOTE: 'refuse' })
    for (let order = 1; order <= 53; order += 1) await floatOrder(gateway, { amount: String(order) })
    const { lastRefusals, ordersRefused } = await statusOf(gateway.operationsUrl)
    expect(ordersRefused).toBe(53)
    expect(lastRefusals).toHaveLength(50)
    expect(lastRefusals[0]).toMatchObject({ reason: 'unknown', amount: '53' })
  })

  test('shows no request details in production without a token', async () => {
    const gateway = await gatewayWith({ ...production, ORDER_UNKNOWN_QUOTE: 'refuse' })
    await floatOrder(gateway, { pair: 'SECRET_PAIR', application: 'secret-application' })
    await fetch(`${gateway.url}/v3/pairs/A_B/quotes?amount=1`, {
      headers: { 'App-Name': 'demo', Forwarded: 'for=198.51.100.7' },
    })
    const { body } = await ask(`${gateway.operationsUrl}/status`)
    expect(JSON.parse(body)).toMatchObject({
      access: 'reading',
      ordersRefused: 1,
      untrustedPeers: { count: 1, peers: [] },
    })
    expect(body.toLowerCase()).not.toContain('secret')
  })
})

describe('a gateway with a store that replicas share', () => {
  const ready = async (operationsUrl: string) => {
    const { status, body } = await ask(`${operationsUrl}/readyz`)
    return { code: status, ...JSON.parse(body) }
  }
  const storeUp = async (gateway: { metrics(): Promise<string> }) =>
    /^quotegate_store_up (\d)$/m.exec(await gateway.metrics())?.[1]

  test('says that it has one, and no password of it', { tags: ['redis-server'] }, async () => {
    const { url } = await valkey({ password: 'hunter2' })
    const gateway = await gatewayWith({ VALKEY_URL: url })
    await expect
      .poll(() => statusOf(gateway.operationsUrl), { timeout: 10_000 })
      .toMatchObject({ ready: true, degraded: false, store: { kind: 'valkey', up: true } })
    expect(await ready(gateway.operationsUrl)).toEqual({ code: 200, status: 'ready', degraded: false })
    expect(await storeUp(gateway)).toBe('1')
    expect(JSON.stringify(await statusOf(gateway.operationsUrl))).not.toContain('hunter2')
  })

  test('is ready although the store is down, and says that it is degraded', async () => {
    const gateway = await gatewayWith({ VALKEY_URL: `redis://127.0.0.1:${await freePort()}` })
    expect(await statusOf(gateway.operationsUrl)).toMatchObject({
      ready: true,
      degraded: true,
      store: { kind: 'valkey', up: false },
    })
    expect(await ready(gateway.operationsUrl)).toEqual({ code: 200, status: 'ready', degraded: true })
    expect(await storeUp(gateway)).toBe('0')
    const { id } = await quote(gateway)
    expect(id).toEqual(expect.any(String))
  })
})

describe('explain', () => {
  const order = (members: object = {}) => JSON.stringify({ pairId: 'ETH_USDC', fromAmount: 0.1, ...members })

  test('finds the quote of an order and changes nothing', async () => {
    const gateway = await gatewayWith()
    const { id } = await quote(gateway)
    const before = await gateway.metrics()
    const said = JSON.parse((await act(gateway, 'explain', { body: order(), application: 'demo' })).body)
    expect(said).toMatchObject({
      decision: 'forwarded-live',
      matchedBy: 'pays',
      quote: { id, application: 'demo' },
    })
    const decisions = (text: string) =>
      text.split('\n').filter((line) => line.startsWith('quotegate_float_orders_total'))
    expect(decisions(await gateway.metrics())).toEqual(decisions(before))
    expect(await statusOf(gateway.operationsUrl)).toMatchObject({ ordersRefused: 0, cache: { entries: 1 } })
  })

  test('says the same as the order route about a late order', async () => {
    const gateway = await gatewayWith({ ORDER_EXPIRY_MARGIN_MS: 60_000 })
    await quote(gateway)
    const said = JSON.parse((await act(gateway, 'explain', { body: order(), application: 'demo' })).body)
    expect(said).toMatchObject({ decision: 'refused-expired' })
    expect(await floatOrder(gateway)).toBe(409)
  })

  test('tells another application apart', async () => {
    const gateway = await gatewayWith()
    await quote(gateway)
    const said = JSON.parse((await act(gateway, 'explain', { body: order(), application: 'other' })).body)
    expect(said.decision).toBe('forwarded-unknown')
  })

  test.each(['', '[]', '{"a":1,"a":2}', '{'])('says what is wrong with the body %j', async (body) => {
    const gateway = await gatewayWith()
    const said = JSON.parse((await act(gateway, 'explain', { body })).body)
    expect(said).toEqual({ decision: 'bad-order', detail: expect.stringContaining('The body') })
  })
})

describe('dropping quotes from the cache', () => {
  test('drops the one quote that is named', async () => {
    const gateway = await gatewayWith()
    const { id } = await quote(gateway)
    const other = await quote(gateway, { amount: '2' })
    expect(JSON.parse((await act(gateway, 'drop', { id })).body)).toEqual({ dropped: 1 })
    expect((await quote(gateway, { amount: '2' })).id).toBe(other.id)
    expect((await quote(gateway)).id).not.toBe(id)
    expect((await act(gateway, 'drop', {})).status).toBe(400)
  })

  test('a quote that was dropped can still be ordered: the ledger remembers', async () => {
    const gateway = await gatewayWith({ ORDER_UNKNOWN_QUOTE: 'refuse' })
    await quote(gateway)
    await act(gateway, 'drop-all')
    expect(await floatOrder(gateway)).not.toBe(409)
  })
})

describe('try', () => {
  test('asks through the traffic listener, and says how to do it with curl', async () => {
    const gateway = await gatewayWith()
    const trial = { kind: 'quote', pair: "E'TH", amount: '0.1', application: "o'demo", client: '' }
    const said = JSON.parse((await act(gateway, 'try', trial)).body)
    expect(said.curl).toBe(
      `curl -i -H 'App-Name: o'\\''demo' '${gateway.url}/v3/pairs/E'\\''TH/quotes?amount=0.1'`,
    )
    expect(said.status).toBe(404)
  })

  test('sends half a surrogate pair as it would be sent over the wire', async () => {
    const gateway = await gatewayWith()
    const trial = { kind: 'quote', pair: 'ETH\ud800', amount: '0.1', application: 'demo' }
    const { status, body } = await act(gateway, 'try', trial)
    expect([status, JSON.parse(body).curl]).toEqual([200, expect.stringContaining('/v3/pairs/ETH%EF%BF%BD/')])
  })

  test('shows a miss, then a hit', async () => {
    const gateway = await gatewayWith()
    const trial = { kind: 'quote', pair: 'ETH_USDC', amount: '0.1', application: 'demo' }
    const cacheStatus = async () => {
      const { headers } = JSON.parse((await act(gateway, 'try', trial)).body) as {
        headers: [string, string][]
      }
      return headers.find(([name]) => name === 'Cache-Status')?.[1]
    }
    expect(await cacheStatus()).toContain('stored')
    expect(await cacheStatus()).toContain('hit')
  })

  test('sends the client address in the header that this gateway trusts', async () => {
    const gateway = await gatewayWith({ TRUST_PROXY: 'loopback' })
    const trial = {
      kind: 'quote',
      pair: 'ETH_USDC',
      amount: '0.1',
      application: 'demo',
      client: '203.0.113.5',
    }
    const said = JSON.parse((await act(gateway, 'try', trial)).body)
    expect(said.body).toContain('RESTRICTED_GEOLOCATION')
  })

  test.each([
    { kind: 'quote', pair: '..', amount: '1' },
    { kind: 'quote', pair: 'A_B', amount: '1', client: '1.2.3.4\r\nX: y' },
    { kind: 'quote', pair: 'A_B', amount: '1', application: 'a\r\nX: y' },
    { kind: 'delete', pair: 'A_B' },
  ])('refuses input that it could not send unchanged: %j', async (trial) => {
    expect((await act(await gatewayWith(), 'try', trial)).status).toBe(400)
  })
})

test('the faults of the sandbox are set all together or not at all', async () => {
  const gateway = await gatewayWith()
  expect(JSON.parse((await act(gateway, 'faults', { quoteLifetimeMs: 5_000 })).body)).toMatchObject({
    quoteLifetimeMs: 5_000,
  })
  const wrong = await act(gateway, 'faults', { quoteLifetimeMs: 9_000, errorRate: 2 })
  expect(wrong.status).toBe(400)
  expect(wrong.body).toContain('errorRate')
  const { expiry } = await quote(gateway)
  expect(expiry - Date.now()).toBeLessThanOrEqual(5_000)
})
