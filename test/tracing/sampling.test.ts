import { ROOT_CONTEXT, SpanKind } from '@opentelemetry/api'
import { SamplingDecision } from '@opentelemetry/sdk-trace-base'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readTraceparent } from '../../src/http/ids.ts'
import { OtlpTracing, PeerSampler } from '../../src/tracing/otlp.ts'
import { ask, asking, giveQuote } from '../support/clients/quotes.ts'
import { gatewayTo, recordingUpstream } from '../support/gateways/between.ts'
import { startCollector, tracedTo } from '../support/observing/collector.ts'
import type { Recorded } from '../support/upstreams/recording-upstream.ts'

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'
const spanId = '00f067aa0ba902b7'
const traceparent = (flags: string) => `00-${traceId}-${spanId}-${flags}`

async function traced(settings: Record<string, string | number>) {
  const collector = await startCollector()
  const upstream = await recordingUpstream(({ target }, response) => {
    if (target.includes('/quotes')) giveQuote(response)
    else response.end('{}')
  })
  return {
    collector,
    upstream,
    gateway: await gatewayTo(upstream.url, { ...tracedTo(collector), ...settings }),
  }
}

const sent = (request: Recorded | undefined, name: string) => {
  const headers = request?.rawHeaders ?? []
  return headers.flatMap((header, at) =>
    at % 2 === 0 && header.toLowerCase() === name ? [headers[at + 1]] : [],
  )
}

const parentbased = { OTEL_TRACES_SAMPLER: 'parentbased_traceidratio' }
const headers = (...more: string[]) => ['App-Name', 'wallet', ...more]

describe('the sampled flag', () => {
  test.each([
    ['of a trusted proxy decides: sampled', 'loopback', '01', 0, true],
    ['of a trusted proxy decides: not sampled', 'loopback', '00', 1, false],
    ['of another client is ignored, the ratio decides: 0', '10.9.9.9', '01', 0, false],
    ['of another client is ignored, the ratio decides: 1', '10.9.9.9', '00', 1, true],
  ])('%s', async (_what, trustProxy, flags, ratio, isSampled) => {
    const { collector, gateway, upstream } = await traced({
      ...parentbased,
      TRUST_PROXY: trustProxy,
      OTEL_TRACES_SAMPLER_ARG: ratio,
    })
    await asking(gateway.url, '0.1', headers('traceparent', traceparent(flags), 'tracestate', 'vendor=1'))
    const [own] = sent(upstream.requests[0], 'traceparent')
    expect(own).toMatch(new RegExp(`^00-${traceId}-[0-9a-f]{16}-0${isSampled ? 1 : 0}$`))
    expect(own).not.toContain(spanId)
    expect(sent(upstream.requests[0], 'tracestate')).toEqual(['vendor=1'])
    await gateway.close()
    expect(collector.spans().length > 0).toBe(isSampled)
    for (const span of collector.spans()) expect(span.traceId).toBe(traceId)
    if (isSampled) expect(collector.spans().map(({ parentSpanId }) => parentSpanId)).toContain(spanId)
  })
})

test.each([
  ['of an unknown form', ['traceparent', 'x'.repeat(8_000)]],
  ['of another length', ['traceparent', `${traceparent('01')}-more`]],
  ['in upper case', ['traceparent', traceparent('01').toUpperCase()]],
  ['of zeros', ['traceparent', `00-${'0'.repeat(32)}-${spanId}-01`]],
  ['without a parent', ['traceparent', `00-${traceId}-${'0'.repeat(16)}-01`]],
  ['of version ff', ['traceparent', traceparent('01').replace('00-', 'ff-')]],
  ['that came twice', ['traceparent', traceparent('01'), 'Traceparent', traceparent('01')]],
  ['of a later version, twice', ['traceparent', `01-${traceId}-${spanId}-01-x`, 'traceparent', 'x']],
])('a traceparent %s begins a new trace, and its tracestate is dropped', async (_what, lines) => {
  const { collector, gateway, upstream } = await traced({ TRUST_PROXY: 'loopback' })
  await asking(gateway.url, '0.1', headers(...lines, 'tracestate', 'a=1'))
  const own = sent(upstream.requests[0], 'traceparent')
  expect(own).toHaveLength(1)
  expect(own[0]).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/)
  expect(own[0]).not.toContain(traceId)
  expect(sent(upstream.requests[0], 'tracestate')).toEqual([])
  await collector.received(3)
})

test('a traceparent of a later version is read as one of version 00, with more behind it or not', () => {
  for (const more of ['', '-', '-more-of-it'])
    expect(readTraceparent(['traceparent', `01-${traceId}-${spanId}-03${more}`])).toEqual({
      traceId,
      spanId,
      sampled: true,
    })
})

test('an order is sent with our own trace context, once, sampled or not', async () => {
  for (const OTEL_TRACES_SAMPLER of ['always_off', 'always_on']) {
    const { gateway, upstream } = await traced({ OTEL_TRACES_SAMPLER })
    const body = '{"pairId":"ETH_USDC","fromAmount":0.1}'
    for (const path of ['/v3/orders/float', '/v3/orders'])
      await ask(gateway.url, {
        path,
        method: 'POST',
        headers: headers('traceparent', traceparent('01')),
        body,
      })
    for (const request of upstream.requests) {
      const flag = OTEL_TRACES_SAMPLER === 'always_on' ? 1 : 0
      expect(sent(request, 'traceparent')).toEqual([
        expect.stringMatching(new RegExp(`^00-${traceId}-(?!${spanId})[0-9a-f]{16}-0${flag}$`)),
      ])
      expect(request.body.toString()).toBe(body)
    }
    expect(upstream.requests).toHaveLength(2)
  }
})

test('without tracing, the trace context is sent unchanged', async () => {
  const { gateway, upstream } = await traced({ OTEL_EXPORTER_OTLP_ENDPOINT: '' })
  await asking(gateway.url, '0.1', headers('traceparent', 'anything', 'tracestate', 'a=1'))
  expect(sent(upstream.requests[0], 'traceparent')).toEqual(['anything'])
  expect(sent(upstream.requests[0], 'tracestate')).toEqual(['a=1'])
})

describe('a sampler', () => {
  const hex = (digits: number) =>
    fc
      .array(fc.constantFrom(...'0123456789abcdef'), { minLength: digits, maxLength: digits })
      .map((all) => all.join(''))
      .filter((all) => /[^0]/.test(all))

  /** Of a new trace with this id. */
  const samples = (sampler: PeerSampler, id: string) => {
    const { decision } = sampler.shouldSample(ROOT_CONTEXT, id, '', SpanKind.SERVER, {}, [])
    return decision === SamplingDecision.RECORD_AND_SAMPLED
  }

  test('with a higher ratio records all that one with a lower does', () => {
    fc.assert(
      fc.property(hex(32), fc.double({ min: 0, max: 1, noNaN: true }), (id, ratio) => {
        if (samples(new PeerSampler('traceidratio', ratio), id))
          expect(samples(new PeerSampler('traceidratio', Math.min(1, ratio * 1.5)), id)).toBe(true)
      }),
    )
  })

  test.each([
    ['always_on', true],
    ['always_off', false],
    ['parentbased_always_on', true],
    ['parentbased_always_off', false],
  ])('%s samples as documented', (name, isSampled) => {
    const sampler = new PeerSampler(name, 0.5)
    fc.assert(
      fc.property(hex(32), (id) => {
        expect(samples(sampler, id)).toBe(isSampled)
      }),
    )
  })

  test('records about its share of new traces', async () => {
    const tracing = new OtlpTracing({
      endpoint: 'http://127.0.0.1:9',
      protocol: 'http/protobuf',
      sampler: 'parentbased_traceidratio',
      samplerRatio: 0.1,
      isTrustedPeer: () => false,
      dropped() {},
    })
    const begun = Array.from({ length: 20_000 }, () => tracing.begin([], undefined, performance.now()))
    const unsampled = begun.filter((one) => typeof one === 'string')
    for (const id of unsampled.slice(0, 100))
      expect(readTraceparent(['traceparent', `00-${id}-${spanId}-00`])?.traceId).toBe(id)
    expect(new Set(unsampled).size).toBe(unsampled.length)
    const share = 1 - unsampled.length / begun.length
    expect(share).toBeGreaterThan(0.08)
    expect(share).toBeLessThan(0.12)
    await tracing.close(0)
  })
})
