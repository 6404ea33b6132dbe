import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import { onTestFinished, vi } from 'vitest'
import { until } from '../gateways/between.ts'
import { listening } from '../machine/listening.ts'
import { type ReceivedBatch, type ReceivedSpan, readJson } from './otlp.ts'

export interface Collector {
  /** For OTEL_EXPORTER_OTLP_ENDPOINT. */
  readonly url: string
  readonly requests: readonly {
    path: string
    headers: IncomingHttpHeaders
    body: Buffer
  }[]
  readonly batches: readonly ReceivedBatch[]
  spans(): ReceivedSpan[]
  /** Waits until so many spans came. */
  received(count: number): Promise<ReceivedSpan[]>
}

/** Speaks OTLP over HTTP and reads it in JSON; it ends with its test. Without `answer` it takes everything. */
export async function startCollector(
  answer: (response: ServerResponse) => void = (response) => response.end(),
): Promise<Collector> {
  const batches: ReceivedBatch[] = []
  const requests: { path: string; headers: IncomingHttpHeaders; body: Buffer }[] = []
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const { headers, url = '' } = request
      const body = Buffer.concat(chunks)
      requests.push({ path: url, headers, body })
      if (headers['content-type'] === 'application/json') batches.push(...readJson(body))
      answer(response)
    })
  })
  const spans = () => batches.flatMap((batch) => batch.spans)
  return {
    url: (await listening(server)).url,
    requests,
    batches,
    spans,
    async received(count) {
      await until(
        () => spans().length >= count,
        `${count} spans, of which ${spans().length} came`,
      )
      return spans()
    },
  }
}

/** Settings under which everything is traced; it is sent soon. */
export function tracedTo({
  url,
}: Pick<Collector, 'url'>): Record<string, string | number> {
  inEnvironment({ OTEL_BSP_SCHEDULE_DELAY: '20' })
  return {
    OTEL_EXPORTER_OTLP_ENDPOINT: url,
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
    OTEL_TRACES_SAMPLER: 'always_on',
  }
}

/** What OpenTelemetry reads itself, until the end of the test. */
export function inEnvironment(variables: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value)
  onTestFinished(() => void vi.unstubAllEnvs())
}

/** One line a span, its children below it in the order in which they began. */
export function treeOf(
  spans: readonly ReceivedSpan[],
  shown: readonly string[] = [],
): string[] {
  const ids = new Set(spans.map(({ spanId }) => spanId))
  const lines = (parent: string | undefined, indent: string): string[] =>
    spans
      .filter(({ parentSpanId }) =>
        parent === undefined ? !ids.has(parentSpanId) : parentSpanId === parent,
      )
      .sort((left, right) => left.startedAtMs - right.startedAtMs)
      .flatMap((span) => {
        const { name, kind, attributes } = span
        const said = [
          'http.request.resend_count',
          'http.response.status_code',
          'error.type',
          ...shown,
        ]
          .filter((key) => attributes[key] !== undefined)
          .map((key) => `${key.replace(/^.*[.]/, '')}=${attributes[key]}`)
        return [
          `${indent}${[name, kind, ...said].join(' ')}`,
          ...lines(span.spanId, `${indent}  `),
        ]
      })
  return lines(undefined, '')
}
