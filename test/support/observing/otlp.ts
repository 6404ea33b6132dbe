/** What a collector is sent in JSON. */
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

type Value = { stringValue?: string; intValue?: string | number; doubleValue?: number }
type Pairs = { key: string; value: Value }[]

function attributesOf(pairs: Pairs = []): Record<string, string | number> {
  return Object.fromEntries(
    pairs.map(({ key, value }) => [
      key,
      value.stringValue ?? Number(value.intValue ?? value.doubleValue),
    ]),
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
