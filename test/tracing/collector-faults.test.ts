import type { ServerResponse } from 'node:http'
import { createServer } from 'node:net'
import { afterEach, describe, expect, onTestFinished, test } from 'vitest'
import { asking, counted, giveQuote, untilCounted } from '../support/clients/quotes.ts'
import { gatewayTo, recordingUpstream, until } from '../support/gateways/between.ts'
import { killPrograms, startProgram } from '../support/gateways/program.ts'
import { freePort } from '../support/machine/free-port.ts'
import { inEnvironment, startCollector, tracedTo } from '../support/observing/collector.ts'

afterEach(killPrograms)

const dropped = 'quotegate_trace_spans_dropped_total'

async function quotes() {
  return recordingUpstream((_request, response) => giveQuote(response))
}

/** Accepts connections and says nothing. */
async function hangingCollector(): Promise<{ url: string }> {
  const port = await freePort()
  const sockets = new Set<{ destroy(): void }>()
  const server = createServer((socket) => sockets.add(socket))
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { url: `http://127.0.0.1:${port}` }
}

test('a collector that is down fails no request, and missed spans are counted', async () => {
  const gateway = await gatewayTo((await quotes()).url, tracedTo({ url: 'http://127.0.0.1:9' }))
  for (let asked = 0; asked < 20; asked += 1) expect((await asking(gateway.url, '0.1')).status).toBe(200)
  await untilCounted(gateway, dropped, 1)
}, 60_000)

test('a collector that hangs holds up neither requests nor the shutdown, and at most 2048 spans wait for it', async () => {
  const gateway = await gatewayTo((await quotes()).url, tracedTo(await hangingCollector()))
  const ask = () => Promise.all(Array.from({ length: 50 }, () => asking(gateway.url, '0.1')))
  for (let round = 0; round < 42; round += 1) for (const { status } of await ask()) expect(status).toBe(200)
  // 2100 requests, with the spans of one call.
  expect(await counted(gateway, dropped)).toBeGreaterThan(0)
  const beganMs = performance.now()
  await gateway.close()
  expect(performance.now() - beganMs).toBeLessThan(8_000)
}, 120_000)

test('a collector that answers 503 is tried again, and gets all spans', async () => {
  let answers = 0
  const collector = await startCollector((response) => {
    answers += 1
    response.writeHead(answers === 1 ? 503 : 200, answers === 1 ? { 'Retry-After': '0' } : {})
    response.end()
  })
  const gateway = await gatewayTo((await quotes()).url, tracedTo(collector))
  await asking(gateway.url, '0.1')
  await until(() => answers === 2, 'a second try')
  expect(collector.requests).toHaveLength(2)
  expect(await counted(gateway, dropped)).toBe(0)
})

test('a collector that asks for no pause is asked six times at most', async () => {
  const collector = await startCollector((response) => response.writeHead(429, { 'Retry-After': '0' }).end())
  const gateway = await gatewayTo((await quotes()).url, tracedTo(collector))
  await asking(gateway.url, '0.1')
  await untilCounted(gateway, dropped, 3)
  // A machine that is busy may make two batches of one trace.
  const batches = new Set(collector.requests.map(({ headers }) => headers['content-length'])).size
  expect(collector.requests.length).toBeLessThanOrEqual(6 * batches)
}, 60_000)

test('a redirect of the collector takes neither spans nor keys to another host', async () => {
  const other = await startCollector()
  inEnvironment({ OTEL_EXPORTER_OTLP_HEADERS: 'api-key=sk_secret_key' })
  const collector = await startCollector((response) =>
    response.writeHead(307, { Location: `${other.url}/v1/traces` }).end(),
  )
  const gateway = await gatewayTo((await quotes()).url, tracedTo(collector))
  await asking(gateway.url, '0.1')
  await untilCounted(gateway, dropped, 3)
  expect(other.requests).toEqual([])
})

describe('spans that a collector has taken are not counted as dropped, whatever follows its 200:', () => {
  test.each<[string, (response: ServerResponse) => void]>([
    ['JSON to protobuf', (response) => response.end('{}')],
    ['a text', (response) => response.end('OK')],
    ['null', (response) => response.end('null')],
    [
      'that it rejected some',
      (response) => response.end('{"partialSuccess":{"rejectedSpans":"2","errorMessage":"no"}}'),
    ],
    [
      'an answer that breaks off',
      (response) => {
        response.writeHead(200, { 'Content-Length': 10 }).write('{')
        setTimeout(() => response.destroy(), 50)
      },
    ],
  ])('%s', async (_what, answer) => {
    for (const OTEL_EXPORTER_OTLP_PROTOCOL of ['http/protobuf', 'http/json']) {
      const collector = await startCollector(answer)
      const gateway = await gatewayTo((await quotes()).url, {
        ...tracedTo(collector),
        OTEL_EXPORTER_OTLP_PROTOCOL,
      })
      await asking(gateway.url, '0.1')
      await collector.received(3)
      await gateway.close()
      expect(await counted(gateway, dropped)).toBe(0)
    }
  })
})

test('waiting spans are sent before the shutdown ends', async () => {
  const collector = await startCollector()
  const settings = tracedTo(collector)
  inEnvironment({ OTEL_BSP_SCHEDULE_DELAY: '60000' })
  const gateway = await gatewayTo((await quotes()).url, settings)
  await asking(gateway.url, '0.1')
  expect(collector.spans()).toEqual([])
  await gateway.close()
  expect(collector.spans()).toHaveLength(3)
})

test('OpenTelemetry reads its own names from the environment of the program, and no secret is logged', async () => {
  const collector = await startCollector()
  const upstream = await quotes()
  const program = startProgram([], {
    ...{ PORT: '0', ADMIN_PORT: '0', LOG_FORMAT: 'json', LOG_LEVEL: 'trace', SWAP_BASE_URL: upstream.url },
    ...{ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_EXPORTER_OTLP_HEADERS: 'api-key=sk_secret_key' },
    ...{ OTEL_TRACES_SAMPLER: 'always_on', OTEL_BSP_SCHEDULE_DELAY: '20', OTEL_SERVICE_NAME: 'gate' },
    ...{ OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '1', OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT: '8' },
    ...{ OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'x-other=1', OTEL_LOG_LEVEL: 'all' },
    // Ours says where, checked like every base URL.
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://127.0.0.1:9/other',
  })
  const [, url = ''] = await program.says(/"trafficUrl":"(.+?)"/)
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
