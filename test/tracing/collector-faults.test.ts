import { readFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { createServer } from 'node:net'
import { afterEach, describe, expect, onTestFinished, test } from 'vitest'
import { asking, counted, giveQuote, untilCounted } from '../support/clients/quotes.ts'
import { gatewayTo, recordingUpstream, until } from '../support/gateways/between.ts'
import { killPrograms, startProgram } from '../support/gateways/program.ts'
import { freePort } from '../support/machine/free-port.ts'
import { startCollector, tracedTo } from '../support/observing/collector.ts'

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

const settings = (url: string) => ({
  OTEL_EXPORTER_OTLP_ENDPOINT: url,
  OTEL_TRACES_SAMPLER: 'always_on',
  OTEL_BSP_SCHEDULE_DELAY: 20,
})

test('a collector that is down fails no request, and missed spans are counted', async () => {
  const gateway = await gatewayTo((await quotes()).url, settings('http://127.0.0.1:9'))
  for (let asked = 0; asked < 20; asked += 1) expect((await asking(gateway.url, '0.1')).status).toBe(200)
  await untilCounted(gateway, dropped, 1)
}, 60_000)

test('a collector that hangs holds up neither requests nor the shutdown, and at most 2048 spans wait for it', async () => {
  const gateway = await gatewayTo((await quotes()).url, settings((await hangingCollector()).url))
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

test('spans that a collector rejects are counted', async () => {
  const collector = await startCollector((response) => {
    const body = '{"partialSuccess":{"rejectedSpans":"2","errorMessage":"no"}}'
    response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': body.length }).end(body)
  })
  const gateway = await gatewayTo((await quotes()).url, {
    ...tracedTo(collector),
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
  })
  await asking(gateway.url, '0.1')
  await untilCounted(gateway, dropped, 2)
})

test('a collector that says Retry-After: 0 is not asked without a pause', async () => {
  const collector = await startCollector((response) => response.writeHead(429, { 'Retry-After': '0' }).end())
  const gateway = await gatewayTo((await quotes()).url, tracedTo(collector))
  await asking(gateway.url, '0.1')
  await until(() => collector.requests.length >= 2, 'a second try')
  // Pauses of 1, 1.5, 2.25 and 3.4 s fit into the 10 s.
  await untilCounted(gateway, dropped, 3)
  // A machine that is busy may make two batches of one trace.
  const batches = new Set(collector.requests.map(({ headers }) => headers['content-length'])).size
  expect(collector.requests.length).toBeLessThanOrEqual(5 * batches)
}, 60_000)

describe('spans that a collector has taken are not counted as dropped, whatever follows its 200:', () => {
  test.each<[string, (response: ServerResponse) => void]>([
    ['JSON to protobuf', (response) => response.end('{}')],
    ['a text', (response) => response.end('OK')],
    ['null', (response) => response.end('null')],
    ['an answer without end', (response) => void response.write('x'.repeat(100_000))],
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

test('an answer in chunks is read as well', async () => {
  const collector = await startCollector((response) => {
    response.write('{"partialSuccess":')
    response.end('{"rejectedSpans":"1000000"}}')
  })
  const gateway = await gatewayTo((await quotes()).url, {
    ...tracedTo(collector),
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
  })
  await asking(gateway.url, '0.1')
  // No more than were sent.
  await untilCounted(gateway, dropped, 3)
  await gateway.close()
  expect(await counted(gateway, dropped)).toBe(3)
})

test('waiting spans are sent before the shutdown ends', async () => {
  const collector = await startCollector()
  const gateway = await gatewayTo((await quotes()).url, {
    ...tracedTo(collector),
    OTEL_BSP_SCHEDULE_DELAY: 60_000,
  })
  await asking(gateway.url, '0.1')
  expect(collector.spans()).toEqual([])
  await gateway.close()
  expect(collector.spans()).toHaveLength(3)
})

test('the OpenTelemetry packages do not read the environment, and no secret is logged', async () => {
  const collector = await startCollector()
  const upstream = await quotes()
  const program = startProgram([], {
    ...{ PORT: '0', ADMIN_PORT: '0', LOG_FORMAT: 'json', LOG_LEVEL: 'trace', SWAP_BASE_URL: upstream.url },
    ...{ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_EXPORTER_OTLP_HEADERS: 'api-key=sk_secret_key' },
    ...{ OTEL_TRACES_SAMPLER: 'always_on', OTEL_BSP_SCHEDULE_DELAY: '20' },
    // None of these is a setting.
    ...{ OTEL_SDK_DISABLED: 'true', OTEL_BSP_MAX_QUEUE_SIZE: '1', OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '1' },
    ...{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://127.0.0.1:9/other', OTEL_EXPORTER_OTLP_TIMEOUT: '1' },
    ...{ OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'x-other=1', OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip' },
    ...{
      OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT: '1',
      OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT: '1',
      OTEL_LOG_LEVEL: 'all',
    },
  })
  const [, url = ''] = await program.says(/"trafficUrl":"(.+?)"/)
  await Promise.all(['0.1', '0.2', '0.3'].map((amount) => asking(url, amount)))
  await collector.received(9)
  const [request] = collector.requests
  expect(request?.path).toBe('/v1/traces')
  expect(request?.headers).toMatchObject({ 'api-key': 'sk_secret_key' })
  expect(request?.headers['x-other']).toBeUndefined()
  expect(request?.headers['content-encoding']).toBeUndefined()
  const server = collector.spans().find(({ kind }) => kind === 'server')
  expect(server?.attributes['url.path']).toBe('/v3/pairs/ETH_USDC/quotes')
  program.child.kill('SIGTERM')
  const { stdout, stderr } = await program.exit
  expect(stdout + stderr).not.toContain('sk_secret_key')
}, 60_000)

test('the runbook says what to do about each reason for which spans are dropped', async () => {
  const runbook = readFileSync(new URL('../../docs/operations.md', import.meta.url), 'utf8')
  const [, section = ''] = runbook.split('\n### Traces are missing\n')
  const [text = ''] = section.split(/\n##/)
  for (const said of [
    dropped,
    'cannot be reached',
    '2048 are waiting',
    'the gateway has ended',
    'TRUST_PROXY',
  ])
    expect(text).toContain(said)
})
