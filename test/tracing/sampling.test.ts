import { ROOT_CONTEXT, SpanKind } from '@opentelemetry/api'
import { SamplingDecision } from '@opentelemetry/sdk-trace-base'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readTraceparent } from '../../src/http/headers.ts'
import { OtlpTracing, PeerSampler } from '../../src/tracing/otlp.ts'
import { asking } from '../support/clients/quotes.ts'
import { sendOrder, spanId, traced, traceId, traceparent, valuesOf } from './support.ts'

const headers = (...more: string[]) => ['App-Name', 'wallet', ...more]

test.each([
  ['a trusted proxy decides: sampled', 'loopback', '01', 0, true],
  ['a trusted proxy decides: not sampled', 'loopback', '00', 1, false],
  ['another peer is ignored, the ratio decides: 0', '10.9.9.9', '01', 0, false],
  ['another peer is ignored, the ratio decides: 1', '10.9.9.9', '00', 1, true],
])(
  'the sampled flag of %s',
  async (_what, TRUST_PROXY, flags, OTEL_TRACES_SAMPLER_ARG, isSampled) => {
    const sampler = {
      OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
      OTEL_TRACES_SAMPLER_ARG,
    }
    const { collector, gateway, upstream } = await traced({ ...sampler, TRUST_PROXY })
    await asking(
      gateway.url,
      '0.1',
      headers('traceparent', traceparent(flags), 'tracestate', 'vendor=1'),
    )
    const [own] = valuesOf(upstream.requests[0], 'traceparent')
    expect(own).toMatch(new RegExp(`^00-${traceId}-[0-9a-f]{16}-0${isSampled ? 1 : 0}$`))
    expect(own).not.toContain(spanId)
    expect(valuesOf(upstream.requests[0], 'tracestate')).toEqual(['vendor=1'])
    await gateway.close()
    expect(collector.spans().length > 0).toBe(isSampled)
    for (const span of collector.spans()) expect(span.traceId).toBe(traceId)
    if (isSampled)
      expect(collector.spans().map(({ parentSpanId }) => parentSpanId)).toContain(spanId)
  },
)

describe('a traceparent', () => {
  const later = (more: string) => `01-${traceId}-${spanId}-03${more}`

  test.each([
    ['of an unknown form', ['traceparent', 'x'.repeat(8_000)]],
    ['of another length', ['traceparent', `${traceparent('01')}-more`]],
    ['in upper case', ['traceparent', traceparent('01').toUpperCase()]],
    ['of zeros', ['traceparent', `00-${'0'.repeat(32)}-${spanId}-01`]],
    ['without a parent', ['traceparent', `00-${traceId}-${'0'.repeat(16)}-01`]],
    ['of version ff', ['traceparent', traceparent('01').replace('00-', 'ff-')]],
    [
      'that came twice',
      ['traceparent', traceparent('01'), 'Traceparent', traceparent('01')],
    ],
    ['of a later version, twice', ['traceparent', later('-x'), 'traceparent', 'x']],
  ])('%s is not read', (_what, lines) => expect(readTraceparent(lines)).toBeUndefined())

  test('of a later version is read as one of version 00, with more behind it or not', () => {
    for (const more of ['', '-', '-more'])
      expect(readTraceparent(['traceparent', later(more)])).toEqual({
        traceId,
        spanId,
        sampled: true,
      })
  })

  test('that cannot be read begins a new trace, and its tracestate is dropped', async () => {
    const { collector, gateway, upstream } = await traced({ TRUST_PROXY: 'loopback' })
    const lines = ['traceparent', `${traceparent('01')}-more`, 'tracestate', 'a=1']
    await asking(gateway.url, '0.1', headers(...lines))
    const [own, ...others] = valuesOf(upstream.requests[0], 'traceparent')
    expect([own, others]).toEqual([
      expect.stringMatching(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/),
      [],
    ])
    expect(own).not.toContain(traceId)
    expect(valuesOf(upstream.requests[0], 'tracestate')).toEqual([])
    await collector.received(3)
  })
})

test.each([
  ['always_off', 0],
  ['always_on', 1],
])(
  'an order is sent with our own trace context, once: %s',
  async (OTEL_TRACES_SAMPLER, flag) => {
    const { gateway, upstream } = await traced({ OTEL_TRACES_SAMPLER })
    for (const path of ['/v3/orders/float', '/v3/orders'])
      await sendOrder(gateway.url, { path, headers: ['traceparent', traceparent('01')] })
    const own = expect.stringMatching(
      new RegExp(`^00-${traceId}-(?!${spanId})[0-9a-f]{16}-0${flag}$`),
    )
    expect(upstream.requests.map((request) => valuesOf(request, 'traceparent'))).toEqual([
      [own],
      [own],
    ])
  },
)

test('without tracing, the trace context is sent unchanged', async () => {
  const { gateway, upstream } = await traced({ OTEL_EXPORTER_OTLP_ENDPOINT: '' })
  await asking(
    gateway.url,
    '0.1',
    headers('traceparent', 'anything', 'tracestate', 'a=1'),
  )
  expect(valuesOf(upstream.requests[0], 'traceparent')).toEqual(['anything'])
  expect(valuesOf(upstream.requests[0], 'tracestate')).toEqual(['a=1'])
})

describe('a sampler', () => {
  const ids = fc
    .array(fc.constantFrom(...'0123456789abcdef'), { minLength: 32, maxLength: 32 })
    .map((all) => all.join(''))
    .filter((all) => /[^0]/.test(all))

  /** Of a new trace with this id. */
  const samples = (sampler: PeerSampler, id: string) => {
    const { decision } = sampler.shouldSample(
      ROOT_CONTEXT,
      id,
      '',
      SpanKind.SERVER,
      {},
      [],
    )
    return decision === SamplingDecision.RECORD_AND_SAMPLED
  }

  test('with a higher ratio records all that one with a lower does', () => {
    fc.assert(
      fc.property(ids, fc.double({ min: 0, max: 1, noNaN: true }), (id, ratio) => {
        if (samples(new PeerSampler('traceidratio', ratio), id))
          expect(
            samples(new PeerSampler('traceidratio', Math.min(1, ratio * 1.5)), id),
          ).toBe(true)
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
    fc.assert(fc.property(ids, (id) => samples(sampler, id) === isSampled))
  })

  test('records about its share of new traces, and the others have ids of their own', async () => {
    const tracing = new OtlpTracing({
      endpoint: 'http://127.0.0.1:9',
      protocol: 'http/protobuf',
      sampler: 'parentbased_traceidratio',
      samplerRatio: 0.1,
      isTrustedPeer: () => false,
      dropped() {},
    })
    const begun = Array.from({ length: 20_000 }, () =>
      tracing.begin([], undefined, performance.now()),
    )
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
