import type { ServerResponse } from 'node:http'
import { expect, test } from 'vitest'
import { OtlpTracing } from '../../src/tracing/otlp.ts'
import { inEnvironment, startCollector } from '../support/observing/collector.ts'

/** Few, so that a busy machine sends each at once. */
const batch = 8

async function tracingTo(answer: (response: ServerResponse, number: number) => void) {
  let requests = 0
  const collector = await startCollector((response) => {
    requests += 1
    answer(response, requests)
  })
  let dropped = 0
  inEnvironment({
    OTEL_BSP_SCHEDULE_DELAY: '60000',
    OTEL_BSP_MAX_EXPORT_BATCH_SIZE: String(batch),
  })
  const tracing = new OtlpTracing({
    endpoint: collector.url,
    protocol: 'http/json',
    sampler: 'always_on',
    samplerRatio: 1,
    isTrustedPeer: () => false,
    dropped(spans) {
      dropped += spans
    },
  })
  const trace = (count: number) => {
    for (let begun = 0; begun < count; begun += 1) {
      const span = tracing.begin([], undefined, performance.now())
      // A step is ended again with what it is part of.
      if (typeof span !== 'string')
        for (const error of [undefined, 'late']) span.end(error)
    }
  }
  return { collector, tracing, trace, dropped: () => dropped }
}

test('batches that are on their way at the end are not broken off, though one of them is refused', async () => {
  let answers = 0
  const { collector, tracing, trace, dropped } = await tracingTo((response, number) => {
    if (number === 2) response.writeHead(400).end()
    else
      setTimeout(() => {
        answers += 1
        response.end()
      }, 100)
  })
  // A whole batch goes at once, and leaves none to wait.
  trace(3 * batch)
  await collector.received(batch)
  await tracing.close(60_000)
  expect([collector.requests.length, answers]).toEqual([3, 2])
  expect(dropped()).toBe(batch)
})

test('what a collector that hangs has not taken two seconds after the end is counted as dropped, once', async () => {
  const { collector, tracing, trace, dropped } = await tracingTo(() => {})
  trace(batch + 1)
  await collector.received(batch)
  const beganMs = performance.now()
  await tracing.close(60_000)
  expect(performance.now() - beganMs).toBeLessThan(4_000)
  expect(dropped()).toBe(batch + 1)
  trace(1)
  expect(dropped()).toBe(batch + 2)
})

test('past OTEL_BSP_MAX_QUEUE_SIZE, spans are dropped and counted; those that wait are sent at the end', async () => {
  inEnvironment({ OTEL_BSP_MAX_QUEUE_SIZE: '10' })
  const { collector, tracing, trace, dropped } = await tracingTo((response) =>
    response.end(),
  )
  trace(15)
  expect(dropped()).toBe(5)
  await tracing.close(60_000)
  expect(collector.spans()).toHaveLength(10)
  expect(dropped()).toBe(5)
})
