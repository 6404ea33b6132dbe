import type { Registry } from 'prom-client'
import { type Listener, type StoreOutcome, storeOperations } from '../events.ts'
import { createDistribution, createGauge, createTallies } from './series.ts'

const outcomes: readonly StoreOutcome[] = ['ok', 'failed', 'timeout', 'skipped']

/** From a server next door to the longest that VALKEY_TIMEOUT_MS is likely to be. */
const durationBounds = [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1]

export function createStoreMetrics(
  registry: Registry,
  watched: () => { readonly up: boolean } | undefined,
): Listener {
  const metric = (name: string, help: string) => ({ registry, name: `quotegate_store_${name}`, help })
  const labelSets = storeOperations.flatMap((op) => outcomes.map((outcome) => ({ op, outcome })))
  const tallies = createTallies(metric('operations_total', 'Calls of the shared store'), labelSets)
  const places = new Map(labelSets.map(({ op, outcome }, index) => [`${op} ${outcome}`, index]))
  const duration = createDistribution(
    metric('operation_duration_seconds', 'Time that a call of the shared store took, also one that failed'),
    durationBounds,
  )
  createGauge(metric('up', 'Whether the shared store answers: 1 or 0; 1 where there is none to answer'), [
    { labels: {}, read: () => Number(watched()?.up ?? true) },
  ])
  return {
    storeAsked(operation, outcome, durationMs) {
      tallies[places.get(`${operation} ${outcome}`) ?? -1]?.inc()
      if (outcome !== 'skipped') duration.observe(durationMs / 1_000)
    },
  }
}
