import { expect, onTestFinished, test } from 'vitest'
import { ask, asking, giveQuote } from '../support/clients/quotes.ts'
import { gatewayTo, pause, recordingUpstream } from '../support/gateways/between.ts'
import { startCollector, tracedTo, treeOf } from '../support/observing/collector.ts'
import { startValkey } from '../support/stores/valkey.ts'

/** A gateway with a store of its own, of which everything is traced unless the settings say otherwise. */
async function tracedGateway(settings: Record<string, string | number> = {}) {
  const store = await startValkey()
  onTestFinished(() => store.end())
  const collector = await startCollector()
  const upstream = await recordingUpstream(({ target }, response) => {
    if (target.includes('/quotes')) giveQuote(response)
    else response.end('{}')
  })
  const gateway = await gatewayTo(upstream.url, {
    ...tracedTo(collector),
    VALKEY_URL: store.url,
    VALKEY_TIMEOUT_MS: 5_000,
    ...settings,
  })
  return { store, collector, gateway }
}

test('the operations of the shared store are spans of the request, without keys', {
  tags: ['redis-server'],
  timeout: 60_000,
}, async () => {
  const { collector, gateway } = await tracedGateway({ RATE_LIMIT_PER_MINUTE: 100 })
  await asking(gateway.url, '0.1')
  const body = JSON.stringify({ pairId: 'ETH_USDC', fromAmount: 0.1, toAmount: 289.645 })
  const headers = ['App-Name', 'wallet', 'Content-Type', 'application/json']
  const { status } = await ask(gateway.url, { path: '/v3/orders/float', method: 'POST', headers, body })
  expect(status).toBe(200)
  await gateway.close()
  const lines = treeOf(collector.spans())
  const operations = (name: string) => {
    const server = collector.spans().find((span) => span.name.startsWith(name))
    const children = collector.spans().filter(({ parentSpanId }) => parentSpanId === server?.spanId)
    return [...new Set(children.map((span) => `${span.name} ${span.kind}`))].sort()
  }
  expect(operations('GET /v3/pairs')).toEqual(
    [
      'GET client',
      'connect internal',
      'journal-append client',
      'quote-get client',
      'quote-set client',
      'rate-limit client',
    ].sort(),
  )
  expect(operations('POST /v3/orders/float')).toEqual(
    expect.arrayContaining([
      'POST client',
      'journal-read client',
      'quote-forget client',
      'rate-limit client',
    ]),
  )
  expect(lines.filter((line) => !line.startsWith(' '))).toHaveLength(2)
  for (const { name, attributes } of collector.spans())
    if (name.startsWith('quote-')) expect(attributes).toEqual({ 'db.system.name': 'redis' })
})

test('what an unsampled request asks of the store is in no trace, though it came on a connection of a sampled one', {
  tags: ['redis-server'],
  timeout: 60_000,
}, async () => {
  const { collector, gateway } = await tracedGateway({
    OTEL_TRACES_SAMPLER: 'parentbased_always_off',
    TRUST_PROXY: 'loopback',
  })
  const traceparent = (flag: number) => `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0${flag}`
  for (const [amount, flag] of [
    ['0.1', 1],
    ['0.2', 0],
    ['0.3', 0],
  ] as const)
    await asking(gateway.url, amount, ['App-Name', 'wallet', 'traceparent', traceparent(flag)])
  await gateway.close()
  const named = (name: string) => collector.spans().filter((span) => span.name === name)
  expect(['quote-get', 'quote-set', 'journal-append', 'GET'].map((name) => named(name).length)).toEqual([
    1, 1, 1, 1,
  ])
})

test('what is appended again after a loss belongs to no order, though the read of one has seen the loss', {
  tags: ['redis-server'],
  timeout: 120_000,
}, async () => {
  const { store, collector, gateway } = await tracedGateway()
  // So many that they are appended again in several steps, with a read after each.
  for (let first = 1; first <= 1_200; first += 20)
    await Promise.all(Array.from({ length: 20 }, (_, index) => asking(gateway.url, String(first + index))))
  await pause(2_500)
  await store.ask('FLUSHALL')
  const body = JSON.stringify({ pairId: 'ETH_USDC', fromAmount: 1, toAmount: 289.645 })
  const headers = ['App-Name', 'wallet', 'Content-Type', 'application/json']
  await ask(gateway.url, { path: '/v3/orders/float', method: 'POST', headers, body })
  await pause(3_500)
  await gateway.close()
  const order = collector.spans().find(({ name }) => name.startsWith('POST /v3/orders'))
  const reads = collector
    .spans()
    .filter(({ name, parentSpanId }) => name === 'journal-read' && parentSpanId === order?.spanId)
  expect(reads.length).toBeGreaterThan(0)
  expect(reads.length).toBeLessThanOrEqual(2)
})
