import { diskOperations } from '../events.ts'
import { type UpstreamName, upstreamNames, upstreamTable } from '../http/upstreams.ts'
import type { DiskFacts } from '../memory/disk.ts'
import type { JournalFacts } from '../memory/journal.ts'
import {
  type BreakerName,
  type BreakerState,
  type Breakers,
  refusedPairs,
} from '../upstream/breakers.ts'
import { otherPair } from './labels.ts'
import type { MetricSet } from './series.ts'

interface WatchedUpstream {
  readonly inFlight: number
  readonly connections: Readonly<Record<'busy' | 'idle', number>>
  readonly breakers: Pick<Breakers, 'pairs' | 'states'>
}

/**
 * The parts of a gateway that are read at each scrape. Undefined: the part is not set up, and its gauges never change.
 */
export interface GaugedParts {
  readonly exchanges: { readonly inFlight: number }
  readonly bodies: { readonly heldBytes: number }
  readonly cache: { readonly entries: number }
  readonly ledger: { readonly size: number; readonly reachMs: number }
  readonly secrets: { readonly failures: number }
  readonly holds: { readonly list: readonly unknown[] }
  /** `saysNoTime`: answers came without the provider's time. */
  readonly clockDifference: { readonly newestMs: number; readonly saysNoTime: boolean }
  readonly upstreams: Readonly<Record<UpstreamName, WatchedUpstream | undefined>>
  readonly sharedStore: { readonly up: boolean } | undefined
  readonly journals: {
    readonly disk: { readonly facts: DiskFacts } | undefined
    readonly stream: { readonly facts: JournalFacts } | undefined
  }
}

export function watch(
  set: MetricSet,
  parts: GaugedParts,
  pairs: readonly string[],
): void {
  const { exchanges, bodies, cache, ledger, holds, clockDifference, sharedStore } = parts
  const swap = { upstream: 'swap' }
  set.gauge(
    'http_requests_in_flight',
    'Requests that have no complete answer yet',
    () => exchanges.inFlight,
  )
  set.gauge(
    'request_bodies_held_bytes',
    'What is held of request bodies that are not whole yet',
    () => bodies.heldBytes,
  )
  set.gauges(
    'entries',
    'Quotes in memory, expired ones among them: in the cache, and in the ledger for the orders that may use them',
    [
      [{ in: 'cache' }, () => cache.entries],
      [{ in: 'ledger' }, () => ledger.size],
    ],
  )
  set.gauge(
    'holds',
    'What operators hold now: each pair or application, or everything',
    () => holds.list.length,
  )
  set.gauge(
    'ledger_reach_seconds',
    'How far back every quote is remembered: since the start, until one was dropped to make room',
    () => ledger.reachMs / 1_000,
  )
  set.gauge(
    'upstream_clock_offset_seconds',
    "The provider's clock less ours, as far as the Date of its newest quote tells; 0 while they may agree",
    () => clockDifference.newestMs / 1_000,
    swap,
  )
  set.gauge(
    'upstream_clock_unknown',
    '1 once three quotes came and none had a Date that can be read: quotes are judged by our clock alone',
    () => Number(clockDifference.saysNoTime),
    swap,
  )
  set.gauge(
    'store_up',
    'Whether the shared store answers: 1 or 0; 1 where there is none to answer',
    () => Number(sharedStore?.up ?? true),
  )
  watchUpstreams(set, parts.upstreams, pairs)
  watchJournals(set, parts)
}

function watchUpstreams(
  set: MetricSet,
  upstreams: GaugedParts['upstreams'],
  pairs: readonly string[],
): void {
  const inFlight = upstreamNames.map(
    (name) => [{ upstream: name }, () => upstreams[name]?.inFlight ?? 0] as const,
  )
  set.gauges(
    'upstream_requests_in_flight',
    'Requests that an upstream is working on, or that wait for a connection to it',
    inFlight,
  )
  const connections = upstreamNames.map((upstream) =>
    (['busy', 'idle'] as const).map((state) => {
      return [
        { upstream, state },
        () => upstreams[upstream]?.connections[state] ?? 0,
      ] as const
    }),
  )
  set.gauges(
    'upstream_connections',
    'Connections to an upstream, by what they do',
    connections.flat(),
  )
  const states = upstreamNames.flatMap((upstream) =>
    breakersOf(upstream).flatMap((breaker) =>
      breakerStates.map((state) => {
        const now = () => upstreams[upstream]?.breakers.states[breaker]?.state ?? 'closed'
        return [{ upstream, breaker, state }, () => Number(now() === state)] as const
      }),
    ),
  )
  set.gauges(
    'breaker_state',
    'Whether a breaker of an upstream is in this state: 1 or 0',
    states,
  )
  const refused = () =>
    Object.values(upstreams).flatMap((one) =>
      one === undefined ? [] : refusedPairs(one.breakers),
    )
  // A breaker knows a pair in capitals.
  const nameOf = (refused: string) =>
    pairs.find((pair) => pair.toUpperCase() === refused) ?? otherPair
  const countOf = (pair: string) => refused().filter((one) => nameOf(one) === pair).length
  const ofPairs = pairs.map((pair) => [{ pair }, () => countOf(pair)] as const)
  set.gauges(
    'breaker_open_pairs',
    'Pairs whose quotes are not asked for now, because they keep failing',
    ofPairs,
  )
}

const breakerStates: readonly BreakerState[] = ['closed', 'open', 'half-open']

function breakersOf(upstream: UpstreamName): readonly BreakerName[] {
  return upstreamTable[upstream].requests === 'by-kind'
    ? ['connections', 'orders', 'rest']
    : ['connections']
}

function watchJournals(
  set: MetricSet,
  { journals: { disk, stream }, secrets }: Pick<GaugedParts, 'journals' | 'secrets'>,
): void {
  const ofBoth = (read: (facts: JournalFacts) => number, without = 0) =>
    Object.entries({ disk, stream }).map(([part, journal]) => {
      return [
        { part },
        () => (journal === undefined ? without : read(journal.facts)),
      ] as const
    })
  const isUp = ofBoth(({ awaySinceMs }) => Number(awaySinceMs === undefined), 1)
  set.gauges(
    'journal_up',
    'Whether the journal takes what is noted: 1 or 0; 1 where it is not set',
    isUp,
  )
  const skipped = ofBoth((facts) => facts.skipped)
  set.countersRead(
    'journal_skipped_records_total',
    'What was read and is not a record, or is damaged',
    skipped,
  )
  set.gauge(
    'journal_set_aside_files',
    'Files in STATE_DIRECTORY that were set aside and that nothing reads',
    () => disk?.facts.setAside ?? 0,
  )
  const failures = diskOperations.map((operation) => {
    return [{ operation }, () => disk?.facts.failures[operation] ?? 0] as const
  })
  set.countersRead(
    'file_failures_total',
    'Failures of files: of steps at those in STATE_DIRECTORY, and of secrets that were to be read again',
    [...failures, [{ operation: 'secrets' }, () => secrets.failures]],
  )
}
