import type { Registry } from 'prom-client'
import type { StateFacts, StateObserver } from '../state/state.ts'
import { createGauge, createTalliesBy } from './series.ts'

export interface StateMetrics extends StateObserver {
  /** Read at each scrape. */
  watch(facts: StateFacts): void
}

export function createStateMetrics(registry: Registry): StateMetrics {
  const metric = (name: string, help: string) => ({ registry, name: `quotegate_state_${name}`, help })
  const failures = createTalliesBy(
    metric('failures_total', 'Failures of the files in STATE_DIRECTORY'),
    'operation',
    ['open', 'write', 'sync'],
  )
  let watched: StateFacts | undefined
  const gauge = (name: string, help: string, read: (facts: StateFacts) => number, without = 0) =>
    createGauge(metric(name, help), [
      { labels: {}, read: () => (watched === undefined ? without : read(watched)) },
    ])

  gauge(
    'up',
    'Whether STATE_DIRECTORY is written, and each write and sync is done within 5 s: 1 or 0; 1 where it is not set',
    ({ isWriting }) => Number(isWriting),
    1,
  )
  gauge('records', 'Records in STATE_DIRECTORY', ({ records }) => records)
  gauge('bytes', 'Size of the files in STATE_DIRECTORY', ({ bytes }) => bytes)
  gauge('backlog', 'Records and removals that are not in STATE_DIRECTORY yet', ({ backlog }) => backlog)
  gauge(
    'last_sync_timestamp_seconds',
    'When STATE_DIRECTORY last held all that there was to write, synced to the disk: now, unless something waits; 0 where it is not set',
    ({ syncedAtMs }) => syncedAtMs / 1_000,
  )
  gauge('restored', 'Records that were read from STATE_DIRECTORY at the start', ({ restored }) => restored)
  gauge(
    'missing',
    'Records that were missing or damaged in STATE_DIRECTORY at the start',
    ({ missing }) => missing,
  )
  gauge(
    'set_aside',
    'Folders in STATE_DIRECTORY that were set aside and that nothing reads',
    ({ setAside }) => setAside,
  )
  return {
    failed: (operation) => failures[operation].inc(),
    watch(facts) {
      watched = facts
    },
  }
}
