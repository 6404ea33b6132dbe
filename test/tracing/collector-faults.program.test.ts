import type { ServerResponse } from 'node:http'
import { createServer } from 'node:net'
import { expect, test } from 'vitest'
import { asking, counted, untilCounted } from '../support/clients/quotes.ts'
import { recordingUpstream, until } from '../support/gateways/between.ts'
import { startListening } from '../support/gateways/program.ts'
import { freePort } from '../support/machine/free-port.ts'
import { listening } from '../support/machine/listening.ts'
import { inEnvironment, startCollector } from '../support/observing/collector.ts'
import { traced } from './support.ts'

const dropped = 'quotegate_trace_spans_dropped_total'

test.each(['refuses connections', 'says nothing'])(
  'a collector that %s holds up neither requests nor the shutdown, and missed spans are counted',
  async (how) => {
    const port = await freePort()
    // It accepts connections, and that is all.
    if (how === 'says nothing') await listening(createServer(), port)
    const { gateway } = await traced({
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
    })
    for (let asked = 1; asked <= 20; asked += 1)
      expect((await asking(gateway.url, '0.1')).status).toBe(200)
    const beganMs = performance.now()
    await gateway.close()
    expect(performance.now() - beganMs).toBeLessThan(8_000)
    expect(await counted(gateway, dropped)).toBe(22)
  },
)

test('a collector that answers 503 is tried again, and gets all spans', async () => {
  let answers = 0
  const { collector, gateway } = await traced({}, (response) => {
    answers += 1
    response.writeHead(
      answers === 1 ? 503 : 200,
      answers === 1 ? { 'Retry-After': '0' } : {},
    )
    response.end()
  })
  await asking(gateway.url, '0.1')
  await until(() => answers >= 2, 'a second try')
  await collector.received(6)
  expect(await counted(gateway, dropped)).toBe(0)
})

test('a redirect of the collector takes neither spans nor keys to another host', async () => {
  const other = await startCollector()
  inEnvironment({ OTEL_EXPORTER_OTLP_HEADERS: 'api-key=sk_secret_key' })
  const { gateway } = await traced({}, (response) =>
    response.writeHead(307, { Location: `${other.url}/v1/traces` }).end(),
  )
  await asking(gateway.url, '0.1')
  await untilCounted(gateway, dropped, 3)
  expect(other.requests).toEqual([])
})

test.each<[string, string, (response: ServerResponse) => void]>([
  ['JSON', 'http/protobuf', (response) => response.end('{}')],
  ['a text', 'http/json', (response) => response.end('OK')],
  [
    'that it rejected some',
    'http/json',
    (response) =>
      response.end('{"partialSuccess":{"rejectedSpans":"2","errorMessage":"no"}}'),
  ],
  [
    'an answer that breaks off',
    'http/protobuf',
    (response) => {
      response.writeHead(200, { 'Content-Length': 10 }).write('{')
      setTimeout(() => response.destroy(), 50)
    },
  ],
])(
  'spans that a collector has taken are not counted as dropped, though its 200 has %s',
  async (...row) => {
    const [, OTEL_EXPORTER_OTLP_PROTOCOL, answer] = row
    const { collector, gateway } = await traced({ OTEL_EXPORTER_OTLP_PROTOCOL }, answer)
    await asking(gateway.url, '0.1')
    await until(() => collector.requests.length > 0, 'the spans')
    await gateway.close()
    expect(await counted(gateway, dropped)).toBe(0)
  },
)

test('OpenTelemetry reads its own names from the environment of the program, and no secret is logged', async () => {
  const collector = await startCollector()
  const upstream = await recordingUpstream()
  const { url, ...program } = await startListening({
    LOG_LEVEL: 'trace',
    SWAP_BASE_URL: upstream.url,
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
    OTEL_EXPORTER_OTLP_HEADERS: 'api-key=sk_secret_key',
    OTEL_TRACES_SAMPLER: 'always_on',
    OTEL_BSP_SCHEDULE_DELAY: '20',
    OTEL_SERVICE_NAME: 'gate',
    OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '1',
    OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT: '8',
    OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'x-other=1',
    OTEL_LOG_LEVEL: 'all',
    // Ours says where, checked like every base URL.
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://127.0.0.1:9/other',
  })
  await asking(url, '0.1')
  await collector.received(3)
  expect(collector.requests).toHaveLength(3)
  for (const { path, headers } of collector.requests) {
    expect(path).toBe('/v1/traces')
    expect(headers).toMatchObject({ 'api-key': 'sk_secret_key', 'x-other': '1' })
  }
  expect(collector.batches[0]?.resource).toMatchObject({ 'service.name': 'gate' })
  const server = collector.spans().find(({ kind }) => kind === 'server')
  expect(server?.attributes['url.path']).toBe('/v3/pair')
  program.child.kill('SIGTERM')
  const { stdout, stderr } = await program.exit
  expect(stdout + stderr).not.toContain('sk_secret_key')
}, 60_000)
