import { createHash } from 'node:crypto'
import { flatText } from '../process/flat-text.ts'
import { type Breaker, type BreakerOptions, createBreaker } from './breaker.ts'

/** Pairs with a breaker of their own; the one asked for longest ago is forgotten first. */
const maxPairs = 1_000
/** A longer name is kept as its SHA-256, because clients make up names. */
const maxNameLength = 256

export interface StoppedPair {
  readonly pair: string
  /** When the first of its failures in a row ended. Monotonic. */
  readonly failingSinceMs: number
  readonly retryAfterMs: number
}

export interface QuoteBreakers {
  /** The breaker of one pair. */
  of(pair: string): Breaker
  /** The pairs whose quotes are refused now. */
  refusedPairs(): string[]
  /** The pairs whose breakers have opened, and that had no quote since. */
  stoppedPairs(): StoppedPair[]
  /** How many pairs were asked for since then, or have stopped before. Monotonic. */
  askedFor(sinceMs: number): number
}

/** One breaker for the quotes of each pair, so that a failing pair stops alone. */
export function createQuoteBreakers(limits: Omit<BreakerOptions, 'onChange'>): QuoteBreakers {
  /** In the order in which they were last asked for. */
  const pairs = new Map<string, { breaker: Breaker; askedAtMs: number }>()

  return {
    of(pair) {
      const name = pair.length > maxNameLength ? createHash('sha256').update(pair).digest('hex') : pair
      const known = pairs.get(name)
      const breaker = known?.breaker ?? createBreaker(limits)
      pairs.delete(name)
      pairs.set(known === undefined ? flatText(name) : name, { breaker, askedAtMs: limits.nowMs() })
      if (pairs.size > maxPairs) pairs.delete(pairs.keys().next().value as string)
      return breaker
    },
    refusedPairs() {
      const refused: string[] = []
      for (const [name, { breaker }] of pairs) if (!breaker.admits()) refused.push(name)
      return refused
    },
    stoppedPairs() {
      const stopped: StoppedPair[] = []
      for (const [pair, { breaker }] of pairs) {
        const { state, failingSinceMs, retryAfterMs } = breaker
        if (state !== 'closed' && failingSinceMs !== undefined)
          stopped.push({ pair, failingSinceMs, retryAfterMs })
      }
      return stopped
    },
    askedFor(sinceMs) {
      let count = 0
      for (const { breaker, askedAtMs } of pairs.values())
        if (askedAtMs >= sinceMs || breaker.state !== 'closed') count += 1
      return count
    },
  }
}
