import type { Registry } from 'prom-client'
import type { CoolDowns } from '../quotes/cool-downs.ts'
import { createGauge, createTallies } from './series.ts'

export interface CoolDownMetrics {
  began(): void
  /** Read at each scrape. */
  watch(coolDowns: Pick<CoolDowns, 'list'>): void
}

export function createCoolDownMetrics(registry: Registry): CoolDownMetrics {
  const [begun] = createTallies(
    {
      registry,
      name: 'quotegate_quote_cool_downs_total',
      help: 'Times that the provider answered a quote with 429, so that it was not asked for a while',
    },
    [{}],
  )
  let watched: Pick<CoolDowns, 'list'> | undefined
  createGauge(
    {
      registry,
      name: 'quotegate_quote_cool_downs',
      help: 'Clients whose quotes the provider is not asked for now',
    },
    [{ labels: {}, read: () => watched?.list().length ?? 0 }],
  )
  return {
    began: () => begun?.inc(),
    watch(coolDowns) {
      watched = coolDowns
    },
  }
}
