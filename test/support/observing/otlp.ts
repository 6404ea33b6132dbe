/** What a collector is sent, read from either of OTLP's two forms. */
export interface ReceivedSpan {
  name: string
  kind: 'internal' | 'server' | 'client' | 'other'
  traceId: string
  spanId: string
  parentSpanId: string
  attributes: Record<string, string | number>
  links: { traceId: string; spanId: string }[]
  failed: boolean
  startedAtMs: number
  endedAtMs: number
}

export interface ReceivedBatch {
  resource: Record<string, string | number>
  scope: string
  spans: ReceivedSpan[]
}

const kinds = ['other', 'internal', 'server', 'client'] as const
const failedStatus = 2
const noBytes = Buffer.alloc(0)

type Value = { stringValue?: string; intValue?: string | number; doubleValue?: number }
type Pairs = { key: string; value: Value }[]

function attributesOf(pairs: Pairs = []): Record<string, string | number> {
  return Object.fromEntries(
    pairs.map(({ key, value }) => [key, value.stringValue ?? Number(value.intValue ?? value.doubleValue)]),
  )
}

interface JsonSpan {
  name: string
  kind: number
  traceId: string
  spanId: string
  parentSpanId?: string
  attributes?: Pairs
  links?: { traceId: string; spanId: string }[]
  status: { code?: number }
  startTimeUnixNano: string
  endTimeUnixNano: string
}

interface JsonBatch {
  resource: { attributes: Pairs }
  scopeSpans: { scope: { name: string }; spans: JsonSpan[] }[]
}

export function readJson(body: Buffer): ReceivedBatch[] {
  const { resourceSpans } = JSON.parse(body.toString()) as { resourceSpans: JsonBatch[] }
  return resourceSpans.map(({ resource, scopeSpans }) => ({
    resource: attributesOf(resource.attributes),
    scope: scopeSpans[0]?.scope.name ?? '',
    spans: scopeSpans
      .flatMap(({ spans }) => spans)
      .map((span) => ({
        name: span.name,
        kind: kinds[span.kind] ?? 'other',
        traceId: span.traceId,
        spanId: span.spanId,
        parentSpanId: span.parentSpanId ?? '',
        attributes: attributesOf(span.attributes),
        links: (span.links ?? []).map(({ traceId, spanId }) => ({ traceId, spanId })),
        failed: span.status.code === failedStatus,
        startedAtMs: Number(span.startTimeUnixNano) / 1e6,
        endedAtMs: Number(span.endTimeUnixNano) / 1e6,
      })),
  }))
}

/** The fields of one protobuf message: numbers, and bytes. */
function fieldsOf(bytes: Buffer): Map<number, (bigint | Buffer)[]> {
  const fields = new Map<number, (bigint | Buffer)[]>()
  let at = 0
  const varint = () => {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++] ?? 0
      value |= BigInt(byte & 127) << shift
      if (byte < 128) return value
    }
  }
  while (at < bytes.length) {
    const tag = Number(varint())
    const number = tag >> 3
    let value: bigint | Buffer
    if ((tag & 7) === 0) value = varint()
    else if ((tag & 7) === 1) {
      value = bytes.readBigUInt64LE(at)
      at += 8
    } else if ((tag & 7) === 5) {
      value = BigInt(bytes.readUInt32LE(at))
      at += 4
    } else {
      const length = Number(varint())
      value = bytes.subarray(at, at + length)
      at += length
    }
    fields.set(number, [...(fields.get(number) ?? []), value])
  }
  return fields
}

const messages = (fields: Map<number, (bigint | Buffer)[]>, number: number) =>
  (fields.get(number) ?? []).map((value) => value as Buffer)
const text = (fields: Map<number, (bigint | Buffer)[]>, number: number) =>
  String((fields.get(number)?.[0] as Buffer | undefined) ?? '')
const hex = (fields: Map<number, (bigint | Buffer)[]>, number: number) =>
  ((fields.get(number)?.[0] as Buffer | undefined) ?? noBytes).toString('hex')

function pairsOf(bytes: readonly Buffer[]): Record<string, string | number> {
  return Object.fromEntries(
    bytes.map((one) => {
      const pair = fieldsOf(one)
      const value = fieldsOf(messages(pair, 2)[0] ?? noBytes)
      return [text(pair, 1), value.has(1) ? text(value, 1) : Number(value.get(3)?.[0])]
    }),
  )
}

// opentelemetry/proto/trace/v1/trace.proto
export function readProtobuf(body: Buffer): ReceivedBatch[] {
  return messages(fieldsOf(body), 1).map((bytes) => {
    const one = fieldsOf(bytes)
    const scopes = messages(one, 2).map(fieldsOf)
    const spans = scopes.flatMap((scope) => messages(scope, 2).map(fieldsOf))
    return {
      resource: pairsOf(messages(fieldsOf(messages(one, 1)[0] ?? noBytes), 1)),
      scope: text(fieldsOf(scopes[0] === undefined ? noBytes : (messages(scopes[0], 1)[0] ?? noBytes)), 1),
      spans: spans.map((span) => ({
        name: text(span, 5),
        kind: kinds[Number(span.get(6)?.[0])] ?? 'other',
        traceId: hex(span, 1),
        spanId: hex(span, 2),
        parentSpanId: hex(span, 4),
        attributes: pairsOf(messages(span, 9)),
        links: messages(span, 13).map((link) => {
          const read = fieldsOf(link)
          return { traceId: hex(read, 1), spanId: hex(read, 2) }
        }),
        failed: Number(fieldsOf(messages(span, 15)[0] ?? noBytes).get(3)?.[0] ?? 0n) === failedStatus,
        startedAtMs: Number(span.get(7)?.[0]) / 1e6,
        endedAtMs: Number(span.get(8)?.[0]) / 1e6,
      })),
    }
  })
}
