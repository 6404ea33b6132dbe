import { afterEach, expect, test } from 'vitest'
import { floodWithPipelined } from '../support/clients/pipelining-flood.ts'
import { ask, giveQuote, keepAliveAgent, quotePath } from '../support/clients/quotes.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { recordingUpstream, until } from '../support/gateways/between.ts'
import { killPrograms, startProgram } from '../support/gateways/program.ts'

afterEach(killPrograms)

const hits = 1_000
/** Before, one hit took longer. */
const atMostMs = 20_000

// Node parses all of a piece that it has read, and Express began to answer each request in it: 40 connections of 256
// pipelined requests for the metrics stopped traffic for a minute.
test('40 connections of 256 pipelined requests for /metrics disturb neither hits nor probes', async () => {
  const upstream = await recordingUpstream((_request, response) => giveQuote(response))
  const settings = { PORT: '0', ADMIN_PORT: '0', LOG_FORMAT: 'json', SWAP_BASE_URL: upstream.url }
  const program = startProgram([], settings)
  const [, url = '', operationsUrl = ''] = await program.says(/"trafficUrl":"(.+?)","operationsUrl":"(.+?)"/)
  const agent = keepAliveAgent(1)

  async function latencies(): Promise<number[]> {
    const taken: number[] = []
    const deadline = performance.now() + atMostMs
    while (taken.length < hits && performance.now() < deadline) {
      const startedAtMs = performance.now()
      const asked = ask(url, { path: `${quotePath}?amount=0.1`, agent })
      expect((await asked).status).toBe(200)
      taken.push(performance.now() - startedAtMs)
    }
    return taken.sort((left, right) => left - right)
  }

  await latencies()
  const alone = await latencies()
  const flood = floodWithPipelined(operationsUrl, { path: '/metrics', connections: 40, pipelined: 256 })
  await until(() => flood.bytes() > 1e6, 'the flood to be answered')
  const beside = await latencies()
  const probeAtMs = performance.now()
  for (const path of ['/healthz', '/readyz']) {
    const probed = await rawExchange(operationsUrl, `GET ${path} HTTP/1.1\r\nHost: g\r\n\r\n`)
    expect(probed.status).toBe(200)
  }
  const probesMs = performance.now() - probeAtMs
  await flood.stop()
  const [before = 0, during = 0] = [alone, beside].map((taken) => taken[Math.floor(taken.length / 2)] ?? 0)
  // biome-ignore lint/suspicious/noConsole: the figures are what this test is read for.
  console.log(
    `hit: median ${before.toFixed(2)} ms alone, ${during.toFixed(2)} ms beside (x${(during / before).toFixed(1)}, ` +
      `worst ${beside.at(-1)?.toFixed(0)} ms, ${beside.length} hits); both probes ${probesMs.toFixed(0)} ms; ` +
      `${(flood.bytes() / 1e6).toFixed(0)} MB of metrics`,
  )
  expect(during).toBeLessThan(before * 5)
})
