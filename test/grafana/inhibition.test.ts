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

test('a provider that is down pages once, and no other alert notifies', () => {
  const firing = firingIn('the provider is gone')
  expect(firing.filter(({ severity }) => severity === 'critical').length).toBeGreaterThan(2)
  expect(notInhibited(firing).map(({ alertname }) => alertname)).toEqual(['QuotegateBreakerOpen'])
})

test('an upstream that hangs without opening a breaker pages once', () => {
  const clientsLeave = firingIn('an upstream hangs, and clients give up before the gateway does')
  expect(clientsLeave.map(({ alertname }) => alertname)).toEqual([
    'QuotegateRequestsBrokenOff',
    'QuotegateRouteFails',
  ])
  expect(notInhibited(clientsLeave).map(({ alertname }) => alertname)).toEqual(['QuotegateRequestsBrokenOff'])
  const critical = { job: 'quotegate', severity: 'critical' }
  const clientsWait: Labels[] = [
    ...clientsLeave,
    { alertname: 'QuotegateProviderErrors', window: '1h', ...critical },
    { alertname: 'QuotegateClientsTurnedAway', instance: 'a', ...critical },
  ]
  expect(notInhibited(clientsWait).map(({ alertname }) => alertname)).toEqual(['QuotegateProviderErrors'])
})

test("a breaker of one upstream hides that upstream's slowness, and not another's", () => {
  const [slowSwap, slowPayments] = ['swap', 'payments'].map((upstream): Labels => {
    return { alertname: 'QuotegateProviderSlow', job: 'quotegate', severity: 'warning', upstream }
  }) as [Labels, Labels]
  const breaker: Labels = {
    ...{ alertname: 'QuotegateBreakerOpen', job: 'quotegate', instance: 'a', severity: 'critical' },
    ...{ upstream: 'swap', breaker: 'connections' },
  }
  expect(notInhibited([breaker, slowSwap, slowPayments])).toEqual([breaker, slowPayments])
})

test("the provider's limit of a whole application explains quotes that do not come and hits that are missing", () => {
  const warning = { job: 'quotegate', severity: 'warning' }
  const limit: Labels = { alertname: 'QuotegateProviderLimits', instance: 'a', ...warning }
  const because: Labels[] = ['NoQuotes', 'HitRatioCollapsed'].map((alert) => {
    return { alertname: `Quotegate${alert}`, ...warning }
  })
  const refused: Labels = { alertname: 'QuotegateOrdersRefused', ...warning }
  expect(notInhibited([limit, ...because, refused])).toEqual([limit, refused])
  expect(notInhibited(because)).toEqual(because)
})

test('a defect that fails every request of one route pages once', () => {
  const critical = { job: 'quotegate', severity: 'critical' }
  const firing: Labels[] = [
    { alertname: 'QuotegateOwnErrors', window: '1h', ...critical },
    { alertname: 'QuotegateRouteFails', route: 'float-order', ...critical },
  ]
  expect(notInhibited(firing).map(({ alertname }) => alertname)).toEqual(['QuotegateOwnErrors'])
})

test.each([
  ['payments', 'connections'],
  ['swap', 'orders'],
])('a breaker of %s %s hides nothing of quotes', (upstream, breaker) => {
  const firing: Labels[] = [
    {
      alertname: 'QuotegateBreakerOpen',
      job: 'quotegate',
      instance: 'a',
      severity: 'critical',
      upstream,
      breaker,
    },
    { alertname: 'QuotegateNoQuotes', job: 'quotegate', severity: 'warning' },
    { alertname: 'QuotegatePairsStopped', job: 'quotegate', instance: 'a', severity: 'warning' },
  ]
  expect(notInhibited(firing)).toEqual(firing)
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

test('the outage of one gateway hides no alert of another', () => {
  const elsewhere = firingIn('the provider is gone').map((labels): Labels => ({ ...labels, job: 'other' }))
  const [breaker] = firingIn('the provider is gone')
  const firing = [
    breaker as Labels,
    ...elsewhere.filter(({ alertname }) => alertname !== 'QuotegateBreakerOpen'),
  ]
  expect(notInhibited(firing).map(({ alertname }) => alertname)).toContain('QuotegateProviderErrors')
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
