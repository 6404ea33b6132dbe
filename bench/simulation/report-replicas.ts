import { count, table } from '../shared/generated.ts'
import { share } from './report.ts'
import { type Mode, storeLatencyMs, type Totals } from './run.ts'

export const replicaCounts = [1, 2, 4, 8]

export interface ReplicasResult {
  mode: Mode
  replicas: number
  /** Each replica has only its own memory. */
  alone: Totals
  /** The replicas share a store. */
  shared: Totals
}

export function formatReplicas(results: readonly ReplicasResult[]): string {
  const requests = results[0]?.alone.requests ?? 0
  return [
    `The hour of [partitions.md](partitions.md), ${count(requests)} requests of 1,000 clients, each given to one of ` +
      `the replicas by chance; without refresh-ahead. *Alone*: every replica has its own memory and nothing else. ` +
      `*Shared*: under it a store, a look-up in which takes ${storeLatencyMs} ms. Of 100 requests:`,
    replicasTable(results),
    `Checked on the way: no quote went to another partition, none was served at or past its expiry (the closest was ` +
      `handed out ${minLifeLeftMs(results)} ms before), and every look-up that memory could not answer was one call, ` +
      `or one answer of the store.`,
    '',
  ].join('\n\n')
}

export function replicasTable(results: readonly ReplicasResult[]): string {
  const rows = results.map(({ mode, replicas, alone, shared }) => [
    mode,
    String(replicas),
    share(alone.lookups.hit, alone.requests),
    share(alone.upstreamCalls, alone.requests),
    share(shared.lookups.hit, shared.requests),
    share(shared.fromStore, shared.requests),
    share(shared.upstreamCalls, shared.requests),
    count(shared.upstreamCalls),
  ])
  return table(
    [
      'QUOTE_PARTITION',
      'replicas',
      'alone: from memory',
      'alone: calls',
      'shared: from memory',
      'shared: from the store',
      'shared: calls',
      'calls in the hour',
    ],
    rows,
  )
}

function minLifeLeftMs(results: readonly ReplicasResult[]): number {
  return Math.min(...results.flatMap(({ alone, shared }) => [alone.minLifeLeftMs, shared.minLifeLeftMs]))
}
