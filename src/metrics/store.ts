import type { Registry } from 'prom-client'
import { type StoreObserver, type StoreOutcome, storeOperations } from '../replicas/store.ts'
import { createDistribution, createGauge, createTallies } from './series.ts'

const outcomes: readonly StoreOutcome[] = ['ok', 'failed', 'timeout', 'skipped']

/** From a server next door to the longest that VALKEY_TIMEOUT_MS is likely to be. */
const durationBounds = [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1]

export interface StoreMetrics extends StoreObserver {
  /** Read at each scrape. */
  watch(store: { readonly up: boolean }): void
}

export function createStoreMetrics(registry: Registry): StoreMetrics {
  const metric = (name: string, help: string) => ({ registry, name: `quotegate_store_${name}`, help })
  const labelSets = storeOperations.flatMap((op) => outcomes.map((outcome) => ({ op, outcome })))
  const tallies = createTallies(metric('operations_total', 'Calls of the shared store'), labelSets)
  const places = new Map(labelSets.map(({ op, outcome }, index) => [`${op} ${outcome}`, index]))
  const duration = createDistribution(
    metric('operation_duration_seconds', 'Time that a call of the shared store took, also one that failed'),
    durationBounds,
  )
  let watched: { readonly up: boolean } | undefined
  createGauge(metric('up', 'Whether the shared store answers: 1 or 0; 1 where there is none to answer'), [
    { labels: {}, read: () => (watched === undefined || watched.up ? 1 : 0) },
  ])
  return {
    operationEnded(operation, outcome, durationMs) {
      tallies[places.get(`${operation} ${outcome}`) ?? -1]?.inc()
      if (outcome !== 'skipped') duration.observe(durationMs / 1_000)
    },
    watch(store) {
      watched = store
    },
  }
}
