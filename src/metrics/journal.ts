import { Counter, type Registry } from 'prom-client'
import type { DiskFacts } from '../journal/disk.ts'
import type { JournalFacts } from '../journal/journal.ts'
import type { StreamFacts } from '../journal/stream.ts'
import { createGauge, type MetricName } from './series.ts'

/** What is read at each scrape, where it is set. */
export interface WatchedJournals {
  readonly disk: { readonly facts: DiskFacts } | undefined
  readonly stream: { readonly facts: StreamFacts } | undefined
}

const parts = ['disk', 'stream'] as const
const failing = ['open', 'write', 'sync', 'keys'] as const

export function createJournalMetrics(registry: Registry, watched: () => WatchedJournals | undefined): void {
  const metric = (name: string, help: string) => ({ registry, name: `quotegate_journal_${name}`, help })
  const disk = () => watched()?.disk?.facts
  const stream = () => watched()?.stream?.facts

  const ofBoth = (name: string, help: string, read: (facts: JournalFacts) => number, without = 0) =>
    createGauge(
      metric(name, help),
      parts.map((part) => ({
        labels: { part },
        read() {
          const facts = watched()?.[part]?.facts
          return facts === undefined ? without : read(facts)
        },
      })),
    )
  const ofOne = (name: string, help: string, read: () => number | undefined) =>
    createGauge(metric(name, help), [{ labels: {}, read: () => read() ?? 0 }])
  const countOfBoth = (name: string, help: string, read: (facts: JournalFacts) => number) =>
    counter(metric(name, help), 'part', parts, (part) => {
      const facts = watched()?.[part]?.facts
      return facts === undefined ? 0 : read(facts)
    })

  ofBoth(
    'up',
    'Whether the journal takes what is noted: 1 or 0; 1 where it is not set',
    ({ awaySinceMs }) => Number(awaySinceMs === undefined),
    1,
  )
  ofBoth(
    'away_since_timestamp_seconds',
    'Since when the disk or the store fails or hangs; 0: it does not',
    ({ awaySinceMs = 0 }) => awaySinceMs / 1_000,
  )
  ofBoth('waiting_records', 'Records that are not in the journal yet', ({ waiting }) => waiting)
  countOfBoth('appended_records_total', 'Records that were appended', ({ appended }) => appended)
  countOfBoth(
    'skipped_records_total',
    'What was read and is not a record, or is damaged',
    ({ skipped }) => skipped,
  )
  ofOne(
    'behind_records',
    'Records of other replicas that were not read yet, at the last look',
    () => stream()?.behind,
  )
  ofOne(
    'restored_records',
    'Records that were read from STATE_DIRECTORY at the start',
    () => disk()?.restored,
  )
  ofOne('bytes', 'Size of the files in STATE_DIRECTORY', () => disk()?.bytes)
  ofOne(
    'last_sync_timestamp_seconds',
    'When STATE_DIRECTORY last held all that there was to write, synced to the disk: now, unless something waits; 0 where it is not set',
    () => disk() && (disk()?.syncedAtMs ?? 0) / 1_000,
  )
  ofOne(
    'set_aside_files',
    'Files in STATE_DIRECTORY that were set aside and that nothing reads',
    () => disk()?.setAside,
  )
  counter(
    metric('failures_total', 'Failures of the files in STATE_DIRECTORY'),
    'operation',
    failing,
    (operation) => disk()?.failures[operation] ?? 0,
  )
}

/** A counter whose series are counted elsewhere. */
function counter<Value extends string>(
  { registry, ...metric }: MetricName,
  label: string,
  values: readonly Value[],
  read: (value: Value) => number,
): void {
  new Counter({
    ...metric,
    labelNames: [label],
    registers: [registry],
    collect() {
      this.reset()
      for (const value of values) this.inc({ [label]: value }, read(value))
    },
  })
}
