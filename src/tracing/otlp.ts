import { type HrTime, type Link, type SpanContext, SpanKind, SpanStatusCode } from '@opentelemetry/api'
import { JsonTraceSerializer, ProtobufTraceSerializer } from '@opentelemetry/otlp-transformer'
import { type Resource, resourceFromAttributes } from '@opentelemetry/resources'
import { BatchSpanProcessor, type ReadableSpan, type SpanExporter } from '@opentelemetry/sdk-trace'
import { formatTraceparent, newSpanId, readTraceparent, type TraceParent } from '../http/ids.ts'
import type { Span, Tracing } from '../process/span.ts'
import { hrTime } from './hr-time.ts'
import type { OtlpOptions } from './options.ts'
import { createSampler, samplesContinued } from './sampler.ts'
import { CollectorFailure, createSender } from './sender.ts'

/** Of spans that have ended and that the collector has not taken yet. */
export const maxWaitingSpans = 2_048
const maxSpansPerExport = 512
const exportTimeoutMs = 10_000
/** A collector that hangs must not hold up the end. */
const flushWithinMs = 2_000
/** Of an attribute. A target may have 8 KiB. */
const maxTextLength = 1_024

const serializers = { 'http/json': JsonTraceSerializer, 'http/protobuf': ProtobufTraceSerializer }
const contentTypes = { 'http/json': 'application/json', 'http/protobuf': 'application/x-protobuf' }
const kinds = { server: SpanKind.SERVER, client: SpanKind.CLIENT, internal: SpanKind.INTERNAL }

/** What all spans of this process have in common. */
interface Origin {
  readonly resource: Resource
  readonly instrumentationScope: { readonly name: string; readonly version: string }
  ended(span: OtlpSpan): void
}

const noEvents: ReadableSpan['events'] = []

/** As the packages read spans. Theirs take several times as long to make, and would decide for themselves what is sampled. */
class OtlpSpan implements Span, ReadableSpan {
  name: string
  startedAtMs: number
  readonly kind: SpanKind
  readonly parentSpanContext?: SpanContext
  readonly attributes: Record<string, string | number> = {}
  readonly links: Link[] = []
  status: { code: SpanStatusCode } = { code: SpanStatusCode.UNSET }
  readonly #context: SpanContext
  readonly #origin: Origin
  /** The wall clock less the steady one, when the trace came here: a clock that is set must not turn a trace around. */
  readonly #epochMs: number
  #endedAtMs = 0

  constructor(
    { name, kind, startedAtMs }: { name: string; kind: SpanKind; startedAtMs: number },
    { traceId, parent, epochMs }: { traceId: string; parent: SpanContext | undefined; epochMs: number },
    origin: Origin,
  ) {
    this.name = name
    this.kind = kind
    this.startedAtMs = startedAtMs
    if (parent !== undefined) this.parentSpanContext = parent
    this.#context = { traceId, spanId: newSpanId(), traceFlags: 1 }
    this.#epochMs = epochMs
    this.#origin = origin
  }

  get traceId(): string {
    return this.#context.traceId
  }

  get traceparent(): string {
    return formatTraceparent({ ...this.#context, sampled: true })
  }

  child(name: string, kind: 'client' | 'internal'): Span {
    return new OtlpSpan(
      { name, kind: kinds[kind], startedAtMs: performance.now() },
      { traceId: this.traceId, parent: this.#context, epochMs: this.#epochMs },
      this.#origin,
    )
  }

  set(attribute: string, value: string | number | undefined): void {
    if (value === undefined) return
    this.attributes[attribute] = typeof value === 'string' ? value.slice(0, maxTextLength) : value
  }

  linkTo(other: Span): void {
    if (other instanceof OtlpSpan) this.links.push({ context: other.#context })
  }

  end(error?: string): void {
    if (this.ended) return
    this.#endedAtMs = performance.now()
    if (error !== undefined) {
      this.set('error.type', error)
      this.status = { code: SpanStatusCode.ERROR }
    }
    this.#origin.ended(this)
  }

  spanContext(): SpanContext {
    return this.#context
  }

  get ended(): boolean {
    return this.#endedAtMs !== 0
  }

  get startTime(): HrTime {
    return hrTime(this.#epochMs + this.startedAtMs)
  }

  get endTime(): HrTime {
    return hrTime(this.#epochMs + this.#endedAtMs)
  }

  get duration(): HrTime {
    return hrTime(this.#endedAtMs - this.startedAtMs)
  }

  get resource(): Resource {
    return this.#origin.resource
  }

  get instrumentationScope(): ReadableSpan['instrumentationScope'] {
    return this.#origin.instrumentationScope
  }

  get events(): ReadableSpan['events'] {
    return noEvents
  }

  readonly droppedAttributesCount = 0
  readonly droppedEventsCount = 0
  readonly droppedLinksCount = 0
}

/** OpenTelemetry, by OTLP over HTTP. Each option is given to the packages: they read nothing of the environment. */
export function createOtlpTracing(options: OtlpOptions): Tracing {
  const { log, events, protocol } = options
  const sampler = createSampler(options.sampler, options.samplerRatio)
  const serializer = serializers[protocol]
  const sender = createSender({
    url: `${options.endpoint}/v1/traces`,
    headers: { ...options.headers, 'Content-Type': contentTypes[protocol] },
    timeoutMs: exportTimeoutMs,
  })
  /** In the processor's queue or on their way to the collector. */
  let waiting = 0
  const underWay = new Set<Promise<unknown>>()
  let isClosed = false

  /** Some collectors answer in another form than they were sent, such as `{}` to protobuf, or say OK. */
  function rejectedIn(answer: Uint8Array): number {
    try {
      return Number(serializer.deserializeResponse(answer).partialSuccess?.rejectedSpans ?? 0)
    } catch {
      return 0
    }
  }

  function drop(count: number, reason: string): void {
    events.spansDropped(count)
    log.say({ level: 'warn', cause: { dropped: reason }, message: `spans were dropped: ${reason}` })
  }

  /** Whether the collector took them. */
  async function areTaken(spans: ReadableSpan[]): Promise<boolean> {
    try {
      const body = serializer.serializeRequest(spans)
      if (body === undefined) throw new CollectorFailure('they cannot be written')
      const rejected = rejectedIn(await sender.send(body))
      if (rejected > 0) drop(Math.min(rejected, spans.length), 'the collector rejected them')
      return true
    } catch (error) {
      drop(spans.length, error instanceof CollectorFailure ? error.message : 'they could not be sent')
      return false
    } finally {
      waiting -= spans.length
    }
  }

  const exporter: SpanExporter = {
    export(spans, done) {
      const sending = areTaken(spans).then((taken) => done({ code: taken ? 0 : 1 }))
      underWay.add(sending)
      void sending.then(() => underWay.delete(sending))
    },
    shutdown: async () => {},
  }
  const processor = new BatchSpanProcessor({
    exporter,
    maxQueueSize: maxWaitingSpans,
    maxExportBatchSize: maxSpansPerExport,
    scheduledDelayMillis: options.batchDelayMs,
    // The sender ends before.
    exportTimeoutMillis: exportTimeoutMs + 1_000,
  })
  const origin: Origin = {
    resource: resourceFromAttributes(options.resource),
    instrumentationScope: { name: 'quotegate', version: options.version },
    ended(span) {
      if (isClosed) drop(1, 'the gateway has ended')
      else if (waiting >= maxWaitingSpans) drop(1, `${maxWaitingSpans} are waiting to be sent`)
      else {
        waiting += 1
        processor.onEnd(span)
      }
    },
  }

  function beginIn(traceId: string, parent: TraceParent | undefined, startedAtMs: number): Span {
    return new OtlpSpan(
      { name: '', kind: SpanKind.SERVER, startedAtMs },
      {
        traceId,
        parent: parent && {
          traceId,
          spanId: parent.spanId,
          traceFlags: Number(parent.sampled),
          isRemote: true,
        },
        epochMs: Date.now() - performance.now(),
      },
      origin,
    )
  }

  return {
    begin(rawHeaders, peerAddress, startedAtMs) {
      const parent = readTraceparent(rawHeaders)
      if (parent === undefined) {
        const traceId = sampler.newSampledId()
        return traceId === undefined ? undefined : beginIn(traceId, undefined, startedAtMs)
      }
      const flagCounts = sampler.followsParent && options.isTrustedPeer(peerAddress)
      if (!samplesContinued(sampler, parent, flagCounts)) return undefined
      return beginIn(parent.traceId, parent, startedAtMs)
    },
    unsampledTraceId: sampler.newUnsampledId,
    async close(leftMs) {
      isClosed = true
      // What has ended goes out, unless the collector hangs. The processor does not wait for what it was sending already,
      // nor, once one batch has failed, for the others.
      const timer = setTimeout(sender.giveUp, Math.min(leftMs, flushWithinMs))
      await processor.shutdown().catch(() => {})
      await Promise.all(underWay)
      clearTimeout(timer)
      sender.giveUp()
    },
  }
}
