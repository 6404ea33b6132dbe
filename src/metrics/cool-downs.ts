import type { Registry } from 'prom-client'
import type { CoolDownObserver, CoolDownScope, CoolDowns } from '../quotes/cool-downs.ts'
import { createGauge, createTalliesBy } from './series.ts'

const scopes: readonly CoolDownScope[] = ['address', 'application']

export interface CoolDownMetrics {
  began: CoolDownObserver['began']
  /** Read at each scrape. */
  watch(coolDowns: Pick<CoolDowns, 'list'>): void
}

export function createCoolDownMetrics(registry: Registry): CoolDownMetrics {
  const begun = createTalliesBy(
    {
      registry,
      name: 'quotegate_quote_cool_downs_total',
      help: 'Times that the provider answered a quote with 429, so that it was not asked for a while',
    },
    'scope',
    scopes,
  )
  let watched: Pick<CoolDowns, 'list'> | undefined
  createGauge(
    {
      registry,
      name: 'quotegate_quote_cool_downs',
      help: 'Applications, or their single client addresses, whose quotes the provider is not asked for now',
    },
    scopes.map((scope) => ({
      labels: { scope },
      read: () => watched?.list().filter((coolDown) => coolDown.scope === scope).length ?? 0,
    })),
  )
  return {
    began: ({ scope }) => begun[scope].inc(),
    watch(coolDowns) {
      watched = coolDowns
    },
  }
}
