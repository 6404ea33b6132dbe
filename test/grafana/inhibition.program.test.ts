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

const notInhibited = (firing: readonly Labels[]) => firing.filter((alert) => !isInhibited(alert, firing))

test('a provider that is down pages once, and hides no alert of another gateway', () => {
  const firing = firingIn('the provider is gone')
  expect(firing.filter(({ severity }) => severity === 'critical').length).toBeGreaterThan(2)
  expect(notInhibited(firing).map(({ alertname }) => alertname)).toEqual(['QuotegateBreakerOpen'])
  const elsewhere = firing.map((labels): Labels => ({ ...labels, job: 'other' }))
  const others = elsewhere.filter(({ alertname }) => alertname !== 'QuotegateBreakerOpen')
  const ofBoth = notInhibited([...firing, ...others])
  expect(ofBoth.map(({ alertname, job }) => `${alertname} ${job}`)).toContain('QuotegateProviderErrors other')
})

test('an upstream that hangs without opening a breaker pages once', () => {
  const clientsLeave = firingIn('an upstream hangs, and clients give up before the gateway does')
  const names = (alerts: readonly Labels[]) => alerts.map(({ alertname }) => alertname)
  expect(names(clientsLeave)).toEqual(['QuotegateRequestsBrokenOff', 'QuotegateRouteFails'])
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
  ...{ alertname: `Quotegate${alert}`, job: 'quotegate' },
  ...rest,
})
const breaker = (upstream: string, kind: string) =>
  labelsOf('BreakerOpen', { instance: 'a', severity: 'critical', upstream, breaker: kind })
const slow = (upstream: string) => labelsOf('ProviderSlow', { severity: 'warning', upstream })
const limit = labelsOf('ProviderLimits', { instance: 'a', severity: 'warning' })
const warning = (alert: string) => labelsOf(alert, { severity: 'warning' })
const ownErrors = labelsOf('OwnErrors', { window: '1h', severity: 'critical' })
const routeFails = labelsOf('RouteFails', { route: 'float-order', severity: 'critical' })

test.each<[string, Labels[], Labels[]]>([
  ["a breaker hides its upstream's slowness", [breaker('swap', 'connections'), slow('swap')], [slow('swap')]],
  ["and not another's", [breaker('swap', 'connections'), slow('payments')], []],
  [
    "the provider's limit explains quotes that do not come and hits that are missing",
    [limit, warning('NoQuotes'), warning('HitRatioCollapsed'), warning('OrdersRefused')],
    [warning('NoQuotes'), warning('HitRatioCollapsed')],
  ],
  ['without it both notify', [warning('NoQuotes'), warning('HitRatioCollapsed')], []],
  ['a defect that fails every request of one route pages once', [ownErrors, routeFails], [routeFails]],
  [
    'a breaker of payments hides nothing of quotes',
    [breaker('payments', 'connections'), warning('NoQuotes')],
    [],
  ],
  ['nor one of orders', [breaker('swap', 'orders'), warning('NoQuotes'), warning('PairsStopped')], []],
])('%s', (_what, firing, hidden) => {
  expect(firing.filter((alert) => isInhibited(alert, firing))).toEqual(hidden)
})

test('a store that is down pages for the replica that sends late orders, and warns about the others', () => {
  const firing = firingIn(
    'while the shared store is gone, one of two instances sends orders that it would have refused',
  )
  expect(notInhibited(firing).map(({ instance, severity }) => [instance, severity])).toEqual([
    ['a', 'critical'],
    ['b', 'warning'],
  ])
})

test('every alert that an inhibit rule names exists', () => {
  const known = new Set(alertRules.map(({ alert }) => alert))
  const named = rules
    .flatMap(({ source_matchers: sources, target_matchers: targets }) => [...sources, ...targets])
    .filter((matcher) => matcher.startsWith('alertname'))
    .flatMap((matcher) => {
      const [, prefix = '', list] = /"(\w+?)(?:\((.+)\))?"/.exec(matcher) ?? []
      return list === undefined ? [prefix] : list.split('|').map((end) => prefix + end)
    })
  expect(named.length).toBeGreaterThan(8)
  expect(named.filter((name) => !known.has(name))).toEqual([])
})
