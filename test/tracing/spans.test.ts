import { describe, expect, test } from 'vitest'
import { version } from '../../src/process/package-info.ts'
import { ask, asking, giveQuote, lookups, quoteBody, untilCounted } from '../support/clients/quotes.ts'
import { gatewayTo, recordingUpstream, until } from '../support/gateways/between.ts'
import {
  type Collector,
  inEnvironment,
  startCollector,
  tracedTo,
  treeOf,
} from '../support/observing/collector.ts'
import type { Recorded } from '../support/upstreams/recording-upstream.ts'

const orderPath = '/v3/orders/float'
const order = {
  pairId: 'ETH_USDC',
  fromAmount: 0.1,
  fromAddress: '0xfrom',
  toAddress: '0xto',
  toAmount: 289.645,
}
const quoteRoute = 'GET /v3/pairs/{pairId}/quotes'

async function traced(settings: Record<string, string | number> = {}) {
  const collector = await startCollector()
  const upstream = await recordingUpstream(({ target }, response) => {
    if (target.includes('/quotes')) giveQuote(response)
    else response.end('{}')
  })
  const gateway = await gatewayTo(upstream.url, {
    WEBHOOKS_BASE_URL: upstream.url,
    ...tracedTo(collector),
    ...settings,
  })
  return { collector, upstream, gateway }
}

function sendOrder(url: string, body: object = order) {
  const headers = ['App-Name', 'wallet', 'Content-Type', 'application/json']
  return ask(url, { path: orderPath, method: 'POST', headers, body: JSON.stringify(body) })
}

/** Exactly these: a moment later there are no more. */
async function exactly(
  collector: Collector,
  count: number,
  shown: readonly string[] = [],
): Promise<string[]> {
  await collector.received(count)
  await new Promise((resolve) => setTimeout(resolve, 100))
  return treeOf(collector.spans(), shown)
}

const sentHeaders = ({ rawHeaders }: Recorded) =>
  Object.fromEntries(
    rawHeaders.flatMap((name, at) => (at % 2 ? [] : [[name.toLowerCase(), rawHeaders[at + 1]]])),
  )

describe.each(['http/json', 'http/protobuf'])('by %s', (protocol) => {
  test('a quote that is fetched has a span for the request, the connecting and the call; a hit has one', async () => {
    inEnvironment({
      OTEL_EXPORTER_OTLP_HEADERS: 'api-key=very%20secret',
      OTEL_SERVICE_NAME: 'gate',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test,service.name=other,note=a%2Cb',
    })
    const { collector, gateway, upstream } = await traced({ OTEL_EXPORTER_OTLP_PROTOCOL: protocol })
    await asking(gateway.url, '0.1')
    await asking(gateway.url, '0.1')
    expect(await exactly(collector, 4, ['quotegate.cache'])).toEqual([
      `${quoteRoute} server status_code=200 cache=miss`,
      '  connect internal',
      '  GET client status_code=200',
      `${quoteRoute} server status_code=200 cache=hit`,
    ])
    const [miss] = collector.spans().filter(({ kind }) => kind === 'server')
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
    expect(sentHeaders(upstream.requests[0] as Recorded).traceparent).toBe(
      `00-${call?.traceId}-${call?.spanId}-01`,
    )
    for (const { startedAtMs, endedAtMs } of collector.spans()) {
      expect(endedAtMs).toBeGreaterThanOrEqual(startedAtMs)
      expect(Math.abs(endedAtMs - Date.now())).toBeLessThan(60_000)
    }
    const [batch] = collector.batches
    expect(batch?.scope).toBe('quotegate')
    expect(batch?.resource).toEqual({
      'service.name': 'gate',
      'service.version': version,
      'service.instance.id': expect.stringMatching(/^[\da-f]{8}-[\da-f-]{27}$/),
      'deployment.environment.name': 'test',
      note: 'a,b',
    })
    expect(collector.requests[0]).toMatchObject({ path: '/v1/traces', headers: { 'api-key': 'very secret' } })
  })
})

test('an order that is sent records the decision, and carries the span of its call', async () => {
  const { collector, gateway, upstream } = await traced()
  await asking(gateway.url, '0.1')
  await collector.received(3)
  expect((await sendOrder(gateway.url)).status).toBe(200)
  const tree = await exactly(collector, 5, ['quotegate.order.decision', 'quotegate.order.rule'])
  expect(tree.slice(3)).toEqual([
    'POST /v3/orders/float server status_code=200 decision=forwarded-live rule=exact',
    '  POST client status_code=200',
  ])
  const call = collector.spans().find(({ name }) => name === 'POST')
  expect(sentHeaders(upstream.requests[1] as Recorded).traceparent).toBe(
    `00-${call?.traceId}-${call?.spanId}-01`,
  )
})

test('an order that is refused has no call, and does not count as an error of the gateway', async () => {
  const { collector, gateway, upstream } = await traced()
  upstream.answer((_request, response) => giveQuote(response, quoteBody({ expiry: Date.now() + 400 })))
  await asking(gateway.url, '0.1')
  await until(() => collector.spans().length === 3, 'the quote')
  await new Promise((resolve) => setTimeout(resolve, 2_500))
  expect((await sendOrder(gateway.url)).status).toBe(409)
  const tree = await exactly(collector, 4, ['quotegate.order.decision', 'quotegate.order.rule'])
  expect(tree.slice(3)).toEqual([
    expect.stringMatching(
      /^POST \/v3\/orders\/float server status_code=409 decision=refused-expired rule=\S+$/,
    ),
  ])
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
  expect(new Set(upstream.requests.map((request) => sentHeaders(request).traceparent))).toEqual(
    new Set(calls.map(({ traceId, spanId }) => `00-${traceId}-${spanId}-01`)),
  )
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

test('OTEL_RESOURCE_ATTRIBUTES names the version and the instance, if they are in it', async () => {
  inEnvironment({ OTEL_RESOURCE_ATTRIBUTES: 'service.version=abc123,service.instance.id=pod-7' })
  const { collector, gateway } = await traced()
  await asking(gateway.url, '0.1')
  await collector.received(3)
  expect(collector.batches[0]?.resource).toEqual({
    'service.name': 'quotegate',
    'service.version': 'abc123',
    'service.instance.id': 'pod-7',
  })
})

test('of the rest of the swap API a trace shows the values of harmless parameters alone', async () => {
  const { collector, gateway } = await traced()
  await ask(gateway.url, { path: '/v3/rates?from=ETH&toAddress=0xsecret' })
  await collector.received(3)
  const [server] = collector.spans().filter(({ kind }) => kind === 'server')
  expect(server?.attributes['url.query']).toBe('from=ETH&toAddress=…')
  expect(JSON.stringify(collector.batches)).not.toContain('0xsecret')
})

test('a payment and a webhook show no query and go out as they came', async () => {
  const { collector, gateway, upstream } = await traced()
  const own = ['traceparent', '00-not-valid', 'tracestate', 'a=1', 'X-Own', 'x']
  await ask(gateway.url, {
    path: '/checkouts/c1?key=sk_live',
    method: 'POST',
    headers: own,
    body: '{ "a":1.0 }',
  })
  await ask(gateway.url, { path: '/webhooks/in?token=sk_live', method: 'POST', headers: [], body: 'b' })
  await ask(gateway.url, { path: '/v3/rates?from=ETH' })
  expect((await exactly(collector, 7)).filter((line) => !line.endsWith('connect internal'))).toEqual([
    'POST /checkouts/* server status_code=200',
    '  POST client status_code=200',
    'POST /webhooks/* server status_code=200',
    '  POST client status_code=200',
    'GET /v3/* server status_code=200',
    '  GET client status_code=200',
  ])
  expect(JSON.stringify(collector.batches)).not.toContain('sk_live')
  const [payment, webhook, rates] = upstream.requests
  expect(payment?.body.toString()).toBe('{ "a":1.0 }')
  expect(payment?.rawHeaders.slice(2)).toEqual(expect.arrayContaining(own))
  for (const request of [webhook, rates])
    expect(Object.keys(sentHeaders(request as Recorded))).not.toContain('traceparent')
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
  expect((await exactly(collector, 4, ['quotegate.cache'])).sort()).toEqual(
    [
      `${quoteRoute} server status_code=200 cache=miss`,
      '  connect internal',
      '  GET client status_code=200',
      `${quoteRoute} server status_code=200 cache=collapsed`,
    ].sort(),
  )
  const servers = collector.spans().filter(({ kind }) => kind === 'server')
  const waited = servers.find(({ attributes }) => attributes['quotegate.cache'] === 'collapsed')
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
  await new Promise((resolve) => setTimeout(resolve, 200))
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
