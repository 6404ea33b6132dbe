import { count, table } from '../shared/generated.ts'
import { type Mode, modes, type Totals } from './run.ts'
import type { Scenario } from './traffic.ts'

export interface Result {
  scenario: Scenario
  mode: Mode
  refreshAheadMs: number
  totals: Totals
}

export function formatReport(results: readonly Result[], busier: readonly Result[]): string {
  const parts = [...results, ...busier]
  const minLifeLeftMs = Math.min(...parts.map(({ totals }) => totals.minLifeLeftMs))
  const requests = parts.reduce((sum, { totals }) => sum + totals.requests, 0)
  const scenario = results[0]?.scenario
  const slice = busier[0]?.scenario
  if (scenario === undefined || slice === undefined) throw new Error('there is nothing to report')
  return [
    '### What is assumed',
    describeScenario(scenario),
    '### Calls by mode',
    callsTable(results),
    `Checked on the way, over all ${count(requests)} simulated requests on this page: hits, misses, expired and ` +
      `collapsed add up to the requests; every call has one cause; no quote went to another partition; none was ` +
      `served at or past its expiry (the closest was handed out ${minLifeLeftMs} ms before).`,
    '### With more clients',
    `Calls per 100 requests over ${minutes(slice.durationMs)} of the same script, starting with an empty cache, ` +
      `without refresh-ahead:`,
    busierTable(busier),
    '',
  ].join('\n\n')
}

export function describeScenario(scenario: Scenario): string {
  const { visitMs, awayMs } = scenario
  return [
    `- ${count(scenario.clients)} clients, each with an address of its own, in ${scenario.countries} countries (by Zipf's law with ` +
      `exponent 1). ${percent(scenario.ipv4Share)} have IPv4, ${scenario.clientsPerIpv4Network} to a /24; the others IPv6, ` +
      `${scenario.clientsPerIpv6Network} to a /56. A network lies within one country. The edge cannot place ` +
      `${percent(scenario.unknownPlaceShare)} of them (XX).`,
    `- A client opens the swap page for ${minutes(visitMs[0], visitMs[1])}, then stays away for ${minutes(awayMs[0], awayMs[1])}, both drawn ` +
      `evenly. At each visit it chooses one of ${scenario.pairs} pairs and one of ${scenario.amounts} amounts (Zipf, exponent 1, each), and ` +
      `asks at once and then every ${seconds(scenario.askEveryMs)}, up to ${seconds(scenario.askJitterMs)} early or late, as the wallet backend does: ` +
      `on average ${count(meanOpenPages(scenario))} pages are open and ask ${decimal(meanRequestsPerSecond(scenario))} times a second.`,
    `- One backend asks for all of them, so the headers in the key are the same on every request.`,
    `- A quote lives ${seconds(scenario.quoteLifeMs)} from the middle of the call that made it. A call takes ${scenario.upstreamLatencyMs} ms. ` +
      `The provider's clock agrees with ours; its \`Date\` has whole seconds.`,
    `- ${minutes(scenario.durationMs)} of virtual time, starting with an empty cache; one gateway, its default cache bounds, seed ` +
      `${scenario.seed}. No orders. No client gives up.`,
  ].join('\n')
}

export function callsTable(results: readonly Result[]): string {
  const rows = results.map(({ mode, refreshAheadMs, totals }) => {
    const { requests, upstreamCalls, lookups, waited } = totals
    return [
      mode,
      refreshAheadMs === 0 ? 'off' : `${count(refreshAheadMs)} ms`,
      count(requests),
      count(upstreamCalls),
      share(upstreamCalls, requests),
      share(lookups.hit, requests),
      count(lookups.collapsed),
      share(waited, requests),
    ]
  })
  return table(
    [
      'QUOTE_PARTITION',
      'refresh-ahead',
      'client requests',
      'upstream calls',
      'calls per 100',
      'hits %',
      'collapsed',
      'waited %',
    ],
    rows,
  )
}

function busierTable(results: readonly Result[]): string {
  const sizes = [...new Set(results.map(({ scenario }) => scenario.clients))]
  const rows = sizes.map((clients) => {
    const ofSize = results.filter(({ scenario }) => scenario.clients === clients)
    const perMode = modes.map((mode) => {
      const totals = ofSize.find((result) => result.mode === mode)?.totals
      return totals === undefined ? '' : share(totals.upstreamCalls, totals.requests)
    })
    return [count(clients), count(ofSize[0]?.totals.requests ?? 0), ...perMode]
  })
  return table(['clients', 'client requests', ...modes], rows)
}

function meanOpenPages({ clients, visitMs, awayMs }: Scenario): number {
  const visit = visitMs[0] + visitMs[1]
  return (clients * visit) / (visit + awayMs[0] + awayMs[1])
}

function meanRequestsPerSecond(scenario: Scenario): number {
  return meanOpenPages(scenario) / (scenario.askEveryMs / 1_000)
}

export function share(part: number, whole: number): string {
  return whole === 0 ? '0.0' : decimal((100 * part) / whole)
}

function decimal(value: number): string {
  return value.toFixed(1)
}

function percent(value: number): string {
  return `${Math.round(100 * value)} %`
}

function seconds(durationMs: number): string {
  return `${durationMs / 1_000} s`
}

function minutes(...durationsMs: number[]): string {
  return `${durationsMs.map((durationMs) => durationMs / 60_000).join(' to ')} minutes`
}
