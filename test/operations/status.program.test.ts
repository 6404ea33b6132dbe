import { describe, expect, test } from 'vitest'
import { settingNames } from '../../src/config/settings.ts'
import { status as declaredStatus } from '../../src/operations/schemas.ts'
import { newFolder } from '../journal/disk-support.ts'
import { counted } from '../support/clients/quotes.ts'
import { gatewayWith } from '../support/gateways/between.ts'
import type { RunningGateway } from '../support/gateways/gateway.ts'
import { freePort } from '../support/machine/free-port.ts'
import { valkey } from '../support/stores/valkey.ts'
import {
  act,
  aSecond,
  ask,
  floatOrder,
  gatewayInHaste,
  quote,
  statusOf,
} from './support.ts'

/** What an action answers. */
async function acted(gateway: RunningGateway, action: string, body: object) {
  return JSON.parse((await act(gateway, action, body)).body)
}

describe('/status', () => {
  test('says what is declared, and nothing else, also of a folder', async () => {
    const gateway = await gatewayWith({ STATE_DIRECTORY: newFolder() })
    await quote(gateway)
    const said = await statusOf(gateway)
    // What is not declared is left out of what is read.
    expect(declaredStatus.parse(said)).toEqual(said)
    expect(said.journal.disk.failures).toEqual({
      folder: 0,
      write: 0,
      sync: 0,
      copy: 0,
    })
  })

  test('has the version, the state of the upstreams, the cache and the settings', async () => {
    const gateway = await gatewayWith({ UPSTREAM_CONNECTIONS: 7, queue: 9 })
    await quote(gateway)
    const status = await statusOf(gateway)
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
      untrustedPeers: { count: 0, peers: [] },
    })
    expect(status.uptimeMs).toBeGreaterThan(0)
    const named = (name: string) =>
      status.upstreams.find((upstream: { name: string }) => upstream.name === name)
    const closed = { state: 'closed', retryAfterMs: 0 }
    expect(named('swap')).toMatchObject({
      inFlight: 0,
      connectionsMost: 7,
      queueMost: 9,
      openPairs: 0,
    })
    const ofSwap = ['connections', 'orders', 'rest'].map((name) => ({ name, ...closed }))
    expect(named('swap').breakers).toEqual(ofSwap)
    expect(named('payments').breakers).toEqual([{ name: 'connections', ...closed }])
    const settings = JSON.parse((await ask(`${gateway.operationsUrl}/settings`)).body)
    expect(settings.map(({ name }: { name: string }) => name)).toEqual(settingNames)
    const connections = {
      name: 'UPSTREAM_CONNECTIONS',
      value: '7',
      source: 'environment',
      meaning: expect.any(String),
    }
    expect(settings).toContainEqual(connections)
  })

  test("says LIVE as soon as one upstream is not the sandbox, and which upstream's breaker is open", async () => {
    const gateway = await gatewayInHaste({
      SWAP_BASE_URL: 'http://127.0.0.1:9',
      PAYMENTS_BASE_URL: 'sandbox',
      breakerFailures: 1,
      retries: 0,
    })
    await quote(gateway)
    gateway.pass(aSecond)
    await quote(gateway)
    const { upstreams, mode } = await statusOf(gateway)
    expect(mode).toBe('LIVE')
    const open = { name: 'connections', state: 'open', retryAfterMs: expect.any(Number) }
    const swap = { name: 'swap', breakers: expect.arrayContaining([open]), openPairs: 0 }
    expect(upstreams).toContainEqual(expect.objectContaining(swap))
  })
})

describe('a gateway with a store that replicas share', () => {
  async function expectStore(gateway: RunningGateway, up: boolean): Promise<void> {
    const store = { kind: 'valkey', up }
    await expect
      .poll(() => statusOf(gateway))
      .toMatchObject({ ready: true, degraded: !up, store })
    const { status, body } = await ask(`${gateway.operationsUrl}/readyz`)
    expect([status, JSON.parse(body)]).toEqual([200, { status: 'ready', degraded: !up }])
    expect(await counted(gateway, 'quotegate_store_up')).toBe(Number(up))
  }

  test('says that it has one, and no password of it', {
    tags: ['redis-server'],
  }, async () => {
    const gateway = await gatewayWith({
      VALKEY_URL: (await valkey({ password: 'hunter2' })).url,
    })
    await expectStore(gateway, true)
    expect(JSON.stringify(await statusOf(gateway))).not.toContain('hunter2')
  })

  test('is ready although the store is down, and says that it is degraded', async () => {
    const gateway = await gatewayWith({
      VALKEY_URL: `redis://127.0.0.1:${await freePort()}`,
    })
    await expectStore(gateway, false)
    expect((await quote(gateway)).id).toEqual(expect.any(String))
  })
})

describe('explain', () => {
  const body = JSON.stringify({ pairId: 'ETH_USDC', fromAmount: 0.1 })

  test('finds the live quote of an order, whose application it may not be, and changes nothing', async () => {
    const gateway = await gatewayWith()
    const { id } = await quote(gateway)
    const counts = async () =>
      (await gateway.metrics()).match(/^quotegate_float_orders_total.*$/gm)
    const before = await counts()
    expect(await acted(gateway, 'explain', { body, application: 'demo' })).toMatchObject({
      decision: 'forwarded-live',
      rule: 'pays',
      quoteId: id,
      application: 'demo',
      quotes: [{ id, decided: true }],
    })
    const ofAnother = await acted(gateway, 'explain', { body, application: 'other' })
    expect(ofAnother).toMatchObject({ decision: 'forwarded-live', quoteId: id })
    expect(await counts()).toEqual(before)
    expect(await statusOf(gateway)).toMatchObject({
      ordersRefused: 0,
      cache: { entries: 1 },
    })
  })

  test('says the same as the order route about a late order', async () => {
    const gateway = await gatewayWith({ ORDER_EXPIRY_MARGIN_MS: 60_000 })
    await quote(gateway)
    const said = await acted(gateway, 'explain', { body, application: 'demo' })
    expect(said).toMatchObject({ decision: 'refused-expired' })
    expect(await floatOrder(gateway)).toBe(409)
  })

  test('says what is wrong with a body', async () => {
    const gateway = await gatewayWith()
    for (const body of ['', '[]', '{"a":1,"a":2}', '{']) {
      const bad = { decision: 'bad-order', detail: expect.stringContaining('The body') }
      expect(await acted(gateway, 'explain', { body }), body).toEqual(bad)
    }
  })
})

test('a quote that is dropped is not in the cache, and can still be ordered: the ledger remembers', async () => {
  const gateway = await gatewayWith({ ORDER_UNKNOWN_QUOTE: 'refuse' })
  const { id } = await quote(gateway)
  const other = await quote(gateway, { amount: '2' })
  expect(await acted(gateway, 'drop', { id })).toEqual({ dropped: 1 })
  expect((await quote(gateway, { amount: '2' })).id).toBe(other.id)
  expect((await quote(gateway)).id).not.toBe(id)
  expect((await act(gateway, 'drop', {})).status).toBe(400)
  expect(await acted(gateway, 'drop-all', {})).toEqual({ dropped: 2 })
  expect(await floatOrder(gateway)).not.toBe(409)
})

describe('try', () => {
  const trial = { kind: 'quote', pair: 'ETH_USDC', amount: '0.1', application: 'demo' }

  test('asks through the traffic listener, and says how to do it with curl', async () => {
    const gateway = await gatewayWith()
    const said = await acted(gateway, 'try', {
      ...trial,
      pair: "E'TH",
      application: "o'demo",
      client: '',
    })
    expect(said.curl).toBe(
      `curl -i -H 'App-Name: o'\\''demo' '${gateway.url}/v3/pairs/E'\\''TH/quotes?amount=0.1'`,
    )
    expect(said.status).toBe(404)
    // Half a surrogate pair goes as it would go over the wire.
    const half = await acted(gateway, 'try', { ...trial, pair: 'ETH\ud800' })
    expect(half.curl).toContain('/v3/pairs/ETH%EF%BF%BD/')
  })

  test("shows a miss, then a hit, by the user's address in the header that this gateway trusts", async () => {
    const gateway = await gatewayWith({ TRUST_PROXY: 'loopback' })
    for (const how of ['stored', 'hit']) {
      const { headers } = (await acted(gateway, 'try', trial)) as {
        headers: [string, string][]
      }
      expect(Object.fromEntries(headers)['Cache-Status']).toContain(how)
    }
    const named = { ...trial, client: '203.0.113.5' }
    expect((await acted(gateway, 'try', named)).body).toContain('RESTRICTED_GEOLOCATION')
    // It would be counted as a proxy that is missing in TRUST_PROXY, and so be an outage that never ends.
    const distrusting = await gatewayWith({ TRUST_PROXY: '10.0.0.0/8' })
    const { status, body } = await act(distrusting, 'try', named)
    expect([status, body]).toEqual([
      400,
      expect.stringContaining('Without TRUST_PROXY=loopback'),
    ])
    expect(await statusOf(distrusting)).toMatchObject({
      untrustedPeers: { count: 0 },
      outages: [],
    })
  })

  test.each([
    { kind: 'quote', pair: '..', amount: '1' },
    { kind: 'quote', pair: 'A_B', amount: '1', client: '1.2.3.4\r\nX: y' },
    { kind: 'quote', pair: 'A_B', amount: '1', application: 'a\r\nX: y' },
    { kind: 'delete', pair: 'A_B' },
  ])('refuses input that it could not send unchanged: %j', async (unsendable) => {
    expect((await act(await gatewayWith(), 'try', unsendable)).status).toBe(400)
  })
})

test('the faults of the sandbox are set all together or not at all', async () => {
  const gateway = await gatewayWith()
  const changed = await acted(gateway, 'faults', { quoteLifetimeMs: 5_000 })
  expect(changed).toMatchObject({ quoteLifetimeMs: 5_000 })
  const wrong = await act(gateway, 'faults', { quoteLifetimeMs: 9_000, errorRate: 2 })
  expect([wrong.status, wrong.body]).toEqual([400, expect.stringContaining('errorRate')])
  const { expiry } = await quote(gateway)
  expect(expiry - Date.now()).toBeLessThanOrEqual(5_000)
})
