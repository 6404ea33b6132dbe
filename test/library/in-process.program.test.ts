import { setTimeout } from 'node:timers/promises'
import request from 'supertest'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { createGateway, type Gateway, ListenError } from '../../src/index.ts'
import { outcomeOf } from '../support/gateways/library-program.ts'
import { askQuote, gatewayOf, orderFor, ownServer } from './support.ts'

const cacheStatus = (response: request.Response) => response.headers['cache-status']

test('without listening a gateway answers quotes, orders, payments and what operators ask', async () => {
  const { app, listener, operations, metrics } = await gatewayOf()
  const first = await askQuote(app).expect(200)
  expect(first.body).toMatchObject({ pairId: 'ETH_USDC', expiry: expect.any(Number) })
  expect(cacheStatus(first)).toMatch(/fwd=uri-miss; stored/)
  const second = await askQuote(listener).expect(200)
  expect(cacheStatus(second)).toMatch(/^quotegate; hit/)
  expect(second.text).toBe(first.text)
  const post = (path: string) => request(app).post(path).set('App-Name', 'tests')
  await post('/v3/orders/float').send(orderFor(first.body)).expect(201)
  const checkout = await post('/checkouts')
    .set('Authorization', 'Bearer any')
    .send({ amount: '10.00' })
  expect([checkout.status, checkout.body.amount]).toEqual([201, '10.00'])
  const nothing = await request(app).get('/nothing').expect(404)
  expect(nothing.body.type).toBe('urn:quotegate:problem:not-found')

  const miss = 'quotegate_cache_lookups_total{result="miss"} 1'
  expect(await metrics()).toContain(miss)
  expect((await request(operations).get('/metrics').expect(200)).text).toContain(miss)
  await request(operations).get('/healthz').expect(200)
  // No caller could be sent to its ports.
  await request(operations).get('/readyz').expect(503)
})

test('several gateways in one process share nothing', async () => {
  const [one, other] = [await gatewayOf(), await gatewayOf()]
  const [first, second] = [await askQuote(one.app), await askQuote(other.app)]
  expect(cacheStatus(second)).toMatch(/stored/)
  expect(second.body.id).not.toBe(first.body.id)
  expect(one.sandboxUrl).not.toBe(other.sandboxUrl)
  await askQuote(one.app)
  const hits = (count: number) => `quotegate_cache_lookups_total{result="hit"} ${count}`
  expect(await one.metrics()).toContain(hits(1))
  expect(await other.metrics()).toContain(hits(0))
  await one.close()
  await askQuote(other.app).expect(200)
})

describe('listen() and close()', () => {
  const expectClosed = async (...urls: string[]) => {
    for (const url of urls) await expect(fetch(url)).rejects.toThrow('fetch failed')
  }

  test('listens once, however often it is called', async () => {
    const gateway = await gatewayOf()
    const [first, second] = await Promise.all([gateway.listen(), gateway.listen()])
    expect(second).toEqual(first)
    expect((await fetch(`${first.operationsUrl}/readyz`)).status).toBe(200)
  })

  test('closes twice, before it listens, while it starts to listen, and by `await using`', async () => {
    const never = await gatewayOf()
    await Promise.all([never.close(), never[Symbol.asyncDispose]()])
    const gateway = await gatewayOf()
    const [{ trafficUrl, operationsUrl }] = await Promise.all([
      gateway.listen(),
      gateway.close(),
    ])
    await expectClosed(trafficUrl, operationsUrl)
  })

  test('does not listen again once it is closed, and answers 502 where it is still mounted', async () => {
    const gateway = await gatewayOf()
    await gateway.close()
    await expect(gateway.listen()).rejects.toThrow(ListenError)
    await askQuote(gateway.app).expect(502)
  })

  // Node took what each failed try left behind for a leak, and warned of it.
  test.each(['PORT', 'ADMIN_PORT'])(
    'leaves nothing behind if %s is taken, however often it is tried, and can be called again',
    async (name) => {
      const { port, close } = await ownServer()
      const warnings: string[] = []
      const onWarning = ({ name }: Error) => warnings.push(name)
      process.on('warning', onWarning)
      const gateway = await gatewayOf({ [name]: port })
      const open = () =>
        process.getActiveResourcesInfo().filter((kind) => kind === 'TCPServerWrap').length
      const before = open()
      for (let tried = 0; tried < 12; tried += 1) {
        const error = await gateway.listen().catch((thrown) => thrown)
        expect(error).toBeInstanceOf(ListenError)
        expect(error.message).toContain(`127.0.0.1:${port} is already in use`)
      }
      await expect.poll(open).toBeLessThanOrEqual(before)
      process.off('warning', onWarning)
      expect(warnings).toEqual([])
      await close()
      const { trafficUrl, operationsUrl } = await gateway.listen()
      expect(trafficUrl + operationsUrl).toContain(`:${port}`)
      expect((await fetch(`${operationsUrl}/readyz`)).status).toBe(200)
    },
  )

  test('close() waits for requests that came through the app', async () => {
    const gateway = await gatewayOf()
    await fetch(`${gateway.sandboxUrl}/sandbox/faults`, {
      method: 'PUT',
      body: '{"latencyMs":200}',
    })
    const answer = request(gateway.app)
      .get('/v3/pairs')
      .then(({ status }) => status)
    await expect
      .poll(() => gateway.metrics())
      .toContain('quotegate_http_requests_in_flight 1')
    await gateway.close()
    expect(await answer).toBe(200)
  })

  // A test runner that waits for the process to end would wait forever.
  test.each([
    ['dropped', ''],
    ['used and dropped', 'await use()'],
    ['used and closed', 'await use(); await gateway.close()'],
    ['listening and closed', 'await gateway.listen(); await gateway.close()'],
  ])('lets a process end by itself with a gateway that was %s', async (_what, then) => {
    const { code, output } = await outcomeOf(`
    import { createServer } from 'node:http'
    const gateway = await createGateway({ PORT: 0, ADMIN_PORT: 0, RATE_LIMIT_PER_MINUTE: 100 })
    const use = async () => {
      const server = createServer(gateway.listener).listen(0)
      const url = 'http://127.0.0.1:' + server.address().port
      const headers = { 'App-Name': 'tests', Connection: 'close' }
      const answers = [fetch(url + '/v3/pairs/ETH_USDC/quotes?amount=0.1', { headers }), fetch(url + '/v3/pairs', { headers })]
      console.log((await Promise.all(answers)).map(({ status }) => status).join())
      server.close()
    }
    ${then}
    console.log('done')
  `)
    expect([code, output]).toEqual([
      0,
      `${then.includes('use') ? '200,200\n' : ''}done\n`,
    ])
  })
})

describe('fake timers', () => {
  const fake = () => {
    vi.useFakeTimers({ toFake: ['Date', 'performance'] })
    onTestFinished(() => void vi.useRealTimers())
  }
  /** The status of the order for a quote that was asked for before `meanwhile`. */
  async function orderedAfter(app: Gateway['app'], meanwhile: () => unknown) {
    const { body: quote } = await askQuote(app).expect(200)
    await meanwhile()
    const order = request(app).post('/v3/orders/float').set('App-Name', 'tests')
    const { status } = await order.set('Quotegate-Quote', quote.id).send(orderFor(quote))
    return status
  }

  test('of Date and performance are followed, whether they began before a gateway was made', async () => {
    fake()
    const { app } = await gatewayOf()
    expect(await orderedAfter(app, () => vi.advanceTimersByTime(20_000))).toBe(201)
    expect(await orderedAfter(app, () => vi.advanceTimersByTime(40_000))).toBe(409)
  })

  test('or after it, and again after they were put back', async () => {
    const { app } = await gatewayOf()
    for (const _twice of [1, 2]) {
      fake()
      expect(await orderedAfter(app, () => vi.advanceTimersByTime(20_000))).toBe(201)
      expect(await orderedAfter(app, () => vi.advanceTimersByTime(40_000))).toBe(409)
      vi.useRealTimers()
      expect(await orderedAfter(app, () => {})).toBe(201)
    }
  })

  test('that ended let quotes expire by the real time, also of a gateway that was made under them', async () => {
    fake()
    const { app, sandboxUrl } = await gatewayOf()
    vi.useRealTimers()
    const faults = { method: 'PUT', body: '{"quoteLifetimeMs":300}' }
    await fetch(`${sandboxUrl}/sandbox/faults`, faults)
    expect(await orderedAfter(app, () => setTimeout(600))).toBe(409)
  })

  test('of setTimeout move the deadline of a request that begins under them', async () => {
    const { app, sandboxUrl } = await gatewayOf()
    const faults = { method: 'PUT', body: '{"latencyMs":60000}' }
    await fetch(`${sandboxUrl}/sandbox/faults`, faults)
    vi.useFakeTimers({ toFake: ['Date', 'performance', 'setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    let status = 0
    void askQuote(app).then((answer) => {
      status = answer.status
    })
    await vi.waitUntil(() => vi.advanceTimersByTime(1_000) && status !== 0, {
      timeout: 60_000,
    })
    expect(status).toBe(504)
  })
})

test('settings are not read from the environment', async () => {
  vi.stubEnv('ADMIN_TOKEN', 'short')
  vi.stubEnv('SWAP_BASEURL', 'http://127.0.0.1:1')
  await gatewayOf()
  vi.unstubAllEnvs()
})

test('the logger may consist of four functions', async () => {
  const lines: [object, string][] = []
  const write = (members: object, message: string) => lines.push([members, message])
  const logger = { debug: write, info: write, warn: write, error: write }
  const settings = { SWAP_BASE_URL: 'sandbox', QUOTE_PARTITION_HEADER: 'cf-ipcountry' }
  await using gateway: Gateway = await createGateway(settings, { logger })
  expect(lines.map(([, message]) => message)).toEqual([
    expect.stringContaining('QUOTE_PARTITION_HEADER'),
  ])
  await request(gateway.app).get('/nothing')
  expect(lines.map(([members]) => members)).toContainEqual(
    expect.objectContaining({ status: 404 }),
  )
})
