import { expect, onTestFinished, test } from 'vitest'
import { asking } from '../support/clients/quotes.ts'
import { pause } from '../support/gateways/between.ts'
import { treeOf } from '../support/observing/collector.ts'
import { startValkey } from '../support/stores/valkey.ts'
import { sendOrder, traced, traceparent } from './support.ts'

/** A gateway with a store of its own. */
async function tracedWithStore(settings: Record<string, string | number> = {}) {
  const store = await startValkey()
  onTestFinished(() => store.end())
  return {
    store,
    ...(await traced({ VALKEY_URL: store.url, VALKEY_TIMEOUT_MS: 5_000, ...settings })),
  }
}

test('the operations of the shared store are spans of the request, without keys', {
  tags: ['redis-server'],
}, async () => {
  const { collector, gateway } = await tracedWithStore({ RATE_LIMIT_PER_MINUTE: 100 })
  await asking(gateway.url, '0.1')
  expect((await sendOrder(gateway.url)).status).toBe(200)
  await gateway.close()
  const lines = treeOf(collector.spans())
  const operations = (name: string) => {
    const server = collector.spans().find((span) => span.name.startsWith(name))
    const children = collector
      .spans()
      .filter(({ parentSpanId }) => parentSpanId === server?.spanId)
    return [...new Set(children.map((span) => `${span.name} ${span.kind}`))].sort()
  }
  expect(operations('GET /v3/pairs')).toEqual([
    'GET client',
    'connect internal',
    'journal-append client',
    'quote-get client',
    'quote-set client',
    'rate-limit client',
  ])
  const ofOrder = [
    'POST client',
    'journal-read client',
    'quote-forget client',
    'rate-limit client',
  ]
  expect(operations('POST /v3/orders/float')).toEqual(expect.arrayContaining(ofOrder))
  expect(lines.filter((line) => !line.startsWith(' '))).toHaveLength(2)
  for (const { name, attributes } of collector.spans())
    if (name.startsWith('quote-'))
      expect(attributes).toEqual({ 'db.system.name': 'redis' })
})

test('what an unsampled request asks of the store is in no trace, though it came on a connection of a sampled one', {
  tags: ['redis-server'],
}, async () => {
  const { collector, gateway } = await tracedWithStore({
    OTEL_TRACES_SAMPLER: 'parentbased_always_off',
    TRUST_PROXY: 'loopback',
  })
  for (const [index, flags] of ['01', '00', '00'].entries())
    await asking(gateway.url, `0.${index + 1}`, [
      'App-Name',
      'wallet',
      'traceparent',
      traceparent(flags),
    ])
  await gateway.close()
  const named = (name: string) => collector.spans().filter((span) => span.name === name)
  expect(
    ['quote-get', 'quote-set', 'journal-append', 'GET'].map((name) => named(name).length),
  ).toEqual([1, 1, 1, 1])
})

test('what is appended again after a loss belongs to no order, though the read of one has seen the loss', {
  tags: ['redis-server'],
}, async () => {
  const { store, collector, gateway } = await tracedWithStore()
  // So many that they are appended again in several steps, with a read after each.
  for (let first = 1; first <= 1_200; first += 20)
    await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        asking(gateway.url, String(first + index)),
      ),
    )
  await pause(2_500)
  await store.ask('FLUSHALL')
  await sendOrder(gateway.url)
  await pause(3_500)
  await gateway.close()
  const order = collector.spans().find(({ name }) => name.startsWith('POST /v3/orders'))
  const reads = collector
    .spans()
    .filter(
      ({ name, parentSpanId }) =>
        name === 'journal-read' && parentSpanId === order?.spanId,
    )
  expect(reads.length).toBeGreaterThan(0)
  expect(reads.length).toBeLessThanOrEqual(2)
})
