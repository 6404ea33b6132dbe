import { expect, test } from 'vitest'
import { Events, type Listener } from '../src/events.ts'
import { Problem } from '../src/http/problem.ts'
import type { FloatOrder } from '../src/orders/guard.ts'
import type { Exchange } from '../src/server/exchange.ts'
import { freshMetrics } from './support/observing/fresh-metrics.ts'

test('an event reaches each listener that has it, in their order, with what it was called with', () => {
  for (const name of Object.keys(new Events()) as (keyof Events)[]) {
    const heard: unknown[] = []
    const listening = (who: string): Listener => ({
      [name]: (...seen: unknown[]) => void heard.push(who, ...seen),
    })
    // As many as any event says: see `quoteServed`.
    const seen = [1, 2, 3, 4]
    const emit = (...listeners: Listener[]) =>
      (new Events(listeners)[name] as (...seen: unknown[]) => void)(...seen)
    emit(listening('one'), {}, listening('two'))
    expect(heard, name).toEqual(['one', ...seen, 'two', ...seen])
    emit({}, listening('three'))
    expect(heard.slice(10), name).toEqual(['three', ...seen])
    emit({})
    expect(heard, name).toHaveLength(15)
  }
})

/** What is emitted, and the series that counts it. */
const counted: readonly (readonly [emit: (events: Events) => void, series: string])[] = [
  [
    (events) =>
      events.requestEnded(
        { area: 'swap', request: { method: 'GET' } } as Exchange,
        200,
        1,
      ),
    'http_requests_total{route="swap",method="GET",status_class="2xx"}',
  ],
  [
    (events) =>
      events.problemAnswered(new Problem('saturated', { detail: '' }), 'id', undefined),
    'problems_total{type="saturated"}',
  ],
  [
    (events) =>
      events.addressNoted({
        address: undefined,
        peer: 'p',
        peerTrusted: true,
        note: 'no-client-named',
      }),
    'client_address_headers_ignored_total{reason="no-client-named"}',
  ],
  [(events) => events.rateLimited('order'), 'rate_limited_total{route="order"}'],
  [(events) => events.quoteLookedUp('shared'), 'cache_lookups_total{result="shared"}'],
  [(events) => events.quoteServed('A_B', 1, 0), 'quotes_served_total{pair="other"}'],
  [(events) => events.quoteCalled('A_B'), 'quote_calls_total{pair="other"}'],
  [(events) => events.quoteKept(1), 'quote_lifetime_seconds_count'],
  [
    (events) => events.quoteNotKept('vary', 200),
    'quotes_uncacheable_total{reason="vary",code="none"}',
  ],
  [
    (events) => events.quotesDropped('elsewhere', 1),
    'cache_evictions_total{reason="elsewhere"}',
  ],
  [(events) => events.quoteRefreshed('found'), 'quote_refreshes_total{outcome="found"}'],
  [
    (events) => events.quoteNotKept('status', 429, 'RATE_LIMITED'),
    'quotes_uncacheable_total{reason="limited",code="RATE_LIMITED"}',
  ],
  [
    (events) => {
      const order = {
        verdict: { state: 'unknown', rule: 'none' },
        quoteAgeMs: undefined,
      } as FloatOrder
      events.orderDecided({} as Exchange, 'refused-unknown', order)
    },
    'float_orders_total{decision="refused",reason="unknown"}',
  ],
  [
    (events) => events.callRefused('payments', 'rest', 'breaker_open'),
    'upstream_requests_total{upstream="payments",outcome="breaker_open"}',
  ],
  [
    (events) =>
      events.callEnded(
        { upstream: 'webhooks', traffic: 'rest', status: 200 },
        'answered',
        1,
      ),
    'upstream_requests_total{upstream="webhooks",outcome="answered"}',
  ],
  [(events) => events.callRetried('swap'), 'upstream_retries_total{upstream="swap"}'],
  [
    (events) => events.storeAsked('unlock', 'timeout', 1),
    'store_operations_total{op="unlock",outcome="timeout"}',
  ],
  [(events) => events.spansDropped(1), 'trace_spans_dropped_total'],
]

test('/metrics counts what was emitted, each event by itself', async () => {
  const { events, render } = freshMetrics()
  for (const [index, [emit]] of counted.entries())
    for (let time = 0; time <= index; time += 1) emit(events)
  const lines = (await render()).split('\n')
  const read = counted.map(([, series]) =>
    lines.find((line) => line.startsWith(`quotegate_${series} `)),
  )
  expect(read).toEqual(
    counted.map(([, series], index) => `quotegate_${series} ${index + 1}`),
  )
})
