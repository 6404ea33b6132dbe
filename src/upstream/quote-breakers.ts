import { createHash } from 'node:crypto'
import { flatText } from '../process/flat-text.ts'
import { type Breaker, type BreakerOptions, createBreaker, type Permit } from './breaker.ts'

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
  /** Quotes of all pairs. It counts failing pairs, not failing quotes, so that one bad pair never opens it. */
  readonly whole: Breaker
  /** The breaker of one pair. */
  of(pair: string): Breaker
  /** The pairs whose quotes are refused now. */
  refusedPairs(): string[]
  /** The pairs whose breakers have opened, and that had no quote since. */
  stoppedPairs(): StoppedPair[]
  /** A permit of both, for one quote. Only if both of them admit it. */
  admit(pair: string): Permit | undefined
}

type Limits = Omit<BreakerOptions, 'onChange'>

/**
 * One failing pair stops alone; when several fail and none succeeds, quotes stop as a whole. A failing pair
 * that tries then keeps no others from trying: the provider may be well for them.
 */
export function createQuoteBreakers(whole: Breaker, limits: Limits): QuoteBreakers {
  /** In the order in which they were last asked for. */
  const pairs = new Map<string, Breaker>()

  function of(pair: string): Breaker {
    const name = pair.length > maxNameLength ? createHash('sha256').update(pair).digest('hex') : pair
    const known = pairs.get(name)
    const breaker = known ?? createBreaker(limits)
    pairs.delete(name)
    pairs.set(known === undefined ? flatText(name) : name, breaker)
    if (pairs.size > maxPairs) pairs.delete(pairs.keys().next().value as string)
    return breaker
  }

  return {
    whole,
    of,
    refusedPairs() {
      const refused: string[] = []
      for (const [name, breaker] of pairs) if (!breaker.admits()) refused.push(name)
      return refused
    },
    stoppedPairs() {
      const stopped: StoppedPair[] = []
      for (const [pair, { state, failingSinceMs, retryAfterMs }] of pairs) {
        if (state !== 'closed' && failingSinceMs !== undefined)
          stopped.push({ pair, failingSinceMs, retryAfterMs })
      }
      return stopped
    },
    admit(pair) {
      const own = of(pair)
      const asked = { isDoubtful: own.isFailing }
      if (!own.admits() || !whole.admits(asked)) return undefined
      return permitOfBoth(own, own.admit() as Permit, whole.admit(asked) as Permit)
    },
  }
}

function permitOfBoth(ownBreaker: Breaker, own: Permit, whole: Permit): Permit {
  return {
    isTrial: own.isTrial || whole.isTrial,
    answerBegan() {
      own.answerBegan()
      whole.answerBegan()
    },
    succeeded() {
      own.succeeded()
      whole.succeeded()
    },
    failed() {
      own.failed()
      // That a pair which is stopped already still fails is nothing new, unless it tries for all.
      if (own.isTrial && !whole.isTrial) whole.abandoned()
      else whole.failed(ownBreaker)
    },
    abandoned() {
      own.abandoned()
      whole.abandoned()
    },
  }
}
