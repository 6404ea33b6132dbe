import { expect, test } from 'vitest'
import { version } from '../../src/process/package-info.ts'
import {
  ask,
  asking,
  giveQuote,
  lookups,
  untilCounted,
} from '../support/clients/quotes.ts'
import { pause, until } from '../support/gateways/between.ts'
import { type Collector, inEnvironment, treeOf } from '../support/observing/collector.ts'
import { sendOrder, traced, valuesOf } from './support.ts'

const quoteRoute = 'GET /v3/pairs/{pairId}/quotes'
const ofOrders = ['quotegate.order.decision', 'quotegate.order.rule']

/** Exactly these: a moment later there are no more. */
async function exactly(
  collector: Collector,
  count: number,
  shown: readonly string[] = [],
): Promise<string[]> {
  await collector.received(count)
  await pause(100)
  return treeOf(collector.spans(), shown)
}

const instance = expect.stringMatching(/^[\da-f]{8}-[\da-f-]{27}$/)

test.each([
  [
    'service.name=other,note=a%2Cb',
    { 'service.version': version, note: 'a,b' },
    instance,
  ],
  ['service.version=v,service.instance.id=pod-7', { 'service.version': 'v' }, 'pod-7'],
])(
  'a quote that is fetched has a span for the request, the connecting and the call; a hit has one: of %s',
  async (OTEL_RESOURCE_ATTRIBUTES, resource, instanceId) => {
    const headers = { OTEL_EXPORTER_OTLP_HEADERS: 'api-key=very%20secret' }
    inEnvironment({ ...headers, OTEL_SERVICE_NAME: 'gate', OTEL_RESOURCE_ATTRIBUTES })
    const { collector, gateway, upstream } = await traced()
    await asking(gateway.url, '0.1')
    await asking(gateway.url, '0.1')
    expect(await exactly(collector, 4, ['quotegate.cache'])).toEqual([
      `${quoteRoute} server status_code=200 cache=miss`,
      '  connect internal',
      '  GET client status_code=200',
      `${quoteRoute} server status_code=200 cache=hit`,
    ])
    const miss = collector.spans().find(({ kind }) => kind === 'server')
    expect(miss?.attributes).toEqual({
      'http.request.method': 'GET',
      'http.route': '/v3/pairs/{pairId}/quotes',
      'url.scheme': 'http',
      'url.path': '/v3/pairs/ETH_USDC/quotes',
      'url.query': 'amount=0.1',
      'network.protocol.version': '1.1',
      'http.response.status_code': 200,
      'quotegate.request_id': expect.any(String),
      'quotegate.cache': 'miss',
    })
    const call = collector.spans().find(({ kind }) => kind === 'client')
    expect(call?.attributes).toEqual({
      'http.request.method': 'GET',
      'server.address': '127.0.0.1',
      'server.port': upstream.port,
      'url.full': `${upstream.url}/v3/pairs/ETH_USDC/quotes?amount=0.1`,
      'http.response.status_code': 200,
    })
    expect(valuesOf(upstream.requests[0], 'traceparent')).toEqual([
      `00-${call?.traceId}-${call?.spanId}-01`,
    ])
    for (const { startedAtMs, endedAtMs } of collector.spans()) {
      expect(endedAtMs).toBeGreaterThanOrEqual(startedAtMs)
      expect(Math.abs(endedAtMs - Date.now())).toBeLessThan(60_000)
    }
    const [batch] = collector.batches
    expect(batch?.scope).toBe('quotegate')
    const named = { 'service.name': 'gate', 'service.instance.id': instanceId }
    expect(batch?.resource).toEqual({ ...named, ...resource })
    expect(collector.requests[0]).toMatchObject({
      path: '/v1/traces',
      headers: { 'api-key': 'very secret' },
    })
  },
)

test('spans are sent as protobuf too', async () => {
  const { collector, gateway } = await traced({
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf',
  })
  await asking(gateway.url, '0.1')
  await gateway.close()
  const [sent] = collector.requests
  expect([sent?.path, sent?.headers['content-type']]).toEqual([
    '/v1/traces',
    'application/x-protobuf',
  ])
  const all = Buffer.concat(collector.requests.map(({ body }) => body))
  expect(all.toString('latin1')).toContain('quotegate.request_id')
})

test('an order that is sent records the decision, and carries the span of its call', async () => {
  const { collector, gateway, upstream } = await traced()
  await asking(gateway.url, '0.1')
  await collector.received(3)
  expect((await sendOrder(gateway.url)).status).toBe(200)
  const tree = await exactly(collector, 5, ofOrders)
  expect(tree.slice(3)).toEqual([
    'POST /v3/orders/float server status_code=200 decision=forwarded-live rule=exact',
    '  POST client status_code=200',
  ])
  const call = collector.spans().find(({ name }) => name === 'POST')
  expect(valuesOf(upstream.requests[1], 'traceparent')).toEqual([
    `00-${call?.traceId}-${call?.spanId}-01`,
  ])
})

test('an order that is refused has no call, and does not count as an error of the gateway', async () => {
  const { collector, gateway } = await traced({ ORDER_EXPIRY_MARGIN_MS: 60_000 })
  await asking(gateway.url, '0.1')
  await collector.received(3)
  expect((await sendOrder(gateway.url)).status).toBe(409)
  const refused =
    'POST /v3/orders/float server status_code=409 decision=refused-expired rule=exact'
  expect((await exactly(collector, 4, ofOrders)).slice(3)).toEqual([refused])
  expect(collector.spans().at(-1)?.failed).toBe(false)
})

test('each try of a request has a span of its own, with how often it was sent again', async () => {
  const { collector, gateway, upstream } = await traced()
  let tries = 0
  upstream.answer((_request, response) => {
    tries += 1
    if (tries === 1) response.socket?.destroy()
    else giveQuote(response)
  })
  await asking(gateway.url, '0.1')
  expect(await exactly(collector, 5)).toEqual([
    `${quoteRoute} server status_code=200`,
    '  connect internal',
    '  GET client type=connection_terminated',
    '  connect internal',
    '  GET client resend_count=1 status_code=200',
  ])
  const calls = collector.spans().filter(({ kind }) => kind === 'client')
  expect(
    new Set(upstream.requests.flatMap((request) => valuesOf(request, 'traceparent'))),
  ).toEqual(new Set(calls.map(({ traceId, spanId }) => `00-${traceId}-${spanId}-01`)))
})

test('an upstream that refuses connections shows in each try, and in the request', async () => {
  const { collector, gateway, upstream } = await traced()
  await upstream.close()
  await asking(gateway.url, '0.1')
  expect(await exactly(collector, 5)).toEqual([
    `${quoteRoute} server status_code=502 type=upstream-unreachable`,
    '  connect internal type=connection_refused',
    '  GET client type=connection_refused',
    '  connect internal type=connection_refused',
    '  GET client resend_count=1 type=connection_refused',
  ])
})

test.each([
  ['/v3/rates', '?from=ETH&toAddress=…'],
  // These name addresses, whatever their parameters are called.
  ['/v3/orders', ''],
  ['/v3//Orders', ''],
  ['/v3/orders/float', ''],
])('a trace of %s shows the values of harmless parameters alone', async (path, shown) => {
  const { collector, gateway, upstream } = await traced()
  const query = '?from=ETH&toAddress=0xsecret'
  await ask(gateway.url, { path: path + query })
  await collector.received(3)
  expect(upstream.requests[0]?.target).toBe(path + query)
  expect(valuesOf(upstream.requests[0], 'traceparent')).toEqual([])
  expect(JSON.stringify(collector.batches)).not.toContain('0xsecret')
  const [server] = collector.spans().filter(({ kind }) => kind === 'server')
  expect(server?.attributes['url.query']).toBe(shown === '' ? undefined : shown.slice(1))
  const call = collector.spans().find(({ kind }) => kind === 'client')
  expect(call?.attributes['url.full']).toBe(upstream.url + path + shown)
})

const own = ['traceparent', '00-not-valid', 'tracestate', 'a=1', 'X-Own', 'x']

test('what is neither a quote nor an order goes to the swap API with the trace context of its caller', async () => {
  const { gateway, upstream } = await traced()
  await ask(gateway.url, { path: '/v3/rates', headers: own })
  expect(upstream.requests[0]?.rawHeaders).toEqual(expect.arrayContaining(own))
})

test('a payment and a webhook show no query and go out as they came', async () => {
  const { collector, gateway, upstream } = await traced()
  const body = '{ "a":1.0 }'
  await ask(gateway.url, {
    path: '/checkouts/c1?key=sk_live',
    method: 'POST',
    headers: own,
    body,
  })
  await ask(gateway.url, {
    path: '/webhooks/in?token=sk_live',
    method: 'POST',
    headers: [],
    body: 'b',
  })
  expect(
    (await exactly(collector, 5)).filter((line) => !line.endsWith('connect internal')),
  ).toEqual([
    'POST /checkouts/* server status_code=200',
    '  POST client status_code=200',
    'POST /webhooks/* server status_code=200',
    '  POST client status_code=200',
  ])
  expect(JSON.stringify(collector.batches)).not.toContain('sk_live')
  const [payment, webhook] = upstream.requests
  expect(payment?.body.toString()).toBe(body)
  expect(payment?.rawHeaders.slice(2)).toEqual(expect.arrayContaining(own))
  expect(valuesOf(webhook, 'traceparent')).toEqual([])
})

test("a request that waits for another request's call links to that request, in its own trace", async () => {
  const { collector, gateway, upstream } = await traced()
  let answer = () => {}
  upstream.answer((_request, response) => {
    answer = () => giveQuote(response)
  })
  const asked = [asking(gateway.url, '0.1')]
  await until(() => upstream.requests.length === 1, 'the call')
  asked.push(asking(gateway.url, '0.1'))
  await untilCounted(gateway, lookups('collapsed'), 1)
  answer()
  await Promise.all(asked)
  const tree = await exactly(collector, 4, ['quotegate.cache'])
  expect(tree.filter((line) => !line.startsWith(' ')).sort()).toEqual([
    `${quoteRoute} server status_code=200 cache=collapsed`,
    `${quoteRoute} server status_code=200 cache=miss`,
  ])
  const servers = collector.spans().filter(({ kind }) => kind === 'server')
  const waited = servers.find(
    ({ attributes }) => attributes['quotegate.cache'] === 'collapsed',
  )
  const first = servers.find((span) => span !== waited)
  expect(waited?.links).toEqual([{ traceId: first?.traceId, spanId: first?.spanId }])
  expect(waited?.traceId).not.toBe(first?.traceId)
  expect(first?.links).toEqual([])
})

test('a request that waits for a connection to be free has a span for that', async () => {
  const { collector, gateway, upstream } = await traced({ UPSTREAM_CONNECTIONS: 1 })
  const answers: (() => void)[] = []
  upstream.answer((_request, response) => answers.push(() => response.end('ok')))
  const first = ask(gateway.url, { path: '/checkouts/1' })
  await until(() => answers.length === 1, 'the first request')
  const second = ask(gateway.url, { path: '/checkouts/2' })
  await pause(200)
  answers[0]?.()
  await until(() => answers.length === 2, 'the second request')
  answers[1]?.()
  await Promise.all([first, second])
  expect((await exactly(collector, 6)).slice(3)).toEqual([
    'GET /checkouts/* server status_code=200',
    '  wait for connection internal',
    '  GET client status_code=200',
  ])
})
