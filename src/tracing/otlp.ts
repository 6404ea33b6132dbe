import { randomUUID } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import * as otel from '@opentelemetry/api'
import { ExportResultCode, getNumberFromEnv } from '@opentelemetry/core'
import { OTLPTraceExporter as JsonExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { OTLPTraceExporter as ProtobufExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import {
  detectResources,
  envDetector,
  resourceFromAttributes,
} from '@opentelemetry/resources'
import * as sdk from '@opentelemetry/sdk-trace-base'
import { formatTraceparent, readTraceparent } from '../http/headers.ts'
import { version } from '../process/package-info.ts'
import type { Span, Tracing } from '../process/span.ts'

/** A hanging collector must not hold up the shutdown. */
const flushWithinMs = 2_000
/** Max length of an attribute; a target may have 8 KiB. */
const maxTextLength = 1_024

const exporters = { 'http/json': JsonExporter, 'http/protobuf': ProtobufExporter }
const kinds = { client: otel.SpanKind.CLIENT, internal: otel.SpanKind.INTERNAL }

interface OtlpOptions {
  /** `/v1/traces` is appended. */
  endpoint: string
  protocol: keyof typeof exporters
  sampler: string
  samplerRatio: number
  /** Whether this peer's sampled flag counts. */
  isTrustedPeer(address: string | undefined): boolean
  dropped(spans: number, reason: string): void
}

/**
 * OpenTelemetry's own tracer, by OTLP over HTTP. Its packages read the other OTEL_ variables: the resource, the
 * batches, the limits of spans, and how the collector is called.
 */
export class OtlpTracing implements Tracing {
  readonly tracer: otel.Tracer
  readonly delivery: Delivery
  readonly #processor: sdk.BatchSpanProcessor
  readonly #isTrustedPeer: OtlpOptions['isTrustedPeer']

  constructor({
    endpoint,
    protocol,
    sampler,
    samplerRatio,
    isTrustedPeer,
    dropped,
  }: OtlpOptions) {
    const ours = resourceFromAttributes({
      'service.name': 'quotegate',
      'service.version': version,
      'service.instance.id': randomUUID(),
    })
    this.delivery = new Delivery(
      new exporters[protocol]({ url: `${endpoint}/v1/traces` }),
      dropped,
    )
    this.#processor = new sdk.BatchSpanProcessor(this.delivery)
    this.tracer = new sdk.BasicTracerProvider({
      resource: ours.merge(detectResources({ detectors: [envDetector] })),
      sampler: new PeerSampler(sampler, samplerRatio),
      spanProcessors: [this.#processor],
    }).getTracer('quotegate', version)
    this.#isTrustedPeer = isTrustedPeer
  }

  begin(
    rawHeaders: readonly string[],
    peer: string | undefined,
    startedAtMs: number,
  ): Span | string {
    const epochMs = Date.now() - performance.now()
    const options = { kind: otel.SpanKind.SERVER, startTime: epochMs + startedAtMs }
    const span = this.tracer.startSpan('', options, this.#contextOf(rawHeaders, peer))
    return span.isRecording()
      ? new OtlpSpan(span, this, epochMs)
      : span.spanContext().traceId
  }

  #contextOf(rawHeaders: readonly string[], peer: string | undefined): otel.Context {
    const parent = readTraceparent(rawHeaders)
    if (parent === undefined) return otel.ROOT_CONTEXT
    const { traceId, spanId, sampled } = parent
    const caller = { traceId, spanId, traceFlags: Number(sampled), isRemote: true }
    const context = otel.trace.setSpanContext(otel.ROOT_CONTEXT, caller)
    return this.#isTrustedPeer(peer) ? context : context.setValue(flagIsIgnored, true)
  }

  async close(leftMs: number): Promise<void> {
    this.delivery.takesMore = false
    // The processor does not wait for its current batch nor, once a batch has failed, for the others. `delivery` does.
    const sent = this.#processor
      .shutdown()
      .catch(() => {})
      .then(() => this.delivery.shutdown())
    await Promise.race([
      sent,
      setTimeout(Math.min(leftMs, flushWithinMs), undefined, { ref: false }),
    ])
    this.delivery.giveUp()
  }
}

const flagIsIgnored = otel.createContextKey('the flag of the caller is ignored')

/**
 * OpenTelemetry's samplers follow every caller's flag: any caller could have everything recorded. This sampler follows
 * only trusted peers.
 */
export class PeerSampler implements sdk.Sampler {
  readonly #own: sdk.Sampler
  readonly #trusting: sdk.Sampler

  constructor(name: string, ratio: number) {
    const share = name.endsWith('always_on') ? 1 : name.endsWith('always_off') ? 0 : ratio
    this.#own = new sdk.TraceIdRatioBasedSampler(share)
    const followsParent = name.startsWith('parentbased_')
    this.#trusting = followsParent
      ? new sdk.ParentBasedSampler({ root: this.#own })
      : this.#own
  }

  shouldSample(...asked: Parameters<sdk.Sampler['shouldSample']>): sdk.SamplingResult {
    const sampler = asked[0].getValue(flagIsIgnored) === true ? this.#own : this.#trusting
    return sampler.shouldSample(...asked)
  }
}

class OtlpSpan implements Span {
  readonly traceId: string
  readonly #span: otel.Span
  readonly #tracing: OtlpTracing
  /** Wall clock less steady clock at the beginning: a clock that is set later must not disorder the trace. */
  readonly #epochMs: number
  #hasEnded = false

  constructor(span: otel.Span, tracing: OtlpTracing, epochMs: number) {
    this.traceId = span.spanContext().traceId
    this.#span = span
    this.#tracing = tracing
    this.#epochMs = epochMs
  }

  get traceparent(): string {
    return formatTraceparent({ ...this.#span.spanContext(), sampled: true })
  }

  rename(name: string): void {
    this.#span.updateName(name)
  }

  child(name: string, kind: 'client' | 'internal'): Span {
    const context = otel.trace.setSpan(otel.ROOT_CONTEXT, this.#span)
    const options = { kind: kinds[kind], startTime: this.#epochMs + performance.now() }
    const span = this.#tracing.tracer.startSpan(name, options, context)
    return new OtlpSpan(span, this.#tracing, this.#epochMs)
  }

  set(attribute: string, value: string | number | undefined): void {
    if (value === undefined) return
    this.#span.setAttribute(
      attribute,
      typeof value === 'string' ? value.slice(0, maxTextLength) : value,
    )
  }

  linkTo(other: Span): void {
    if (other instanceof OtlpSpan)
      this.#span.addLink({ context: other.#span.spanContext() })
  }

  end(error?: string): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    if (!this.#tracing.delivery.takes()) return
    if (error !== undefined) {
      this.set('error.type', error)
      this.#span.setStatus({ code: otel.SpanStatusCode.ERROR })
    }
    this.#span.end(this.#epochMs + performance.now())
  }
}

/** Counts ended spans that the exporter does not confirm. */
class Delivery implements sdk.SpanExporter {
  readonly #exporter: sdk.SpanExporter
  readonly #dropped: OtlpOptions['dropped']
  /** The processor's bound, past which it drops silently. */
  readonly #maxWaiting = getNumberFromEnv('OTEL_BSP_MAX_QUEUE_SIZE') ?? 2_048
  /** Neither confirmed nor dropped spans. */
  #waiting = 0
  #hasGivenUp = false
  takesMore = true

  constructor(exporter: sdk.SpanExporter, dropped: OtlpOptions['dropped']) {
    this.#exporter = exporter
    this.#dropped = dropped
  }

  /** Whether one more span may end. Otherwise it is dropped. */
  takes(): boolean {
    const isFull = this.#waiting >= this.#maxWaiting
    if (!this.takesMore) this.#dropped(1, 'the gateway has ended')
    else if (isFull) this.#dropped(1, `${this.#maxWaiting} are waiting to be sent`)
    else this.#waiting += 1
    return this.takesMore && !isFull
  }

  export(
    spans: sdk.ReadableSpan[],
    done: Parameters<sdk.SpanExporter['export']>[1],
  ): void {
    this.#exporter.export(spans, (result) => {
      const isDropped = result.code !== ExportResultCode.SUCCESS && !this.#hasGivenUp
      // The message is left out: it may be the collector's, with anything in it. After 429, 502, 503 and 504 there is
      // no code.
      const { code = 'no success in time' } = (result.error ?? {}) as {
        code?: string | number
      }
      if (isDropped)
        this.#dropped(spans.length, `the collector did not take them (${code})`)
      this.#waiting -= spans.length
      done(result)
    })
  }

  shutdown(): Promise<void> {
    return this.#exporter.shutdown()
  }

  giveUp(): void {
    this.#hasGivenUp = true
    if (this.#waiting > 0) this.#dropped(this.#waiting, 'the gateway has ended')
  }
}
