import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { alertRules, alertTests, readGrafana } from '../support/observing/grafana.ts'

type Labels = Readonly<Record<string, string>>

interface InhibitRule {
  source_matchers: string[]
  target_matchers: string[]
  equal: string[]
}

const { inhibit_rules: rules } = parse(readGrafana('alertmanager.example.yml')) as {
  inhibit_rules: InhibitRule[]
}

function matches(labels: Labels, matchers: readonly string[]): boolean {
  return matchers.every((matcher) => {
    const [, name = '', operator, value = ''] = /^(\w+)(=~?)"(.+)"$/.exec(matcher) ?? []
    if (operator === undefined) throw new Error(`not understood: ${matcher}`)
    const label = labels[name] ?? ''
    return operator === '=' ? label === value : new RegExp(`^(?:${value})$`).test(label)
  })
}

/** As Alertmanager decides: an alert that matches both sides of a rule does not inhibit itself. */
function isInhibited(target: Labels, firing: readonly Labels[]): boolean {
  return rules.some(({ source_matchers: sources, target_matchers: targets, equal }) => {
    if (!matches(target, targets)) return false
    return firing.some(
      (source) =>
        source !== target &&
        matches(source, sources) &&
        !(matches(target, sources) && matches(source, targets)) &&
        equal.every((label) => (source[label] ?? '') === (target[label] ?? '')),
    )
  })
}

/** What fires in a case of alerts.test.yml, which promtool has confirmed. */
function firingIn(name: string): Labels[] {
  const found = alertTests.find((each) => each.name === name)
  return (found?.alert_rule_test ?? []).flatMap(({ alertname, exp_alerts: alerts }) =>
    alerts.map(({ exp_labels: labels }) => ({ alertname, ...labels })),
  )
}

const notInhibited = (firing: readonly Labels[]) =>
  firing.filter((alert) => !isInhibited(alert, firing))

test('a provider that is down pages once, and hides no alert of another gateway', () => {
  const firing = firingIn('the provider is gone')
  expect(firing.filter(({ severity }) => severity === 'critical').length).toBeGreaterThan(
    2,
  )
  expect(notInhibited(firing).map(({ alertname }) => alertname)).toEqual([
    'QuotegateBreakerOpen',
  ])
  const elsewhere = firing.map((labels): Labels => ({ ...labels, job: 'other' }))
  const others = elsewhere.filter(({ alertname }) => alertname !== 'QuotegateBreakerOpen')
  const ofBoth = notInhibited([...firing, ...others])
  expect(ofBoth.map(({ alertname, job }) => `${alertname} ${job}`)).toContain(
    'QuotegateProviderErrors other',
  )
})

test('an upstream that hangs without opening a breaker pages once', () => {
  const clientsLeave = firingIn(
    'an upstream hangs, and callers give up before the gateway does',
  )
  const names = (alerts: readonly Labels[]) => alerts.map(({ alertname }) => alertname)
  expect(names(clientsLeave)).toEqual([
    'QuotegateRequestsBrokenOff',
    'QuotegateRouteFails',
  ])
  expect(names(notInhibited(clientsLeave))).toEqual(['QuotegateRequestsBrokenOff'])
  const critical = { job: 'quotegate', severity: 'critical' }
  const clientsWait: Labels[] = [
    ...clientsLeave,
    { alertname: 'QuotegateProviderErrors', window: '1h', ...critical },
    { alertname: 'QuotegateClientsTurnedAway', instance: 'a', ...critical },
  ]
  expect(names(notInhibited(clientsWait))).toEqual(['QuotegateProviderErrors'])
})

const labelsOf = (alert: string, rest: object = {}): Labels => ({
  alertname: `Quotegate${alert}`,
  job: 'quotegate',
  ...rest,
})
const breaker = (upstream: string, kind: string) =>
  labelsOf('BreakerOpen', {
    instance: 'a',
    severity: 'critical',
    upstream,
    breaker: kind,
  })
const slow = ['swap', 'payments'].map((upstream) =>
  labelsOf('ProviderSlow', { severity: 'warning', upstream }),
)
const [slowSwap, slowPayments] = slow
const limit = labelsOf('ProviderLimits', { instance: 'a', severity: 'warning' })
const [noQuotes, noHits, pairs, refused] = [
  'NoQuotes',
  'HitRatioCollapsed',
  'PairsStopped',
  'OrdersRefused',
].map((alert) => labelsOf(alert, { severity: 'warning' }))
const ownErrors = labelsOf('OwnErrors', { window: '1h', severity: 'critical' })
const routeFails = (route: string, upstream = route) =>
  labelsOf('RouteFails', { route, upstream, severity: 'critical' })
const [orders, reads, payments] = [
  routeFails('float-order', 'swap'),
  routeFails('swap'),
  routeFails('payments'),
]
const allFail = labelsOf('ProviderErrors', { window: '1h', severity: 'critical' })
const brokenOff = labelsOf('RequestsBrokenOff', { severity: 'critical' })
const others = [
  orders,
  reads,
  payments,
  ...slow,
  noQuotes,
  noHits,
  pairs,
  refused,
  allFail,
  brokenOff,
]

test.each([
  [
    breaker('swap', 'connections'),
    [orders, reads, slowSwap, noQuotes, noHits, pairs, allFail, brokenOff],
  ],
  [breaker('swap', 'orders'), [orders, slowSwap]],
  [breaker('swap', 'rest'), [reads, slowSwap]],
  [breaker('payments', 'connections'), [payments, slowPayments]],
  [breaker('webhooks', 'connections'), []],
  [allFail, [orders, reads, ...slow, noQuotes, noHits, brokenOff]],
  [limit, [noQuotes, noHits]],
  [ownErrors, [orders, reads, payments]],
])('%j hides what follows from it, and nothing else', (source, hidden) => {
  expect(others.filter((other = source) => isInhibited(other, [other, source]))).toEqual(
    hidden,
  )
})

test('a store that is down pages for the replica that sends late orders, and warns about the others', () => {
  const firing = firingIn(
    'while the shared store is gone, one of two instances sends orders that it would have refused',
  )
  expect(
    notInhibited(firing).map(({ instance, severity }) => [instance, severity]),
  ).toEqual([
    ['a', 'critical'],
    ['b', 'warning'],
  ])
})

test('every alert that an inhibit rule names exists', () => {
  const known = new Set(alertRules.map(({ alert }) => alert))
  const named = rules
    .flatMap(({ source_matchers: sources, target_matchers: targets }) => [
      ...sources,
      ...targets,
    ])
    .filter((matcher) => matcher.startsWith('alertname'))
    .flatMap((matcher) => {
      const [, prefix = '', list] = /"(\w+?)(?:\((.+)\))?"/.exec(matcher) ?? []
      return list === undefined ? [prefix] : list.split('|').map((end) => prefix + end)
    })
  expect(named.length).toBeGreaterThan(8)
  expect(named.filter((name) => !known.has(name))).toEqual([])
})
