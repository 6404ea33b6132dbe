import { describe, expect, test } from 'vitest'
import { Breakers } from '../../src/upstream/breakers.ts'
import {
  countRequest,
  freshMetrics as fresh,
} from '../support/observing/fresh-metrics.ts'
import { readPage, seriesNames } from '../support/observing/metrics-page.ts'

const swapCall = { upstream: 'swap', traffic: 'quotes', status: 200 } as const

/** The value of one series, by its name and labels as they stand on the page. */
async function reading(
  metrics: Pick<ReturnType<typeof fresh>, 'render'>,
  series: string,
): Promise<number | undefined> {
  const line = (await metrics.render())
    .split('\n')
    .find((text) => text.startsWith(`${series} `))
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

test('before anything has happened every series exists, at 0 except what says how things are', async () => {
  const metrics = [...readPage(await fresh(['ETH_USDC']).render()).values()]
  expect(metrics.filter(({ series }) => series.length === 0)).toEqual([])
  const ours = metrics.filter(({ name }) => name.startsWith('quotegate_'))
  const notZero = ours.flatMap(({ series }) => series.filter(({ value }) => value !== 0))
  expect(notZero.map(({ name, labels }) => [name, labels.state])).toEqual([
    ['quotegate_build_info', undefined],
    ['quotegate_memory_limit_bytes', undefined],
    ['quotegate_last_quote_timestamp_seconds', undefined],
    // Three of swap, one each of payments and webhooks.
    // Without a store and a folder.
    ['quotegate_store_up', undefined],
    ...Array(5).fill(['quotegate_breaker_state', 'closed']),
    ...Array(2).fill(['quotegate_journal_up', undefined]),
  ])
  const seriesOf = (name: string) =>
    metrics.find((metric) => metric.name === name)?.series ?? []
  // Of each route, method and class of status.
  expect(seriesOf('quotegate_http_requests_total')).toHaveLength(7 * 8 * 5)
  // Of each operation and outcome.
  const operations = seriesOf('quotegate_store_operations_total')
  expect([...new Set(operations.map(({ labels }) => labels.op))]).toEqual([
    'quote-get',
    'quote-set',
    'quote-forget',
    'unlock',
    'rate-limit',
    'key-claim',
    'key-settle',
    'hold-read',
    'hold-write',
    'journal-append',
    'journal-read',
  ])
  expect(operations).toHaveLength(11 * 4)
})

describe('a request', () => {
  test.each([
    ['with a usual method and status', 'POST', 201, 'method="POST",status_class="2xx"'],
    ['whose method is unknown', 'PROPFIND', 200, 'method="other",status_class="2xx"'],
    ['whose caller left', 'GET', 0, 'method="GET",status_class="aborted"'],
    [
      'with a status that HTTP does not have',
      'GET',
      777,
      'method="GET",status_class="5xx"',
    ],
    [
      'with the name of a property as its method',
      '__proto__',
      404,
      'method="other",status_class="4xx"',
    ],
  ])(
    '%s is counted with its duration, under a label that existed before',
    async (...row) => {
      const [, method, status, labels] = row
      const metrics = fresh()
      const before = seriesNames(await metrics.render())
      countRequest(metrics, { area: 'payments', method, status, durationMs: 40 })
      expect(
        await reading(
          metrics,
          `quotegate_http_requests_total{route="payments",${labels}}`,
        ),
      ).toBe(1)
      const duration = 'quotegate_http_request_duration_seconds'
      expect(await reading(metrics, `${duration}_count{route="payments"}`)).toBe(1)
      expect(await reading(metrics, `${duration}_sum{route="payments"}`)).toBeCloseTo(
        0.04,
      )
      expect(await reading(metrics, `${duration}_count{route="quote"}`)).toBe(0)
      expect(seriesNames(await metrics.render())).toEqual(before)
    },
  )

  // Bounds that end earlier draw an upstream that times out as a gateway that is quicker than its upstream.
  test("that took until its upstream's timeout is in the bucket of that timeout", async () => {
    const metrics = fresh()
    for (const durationMs of [10_800, 15_000, 29_000]) {
      countRequest(metrics, { area: 'swap', method: 'GET', status: 504, durationMs })
      metrics.events.callEnded(swapCall, 'http_response_timeout', durationMs)
    }
    const bucketsOf = (name: string, label: string) => {
      const upTo = (le: string) =>
        reading(metrics, `${name}_bucket{le="${le}",${label}="swap"}`)
      return Promise.all(['10', '15', '30', '+Inf'].map(upTo))
    }
    const expected = [0, 2, 3, 3]
    expect(await bucketsOf('quotegate_http_request_duration_seconds', 'route')).toEqual(
      expected,
    )
    expect(
      await bucketsOf('quotegate_upstream_request_duration_seconds', 'upstream'),
    ).toEqual(expected)
  })

  test('is in flight until its exchange ends', async () => {
    const exchanges = { inFlight: 2 }
    const metrics = fresh([], { exchanges })
    expect(await reading(metrics, 'quotegate_http_requests_in_flight')).toBe(2)
    exchanges.inFlight = 1
    expect(await reading(metrics, 'quotegate_http_requests_in_flight')).toBe(1)
  })
})

test('a pair has its own label if METRICS_PAIRS names it, or else the label other', async () => {
  const metrics = fresh(['ETH_USDC'])
  const before = seriesNames(await metrics.render())
  for (const pair of ['ETH_USDC', 'BTC_USDC', 'constructor', 'a"b\n', '__proto__']) {
    metrics.events.quoteServed(pair, 1_000, 0)
    metrics.events.quoteCalled(pair)
  }
  for (const [series, count] of [
    ['quotegate_quotes_served_total{pair="ETH_USDC"}', 1],
    ['quotegate_quotes_served_total{pair="other"}', 4],
    ['quotegate_quote_calls_total{pair="other"}', 4],
  ] as const)
    expect(await reading(metrics, series), series).toBe(count)
  expect(seriesNames(await metrics.render())).toEqual(before)
})

describe('an upstream', () => {
  test('that was not called has no duration', async () => {
    const metrics = fresh()
    metrics.events.callRefused('swap', 'quotes', 'breaker_open')
    metrics.events.callEnded(swapCall, 'answered', 250)
    const count = 'quotegate_upstream_request_duration_seconds_count{upstream="swap"}'
    expect(await reading(metrics, count)).toBe(1)
    const refused =
      'quotegate_upstream_requests_total{upstream="swap",outcome="breaker_open"}'
    expect(await reading(metrics, refused)).toBe(1)
  })

  test('has a breaker that is in one state', async () => {
    const limits = {
      failures: 1,
      minFailingMs: 0,
      openMs: 0,
      nowMs: () => 0,
      onChange() {},
    }
    const breakers = new Breakers(true, limits)
    breakers.of('order')?.admit()?.failed()
    breakers.of('order')?.admit()
    const swap = { inFlight: 0, connections: { busy: 0, idle: 0 }, breakers }
    const metrics = fresh([], {
      upstreams: { swap, payments: undefined, webhooks: undefined },
    })
    const state = (name: string) =>
      reading(
        metrics,
        `quotegate_breaker_state{upstream="swap",breaker="orders",state="${name}"}`,
      )
    expect([
      await state('closed'),
      await state('open'),
      await state('half-open'),
    ]).toEqual([0, 0, 1])
    const other = 'quotegate_breaker_state{upstream="swap",breaker="rest",state="closed"}'
    expect(await reading(metrics, other)).toBe(1)
  })
})

test('open pairs are counted, with a label for those that METRICS_PAIRS names', async () => {
  const limits = {
    failures: 1,
    minFailingMs: 0,
    openMs: 1_000,
    nowMs: () => 0,
    onChange() {},
  }
  const breakers = new Breakers(true, limits)
  for (const quoteOf of ['ETH_USDC', 'A_B', 'C_D'])
    breakers.of({ quoteOf })?.admit()?.failed()
  breakers.of({ quoteOf: 'BTC_USDC' })?.admit()?.succeeded()
  const swap = { inFlight: 0, connections: { busy: 0, idle: 0 }, breakers }
  const upstreams = { swap, payments: undefined, webhooks: undefined }
  const metrics = fresh(['ETH_USDC', 'BTC_USDC'], { upstreams })
  const open = (pair: string) =>
    reading(metrics, `quotegate_breaker_open_pairs{pair="${pair}"}`)
  expect([await open('ETH_USDC'), await open('BTC_USDC'), await open('other')]).toEqual([
    1, 0, 2,
  ])
})
