import { type OpenBreaker, UpstreamFailure } from '../http/failure.ts'
import type { Problem } from '../http/problem.ts'

/** Requests that were answered with an error because a breaker was open. */
export interface RefusalCounts {
  note(problem: Problem): void
  count(upstream: string, breaker: OpenBreaker): number
}

export function createRefusalCounts(): RefusalCounts {
  const counts = new Map<string, number>()
  return {
    note({ cause }) {
      if (!(cause instanceof UpstreamFailure) || cause.breaker === undefined) return
      const key = `${cause.upstream} ${cause.breaker}`
      counts.set(key, (counts.get(key) ?? 0) + 1)
    },
    count: (upstream, breaker) => counts.get(`${upstream} ${breaker}`) ?? 0,
  }
}
