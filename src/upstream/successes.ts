import type { Breakers } from './breakers.ts'
import type { Traffic } from './types.ts'

/** A pair whose breaker has opened, and that had no quote since. */
export interface StoppedPair {
  readonly pair: string
  /** When the first of its failures in a row ended. Monotonic. */
  readonly failingSinceMs: number
  readonly retryAfterMs: number
}

/** The pairs whose quotes keep failing. */
export interface QuotesOutage {
  readonly stopped: readonly StoppedPair[]
  /** When the first failure ended. Monotonic. */
  readonly sinceMs: number
  /** No quote has succeeded since then: how many pairs were asked for. Undefined: some quotes have succeeded. */
  readonly askedFor: number | undefined
}

/** What has succeeded at one upstream. A sentence about an outage names nothing else as still served. */
export interface Successes {
  note(traffic: Traffic): void
  /** What has succeeded since then and is not stopped. */
  since(sinceMs: number): readonly Traffic[]
  quotesOutage(): QuotesOutage | undefined
}

const kinds: readonly Traffic[] = ['quotes', 'orders', 'rest']

export function createSuccesses(
  breakers: Pick<Breakers, 'states' | 'pairs'>,
  nowMs: () => number,
): Successes {
  const lastMs: Partial<Record<Traffic, number>> = {}
  const hasSucceeded = (traffic: Traffic, sinceMs: number) =>
    (lastMs[traffic] ?? Number.NEGATIVE_INFINITY) >= sinceMs

  function isStopped(traffic: Traffic): boolean {
    const { connections, ...ofKind } = breakers.states
    const own = traffic === 'quotes' ? undefined : ofKind[traffic]
    return connections?.state !== 'closed' || (own !== undefined && own.state !== 'closed')
  }

  return {
    note(traffic) {
      lastMs[traffic] = nowMs()
    },
    since: (sinceMs) => kinds.filter((traffic) => hasSucceeded(traffic, sinceMs) && !isStopped(traffic)),
    quotesOutage() {
      const stopped = stoppedPairs(breakers)
      if (stopped.length === 0) return undefined
      // A pair that has failed for days says nothing of an outage of all pairs that began a minute ago.
      const sinceSuccess = stopped.filter(({ failingSinceMs }) => !hasSucceeded('quotes', failingSinceMs))
      if (sinceSuccess.length === 0) return { stopped, sinceMs: earliest(stopped), askedFor: undefined }
      const sinceMs = earliest(sinceSuccess)
      const asked = breakers.pairs.filter(([, one]) => one.askedAtMs >= sinceMs || one.state !== 'closed')
      return { stopped, sinceMs, askedFor: asked.length }
    },
  }
}

/** The pairs whose quotes are refused now. */
export function refusedPairs({ pairs }: Pick<Breakers, 'pairs'>): string[] {
  return pairs.flatMap(([pair, breaker]) => (breaker.admits() ? [] : [pair]))
}

export function stoppedPairs({ pairs }: Pick<Breakers, 'pairs'>): StoppedPair[] {
  return pairs.flatMap(([pair, { state, failingSinceMs, retryAfterMs }]) =>
    state === 'closed' || failingSinceMs === undefined ? [] : [{ pair, failingSinceMs, retryAfterMs }],
  )
}

function earliest(pairs: readonly StoppedPair[]): number {
  return pairs.reduce(
    (least, { failingSinceMs }) => Math.min(least, failingSinceMs),
    Number.POSITIVE_INFINITY,
  )
}
