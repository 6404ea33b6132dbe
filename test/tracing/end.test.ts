import type { ServerResponse } from 'node:http'
import { expect, test } from 'vitest'
import { Events } from '../../src/events.ts'
import { createOtlpTracing } from '../../src/tracing/otlp.ts'
import { startCollector } from '../support/observing/collector.ts'

const batch = 512

async function tracingTo(answer: (response: ServerResponse, number: number) => void) {
  let requests = 0
  const collector = await startCollector((response) => {
    requests += 1
    answer(response, requests)
  })
  let dropped = 0
  const tracing = createOtlpTracing({
    endpoint: collector.url,
    headers: {},
    protocol: 'http/protobuf',
    resource: {},
    sampler: 'always_on',
    samplerRatio: 1,
    batchDelayMs: 60_000,
    version: '1',
    isTrustedPeer: () => false,
    log: { say() {}, flush() {} },
    events: new Events([
      {
        spansDropped(count) {
          dropped += count
        },
      },
    ]),
  })
  const trace = (count: number) => {
    for (let begun = 0; begun < count; begun += 1) tracing.begin([], undefined, performance.now())?.end()
  }
  return { collector, tracing, trace, dropped: () => dropped }
}

test('a batch that is on its way at the end is not broken off', async () => {
  let answers = 0
  const { collector, tracing, trace, dropped } = await tracingTo((response) => {
    setTimeout(() => {
      answers += 1
      response.end()
    }, 300)
  })
  // A whole batch goes at once, and leaves none to wait.
  trace(batch)
  await collector.received(batch)
  await tracing.close(60_000)
  expect(answers).toBe(1)
  expect(dropped()).toBe(0)
})

test('a batch that is refused at the end does not break off the others', async () => {
  const { collector, tracing, trace, dropped } = await tracingTo((response, number) => {
    if (number === 2) response.writeHead(400).end()
    else setTimeout(() => response.end(), 300)
  })
  trace(3 * batch)
  await tracing.close(60_000)
  expect(collector.requests).toHaveLength(3)
  expect(dropped()).toBe(batch)
})

test('what ends after the end is counted as dropped', async () => {
  const { tracing, trace, dropped } = await tracingTo((response) => response.end())
  await tracing.close(0)
  trace(2)
  expect(dropped()).toBe(2)
})
