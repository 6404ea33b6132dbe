import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import request from 'supertest'
import { afterEach, describe, expect, test, vi } from 'vitest'
import {
  createGateway,
  type Gateway,
  type GatewaySettings,
  ListenError,
  SettingsError,
} from '../../src/index.ts'

const open: Gateway[] = []
afterEach(async () => {
  await Promise.all(open.splice(0).map((gateway) => gateway.close()))
})

async function gatewayOf(settings: GatewaySettings = {}): Promise<Gateway> {
  const gateway = await createGateway({ PORT: 0, ADMIN_PORT: 0, ...settings })
  open.push(gateway)
  return gateway
}

const quotePath = '/v3/pairs/ETH_USDC/quotes?amount=0.1'
const cacheStatus = (response: request.Response) => response.headers['cache-status']

describe.each(['app', 'listener'] as const)('gateway.%s, without listening', (name) => {
  test('answers a quote, and the next one from its cache', async () => {
    const gateway = await gatewayOf()
    const ask = () => request(gateway[name]).get(quotePath).set('App-Name', 'tests')
    const first = await ask().expect(200)
    expect(first.body).toMatchObject({ pairId: 'ETH_USDC', expiry: expect.any(Number) })
    expect(cacheStatus(first)).toMatch(/fwd=uri-miss; stored/)
    const second = await ask().expect(200)
    expect(cacheStatus(second)).toMatch(/^quotegate; hit/)
    expect(second.text).toBe(first.text)
  })

  test('relays an order and a payment, and answers 404 to the rest', async () => {
    const gateway = await gatewayOf()
    const { body: quote } = await request(gateway[name]).get(quotePath).set('App-Name', 'tests')
    const order = { pairId: quote.pairId, fromAmount: 0.1, toAmount: quote.toAmount.value, toAddress: '0xto' }
    const post = (path: string) => request(gateway[name]).post(path).set('App-Name', 'tests')
    await post('/v3/orders/float').send(order).expect(201)
    const checkout = await post('/checkouts').set('Authorization', 'Bearer any').send({ amount: '10.00' })
    expect([checkout.status, checkout.body.amount]).toEqual([201, '10.00'])
    const nothing = await request(gateway[name]).get('/nothing').expect(404)
    expect(nothing.body.type).toBe('urn:quotegate:problem:not-found')
  })

  test('counts them in metrics() and serves the operations app too', async () => {
    const gateway = await gatewayOf()
    await request(gateway[name]).get(quotePath).set('App-Name', 'tests')
    expect(await gateway.metrics()).toContain('quotegate_cache_lookups_total{result="miss"} 1')
    const page = await request(gateway.operations).get('/metrics').expect(200)
    expect(page.text).toContain('quotegate_cache_lookups_total{result="miss"} 1')
    await request(gateway.operations).get('/healthz').expect(200)
    await request(gateway.operations).get('/status').expect(200)
    // No client could be sent to its ports.
    await request(gateway.operations).get('/readyz').expect(503)
  })
})

test('several gateways in one process share nothing', async () => {
  const [one, other] = [await gatewayOf(), await gatewayOf()]
  const ask = (gateway: Gateway) => request(gateway.listener).get(quotePath).set('App-Name', 'tests')
  const first = await ask(one)
  const second = await ask(other)
  expect(cacheStatus(second)).toMatch(/stored/)
  expect(second.body.id).not.toBe(first.body.id)
  expect(one.sandboxUrl).not.toBe(other.sandboxUrl)
  await ask(one)
  expect(await one.metrics()).toContain('quotegate_cache_lookups_total{result="hit"} 1')
  expect(await other.metrics()).toContain('quotegate_cache_lookups_total{result="hit"} 0')
  await one.close()
  await ask(other).expect(200)
})

describe('listen() and close()', () => {
  test('listens once, however often it is called', async () => {
    const gateway = await gatewayOf()
    const [first, second] = await Promise.all([gateway.listen(), gateway.listen()])
    expect(second).toEqual(first)
    expect((await fetch(`${first.operationsUrl}/readyz`)).status).toBe(200)
  })

  test('closes twice, before it listens, and while it starts to listen', async () => {
    const never = await gatewayOf()
    await Promise.all([never.close(), never.close()])
    const gateway = await gatewayOf()
    const listening = gateway.listen()
    const closing = gateway.close()
    const { trafficUrl, operationsUrl } = await listening
    await closing
    for (const url of [trafficUrl, operationsUrl]) await expect(fetch(url)).rejects.toThrow('fetch failed')
  })

  test('does not listen again once it is closed, and answers 502 where it is still mounted', async () => {
    const gateway = await gatewayOf()
    await gateway.close()
    await expect(gateway.listen()).rejects.toThrow(ListenError)
    const answer = await request(gateway.listener).get(quotePath).set('App-Name', 'tests')
    expect(answer.status).toBe(502)
  })

  test.each(['PORT', 'ADMIN_PORT'])(
    'leaves nothing open if %s is taken, and can be called again',
    async (name) => {
      const other = createServer()
      await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
      const { port } = other.address() as AddressInfo
      const gateway = await gatewayOf({ [name]: port })
      const listeners = () =>
        process.getActiveResourcesInfo().filter((kind) => kind === 'TCPServerWrap').length
      const before = listeners()
      await expect(gateway.listen()).rejects.toThrow(`127.0.0.1:${port} is already in use`)
      await expect(gateway.listen()).rejects.toThrow(ListenError)
      await expect.poll(listeners).toBeLessThanOrEqual(before)
      await new Promise((resolve) => other.close(resolve))
      const { trafficUrl, operationsUrl } = await gateway.listen()
      expect([trafficUrl, operationsUrl].join()).toContain(`:${port}`)
      expect((await fetch(`${operationsUrl}/readyz`)).status).toBe(200)
    },
  )

  // Node took what each try left behind for a leak, and warned of it.
  test('leaves no listener after a failed try, however often it is repeated', async () => {
    const other = createServer()
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
    const { port } = other.address() as AddressInfo
    const warnings: string[] = []
    const onWarning = ({ name }: Error) => warnings.push(name)
    process.on('warning', onWarning)
    const gateway = await gatewayOf({ PORT: port })
    for (let tried = 0; tried < 12; tried += 1) await expect(gateway.listen()).rejects.toThrow(ListenError)
    await new Promise((resolve) => setImmediate(resolve))
    process.off('warning', onWarning)
    await new Promise((resolve) => other.close(resolve))
    expect(warnings).toEqual([])
  })

  test('is called by `await using` at the end of its block', async () => {
    const gateway = await gatewayOf()
    const { trafficUrl } = await gateway.listen()
    await gateway[Symbol.asyncDispose]()
    await expect(fetch(trafficUrl)).rejects.toThrow('fetch failed')
  })

  test('close() waits for requests that came through the app', async () => {
    const gateway = await gatewayOf()
    await fetch(`${gateway.sandboxUrl}/sandbox/faults`, { method: 'PUT', body: '{"latencyMs":200}' })
    const answer = request(gateway.app)
      .get('/v3/pairs')
      .then(({ status }) => status)
    await expect.poll(() => gateway.metrics()).toContain('quotegate_http_requests_in_flight 1')
    await gateway.close()
    expect(await answer).toBe(200)
  })
})

describe('settings', () => {
  test('are strings, numbers, booleans, and arrays for lists', async () => {
    const gateway = await gatewayOf({
      TRUST_PROXY: ['10.0.0.0/8', 'loopback'],
      METRICS_PAIRS: 'ETH_USDC',
      ACCESS_LOG: false,
      UPSTREAM_CONNECTIONS: 7,
    })
    expect(await gateway.metrics()).toContain('pair="ETH_USDC"')
    const status = JSON.parse((await request(gateway.operations).get('/status')).text)
    const values = Object.fromEntries(
      status.settings.map(({ name, value }: { name: string; value: string }) => [name, value]),
    )
    expect(values).toMatchObject({
      TRUST_PROXY: '10.0.0.0/8,loopback',
      ACCESS_LOG: 'off',
      UPSTREAM_CONNECTIONS: '7',
    })
  })

  test('that are wrong are all named in one typed error, secrets masked', async () => {
    const settings = { PORT: 70_000, SWAP_BASE_URL: 'ftp://user:sk_live_1@x', ACCESS_LOG: [{}] }
    const error = await createGateway(settings as never).catch((thrown) => thrown)
    expect(error).toBeInstanceOf(SettingsError)
    expect(error.problems).toEqual([
      { name: 'ACCESS_LOG', value: '(object)', expected: expect.stringContaining('a boolean') },
      { name: 'PORT', value: '70000', expected: expect.any(String) },
      { name: 'SWAP_BASE_URL', value: expect.stringContaining('****'), expected: expect.any(String) },
    ])
    expect(error.message).not.toContain('sk_live')
  })

  test.each(['swapBaseUrl', 'SWAP_BASEURL', 'QUOTE_PARTITON'])('refuses %s, a near-miss', async (name) => {
    await expect(createGateway({ [name]: 'x' })).rejects.toThrow(`${name} is not a setting`)
  })

  test('are not read from the environment', async () => {
    vi.stubEnv('ADMIN_TOKEN', 'short')
    vi.stubEnv('SWAP_BASEURL', 'http://127.0.0.1:1')
    await gatewayOf()
    vi.unstubAllEnvs()
  })
})

describe('the logger', () => {
  test('may consist of four functions', async () => {
    const lines: [object, string][] = []
    const write = (members: object, message: string) => lines.push([members, message])
    const logger = { debug: write, info: write, warn: write, error: write }
    const gateway = await createGateway({ QUOTE_PARTITION_HEADER: 'cf-ipcountry' }, { logger })
    open.push(gateway)
    expect(lines.map(([, message]) => message)).toEqual([expect.stringContaining('QUOTE_PARTITION_HEADER')])
    await request(gateway.listener).get('/nothing')
    expect(lines.map(([members]) => members)).toContainEqual(expect.objectContaining({ status: 404 }))
  })
})
