import { beforeAll, describe, expect, test } from 'vitest'
import { type Breaker, Breakers } from '../../src/upstream/breakers.ts'
import { countRequest, freshMetrics as fresh } from '../support/observing/fresh-metrics.ts'
import { readPage, seriesNames } from '../support/observing/metrics-page.ts'

const swapCall = { upstream: 'swap', traffic: 'quotes', status: 200 } as const

/** The value of one series, by its name and labels as they stand on the page. */
async function reading(
  metrics: Pick<ReturnType<typeof fresh>, 'render'>,
  series: string,
): Promise<number | undefined> {
  const line = (await metrics.render()).split('\n').find((text) => text.startsWith(`${series} `))
  return line === undefined ? undefined : Number(line.slice(series.length + 1))
}

test('the page is written in several turns of the event loop, so that no quote waits for the whole page', async () => {
  let turns = 0
  let written = false
  const turn = () => {
    turns += 1
    if (!written) setImmediate(turn)
  }
  setImmediate(turn)
  await fresh().render()
  written = true
  expect(turns).toBeGreaterThan(2)
})

describe('before anything has happened', () => {
  let page: string
  beforeAll(async () => {
    page = await fresh(['ETH_USDC']).render()
  })

  test('every series of quotegate exists, at 0 except the version, the memory limit, closed breakers, and the unset store and folder', () => {
    const ours = [...readPage(page).values()].filter(({ name }) => name.startsWith('quotegate_'))
    expect(ours.length).toBeGreaterThan(15)
    const notZero = ours.flatMap(({ series }) => series.filter(({ value }) => value !== 0))
    expect(notZero.map(({ name, labels }) => [name, labels.state])).toEqual([
      ['quotegate_build_info', undefined],
      ['quotegate_memory_limit_bytes', undefined],
      // Three of swap, one each of payments and webhooks.
      ...Array(5).fill(['quotegate_breaker_state', 'closed']),
      ['quotegate_store_up', undefined],
      ['quotegate_journal_up', undefined],
      ['quotegate_journal_up', undefined],
    ])
  })

  test('every metric has a series', () => {
    const without = [...readPage(page).values()].filter(({ series }) => series.length === 0)
    expect(without.map(({ name }) => name)).toEqual([])
  })

  test('every combination of route, method and status exists', () => {
    expect(readPage(page).get('quotegate_http_requests_total')?.series.length).toBe(7 * 8 * 5)
  })
})

test('the store has one series for each operation and outcome, and no other series', async () => {
  const { series = [] } = readPage(await fresh().render()).get('quotegate_store_operations_total') ?? {}
  const quotes = ['quote-get', 'quote-set', 'quote-forget', 'unlock']
  const operations = [...quotes, 'rate-limit', 'key-claim', 'key-settle', 'journal-append', 'journal-read']
  expect([...new Set(series.map(({ labels }) => labels.op))]).toEqual(operations)
  expect(series.length).toBe(operations.length * 4)
})

describe('a request', () => {
  const total = (labels: string) => `quotegate_http_requests_total{${labels}}`

  test('is counted by route, method and status, with its duration', async () => {
    const metrics = fresh()
    countRequest(metrics, { area: 'payments', method: 'POST', status: 201, durationMs: 40 })
    expect(await reading(metrics, total('route="payments",method="POST",status_class="2xx"'))).toBe(1)
    const duration = 'quotegate_http_request_duration_seconds'
    expect(await reading(metrics, `${duration}_count{route="payments"}`)).toBe(1)
    expect(await reading(metrics, `${duration}_sum{route="payments"}`)).toBeCloseTo(0.04)
    expect(await reading(metrics, `${duration}_count{route="quote"}`)).toBe(0)
  })

  test.each([
    ['whose method is unknown', { method: 'PROPFIND', status: 200 }, 'method="other",status_class="2xx"'],
    ['whose client left', { method: 'GET', status: 0 }, 'method="GET",status_class="aborted"'],
    [
      'with a status that HTTP does not have',
      { method: 'GET', status: 777 },
      'method="GET",status_class="5xx"',
    ],
    [
      'with the name of a property as its method',
      { method: '__proto__', status: 404 },
      'method="other",status_class="4xx"',
    ],
  ])('%s is counted under a label that existed before', async (_what, { method, status }, labels) => {
    const metrics = fresh()
    const before = seriesNames(await metrics.render())
    countRequest(metrics, { area: 'none', method, status, durationMs: 1 })
    expect(await reading(metrics, total(`route="none",${labels}`))).toBe(1)
    expect(seriesNames(await metrics.render())).toEqual(before)
  })

  // Bounds that end earlier draw an upstream that times out as a gateway that is quicker than its upstream.
  test("that took until its upstream's timeout is in the bucket of that timeout", async () => {
    const metrics = fresh()
    for (const durationMs of [10_800, 15_000, 29_000]) {
      countRequest(metrics, { area: 'swap', method: 'GET', status: 504, durationMs })
      metrics.events.callEnded(swapCall, 'http_response_timeout', durationMs)
    }
    const bucketsOf = (name: string, label: string) =>
      Promise.all(
        ['10', '15', '30', '+Inf'].map((le) =>
          reading(metrics, `${name}_bucket{le="${le}",${label}="swap"}`),
        ),
      )
    const expected = [0, 2, 3, 3]
    expect(await bucketsOf('quotegate_http_request_duration_seconds', 'route')).toEqual(expected)
    expect(await bucketsOf('quotegate_upstream_request_duration_seconds', 'upstream')).toEqual(expected)
  })

  test('is in flight until its exchange ends', async () => {
    const exchanges = { inFlight: 2 }
    const metrics = fresh([], { exchanges })
    expect(await reading(metrics, 'quotegate_http_requests_in_flight')).toBe(2)
    exchanges.inFlight = 1
    expect(await reading(metrics, 'quotegate_http_requests_in_flight')).toBe(1)
  })
})

describe('a pair', () => {
  test('has its own label if METRICS_PAIRS names it, or else the label other', async () => {
    const metrics = fresh(['ETH_USDC'])
    const before = seriesNames(await metrics.render())
    for (const pair of ['ETH_USDC', 'BTC_USDC', 'constructor', 'a"b\n', '__proto__']) {
      metrics.events.quoteServed(pair, 1_000)
      metrics.events.quoteCalled(pair)
      metrics.events.quoteKept(1_000, pair, -0.01)
    }
    expect(await reading(metrics, 'quotegate_quotes_served_total{pair="ETH_USDC"}')).toBe(1)
    expect(await reading(metrics, 'quotegate_quotes_served_total{pair="other"}')).toBe(4)
    expect(await reading(metrics, 'quotegate_quote_calls_total{pair="other"}')).toBe(4)
    const drift = (pair: string, direction: string) =>
      reading(metrics, `quotegate_quote_drift_ratio_count{pair="${pair}",direction="${direction}"}`)
    expect([
      await drift('ETH_USDC', 'down'),
      await drift('other', 'down'),
      await drift('other', 'up'),
    ]).toEqual([1, 4, 0])
    expect(seriesNames(await metrics.render())).toEqual(before)
  })
})

describe('an upstream', () => {
  test('that was not called has no duration', async () => {
    const metrics = fresh()
    metrics.events.callRefused('swap', 'quotes', 'breaker_open')
    metrics.events.callEnded(swapCall, 'answered', 250)
    const count = 'quotegate_upstream_request_duration_seconds_count{upstream="swap"}'
    expect(await reading(metrics, count)).toBe(1)
    const refused = 'quotegate_upstream_requests_total{upstream="swap",outcome="breaker_open"}'
    expect(await reading(metrics, refused)).toBe(1)
  })

  test('has a breaker that is in one state', async () => {
    const metrics = fresh()
    const breaker = { name: 'connections', state: 'half-open' } as Breaker
    metrics.events.breakerChanged('payments', breaker, undefined)
    const states = await Promise.all(
      ['closed', 'open', 'half-open'].map((state) =>
        reading(
          metrics,
          `quotegate_breaker_state{upstream="payments",breaker="connections",state="${state}"}`,
        ),
      ),
    )
    expect(states).toEqual([0, 0, 1])
    for (const breaker of ['connections', 'orders', 'rest']) {
      const swap = `quotegate_breaker_state{upstream="swap",breaker="${breaker}",state="closed"}`
      expect(await reading(metrics, swap)).toBe(1)
    }
  })
})

test('open pairs are counted, with a label for those that METRICS_PAIRS names', async () => {
  const limits = { failures: 1, minFailingMs: 0, openMs: 1_000, nowMs: () => 0, onChange() {} }
  const breakers = new Breakers(true, limits)
  for (const quoteOf of ['ETH_USDC', 'A_B', 'C_D']) breakers.admit({ quoteOf })?.failed()
  breakers.admit({ quoteOf: 'BTC_USDC' })?.succeeded()
  const swap = { inFlight: 0, connections: { busy: 0, idle: 0 }, breakers }
  const upstreams = { swap, payments: undefined, webhooks: undefined }
  const metrics = fresh(['ETH_USDC', 'BTC_USDC'], { upstreams })
  const open = (pair: string) => reading(metrics, `quotegate_breaker_open_pairs{pair="${pair}"}`)
  expect([await open('ETH_USDC'), await open('BTC_USDC'), await open('other')]).toEqual([1, 0, 2])
})
