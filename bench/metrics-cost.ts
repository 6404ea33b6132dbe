/**
 * What counting costs a request, and what a scrape costs the gateway: `npx tsx bench/metrics-cost.ts`.
 * Exits with 1 when a request costs more than a microsecond or a scrape more than 10 ms.
 */
import { connect, type Socket } from 'node:net'
import { cpus } from 'node:os'
import { Counter, Registry } from 'prom-client'
import { createGateway } from '../src/gateway/gateway.ts'
import { createMetrics, type Metrics } from '../src/metrics/metrics.ts'
import { notKeptReasons } from '../src/quotes/quote-answer.ts'

const pairs = Array.from({ length: 20 }, (_, index) => `A${index}_B${index}`)
const connections = 2_000
const mostNsARequest = 1_000
const mostMsAScrape = 10

function nsEach(times: number, action: (index: number) => void): number {
  for (let index = 0; index < times / 10; index += 1) action(index)
  let best = Number.POSITIVE_INFINITY
  // The best of five: the rest is what else the machine was doing.
  for (let round = 0; round < 5; round += 1) {
    const startedAtMs = performance.now()
    for (let index = 0; index < times; index += 1) action(index)
    best = Math.min(best, ((performance.now() - startedAtMs) * 1e6) / times)
  }
  return best
}

function say(what: string, figure: string): void {
  process.stdout.write(`${what.padEnd(64)} ${figure}\n`)
}

const quantile = (sorted: readonly number[], share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0

/** Everything that a cached quote counts on its way. */
function countHit(metrics: Metrics, index: number): void {
  metrics.requestBegan()
  metrics.cacheLookups.hit.inc()
  metrics.quoteServed(pairs[index % 32] ?? 'ETH_USDC', index % 30_000)
  metrics.requestOver({ area: 'quote', method: 'GET', status: 200, durationMs: (index % 100) / 50 })
}

function countPassThrough(metrics: Metrics, index: number): void {
  metrics.requestBegan()
  metrics.upstreams.payments.onRequest('answered', index % 500)
  metrics.requestOver({ area: 'payments', method: 'POST', status: 201, durationMs: index % 500 })
}

function measureRequests(): number[] {
  const metrics = createMetrics({ version: 'bench', notKeptReasons, pairs })
  const theirs = new Counter({
    name: 'their_own_total',
    help: 'For comparison',
    labelNames: ['route', 'method', 'status_class'],
    registers: [new Registry()],
  })
  const held = theirs.labels('quote', 'GET', '2xx')
  const figures = [
    nsEach(5_000_000, (index) => countHit(metrics, index)),
    nsEach(5_000_000, (index) => countPassThrough(metrics, index)),
  ]
  say('a cached quote, all that it counts', `${figures[0]?.toFixed(0)} ns`)
  say('a pass-through, all that it counts', `${figures[1]?.toFixed(0)} ns`)
  say(
    "for comparison, one increment of prom-client's held child",
    `${nsEach(500_000, () => held.inc()).toFixed(0)} ns`,
  )
  const labels = { route: 'quote', method: 'GET', status_class: '2xx' }
  say(
    'for comparison, one increment by a label object',
    `${nsEach(500_000, () => theirs.inc(labels)).toFixed(0)} ns`,
  )
  return figures
}

async function openConnections(url: string): Promise<Socket[]> {
  const { hostname, port } = new URL(url)
  return Promise.all(
    Array.from(
      { length: connections },
      () =>
        new Promise<Socket>((resolve, reject) => {
          const socket = connect(Number(port), hostname, () => resolve(socket))
          socket.once('error', reject)
        }),
    ),
  )
}

async function measureScrapes(labelled: readonly string[]): Promise<number> {
  const gateway = await createGateway({ PORT: 0, ADMIN_PORT: 0, METRICS_PAIRS: labelled.join() })
  const { trafficUrl } = await gateway.listen()
  const sockets = await openConnections(trafficUrl)
  const headers = { 'App-Name': 'bench' }
  for (const pair of ['ETH_USDC', ...pairs]) {
    await (await fetch(`${trafficUrl}/v3/pairs/${pair}/quotes?amount=1`, { headers })).arrayBuffer()
  }
  const tookMs: number[] = []
  let page = ''
  for (let scrape = 0; scrape < 100; scrape += 1) {
    const startedAtMs = performance.now()
    page = await gateway.metrics()
    tookMs.push(performance.now() - startedAtMs)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  const [firstMs = 0] = tookMs
  // The first ones are those of a program that has not been compiled yet.
  const sorted = tookMs.slice(10).sort((left, right) => left - right)
  const lines = page.split('\n').filter((line) => line !== '' && !line.startsWith('#')).length
  say(
    `a scrape: ${lines} series, ${Math.round(page.length / 1024)} KiB, ${connections} connections open`,
    `p50 ${quantile(sorted, 0.5).toFixed(1)} ms, p99 ${quantile(sorted, 0.99).toFixed(1)} ms, the first ${firstMs.toFixed(1)} ms`,
  )
  for (const socket of sockets) socket.destroy()
  await gateway.close()
  return quantile(sorted, 0.5)
}

say(
  'machine',
  `${cpus().length} cores, Node ${process.versions.node}, ${new Date().toISOString().slice(0, 10)}`,
)
const requestNs = measureRequests()
const scrapesMs = [await measureScrapes([]), await measureScrapes(pairs)]
if (Math.max(...requestNs) > mostNsARequest || Math.max(...scrapesMs) > mostMsAScrape) process.exitCode = 1
