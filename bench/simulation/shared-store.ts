import type { QuoteAnswer } from '../../src/quotes/quote-answer.ts'
import type { VirtualTime } from './virtual-time.ts'

export interface SharedStore {
  /** Look-ups that found a quote, or waited for the call of another replica. */
  readonly found: number
  /** Puts the store in front of a replica's upstream call. */
  before(key: string, call: () => Promise<QuoteAnswer>): Promise<QuoteAnswer>
}

/**
 * The shared store as it should behave: a replica without the quote in memory looks here first, and for each key only
 * one replica calls the upstream. A look-up that finds nothing also takes the lock.
 */
export function createSharedStore({
  time,
  latencyMs,
  refreshAheadMs,
}: {
  time: VirtualTime
  latencyMs: number
  refreshAheadMs: number
}): SharedStore {
  const kept = new Map<string, QuoteAnswer>()
  const flights = new Map<string, Promise<QuoteAnswer>>()
  let found = 0

  const roundTrip = () => new Promise<void>((resolve) => time.at(time.nowMs() + latencyMs, () => resolve()))

  /** A refresh must not be answered with the quote that it replaces. */
  function liveAnswer(key: string): QuoteAnswer | undefined {
    const answer = kept.get(key)
    const expiresAtMs = answer?.stored?.expiresAtMs ?? 0
    return expiresAtMs - time.nowMs() > refreshAheadMs ? answer : undefined
  }

  async function answerFor(key: string, call: () => Promise<QuoteAnswer>): Promise<QuoteAnswer> {
    await roundTrip()
    // No await from here to the lock, because SET NX is one step.
    const live = liveAnswer(key)
    const underWay = flights.get(key)
    if (live !== undefined || underWay !== undefined) found += 1
    if (live !== undefined) return live
    if (underWay !== undefined) {
      const answer = await underWay
      await roundTrip()
      return answer
    }
    const flight = call()
    flights.set(key, flight)
    const answer = await flight
    kept.set(key, answer)
    flights.delete(key)
    return answer
  }

  return {
    get found() {
      return found
    },
    before: answerFor,
  }
}
