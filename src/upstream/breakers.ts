import type { OpenBreaker } from '../http/upstream-failure.ts'
import {
  type Breaker,
  type BreakerOptions,
  type BreakerState,
  createBreaker,
  type Permit,
} from './breaker.ts'
import { createQuoteBreakers, type StoppedPair } from './quote-breakers.ts'
import type { RequestKind, Traffic } from './types.ts'

/** `orders`: those that create an order. `rest`: everything that is neither such an order nor a quote. */
export type BreakerName = Exclude<OpenBreaker, 'pair'>

export interface BreakersOptions extends Omit<BreakerOptions, 'onChange'> {
  /** False: only failures to connect count. */
  byKind: boolean
  onChange(name: BreakerName, state: BreakerState): void
}

/** A breaker that does not let a request through. */
export interface Refusal {
  breaker: OpenBreaker
  retryAfterMs: number
  /** When the first of the failures in a row ended. Monotonic. */
  failingSinceMs: number
}

/**
 * The breakers of one upstream, in three layers, so that what fails stops alone: connections (nothing can be sent),
 * kinds of requests (what fails once there is a connection), and, of quotes, each pair.
 */
export interface Breakers {
  readonly connections: Breaker
  readonly states: Readonly<Partial<Record<BreakerName, Breaker>>>
  /** The pairs whose quotes are refused now; named as in `quoteOf`. */
  refusedPairs(): readonly string[]
  /** The pairs whose breakers have opened, and that had no quote since; named as in `quoteOf`. */
  stoppedPairs(): readonly StoppedPair[]
  /** How many pairs were asked for since then, or have stopped before. Monotonic. */
  pairsAskedFor(sinceMs: number): number
  /** What keeps a request of this kind from being sent, if anything does. */
  refusal(kind: RequestKind): Refusal | undefined
  /** The permit of the request's kind, once nothing refuses it. Connections are asked when a request gets one. */
  admit(kind: RequestKind): Permit
}

const uncounted: Permit = {
  isTrial: false,
  answerBegan() {},
  succeeded() {},
  failed() {},
  abandoned() {},
}

export function createBreakers(options: BreakersOptions): Breakers {
  const { byKind, onChange, ...limits } = options
  const create = (name: BreakerName) =>
    createBreaker({ ...limits, onChange: (state) => onChange(name, state) })

  const connections = create('connections')
  if (!byKind) {
    return {
      connections,
      states: { connections },
      refusedPairs: () => [],
      stoppedPairs: () => [],
      pairsAskedFor: () => 0,
      refusal: () => refusalOf(connections, 'connections'),
      admit: () => uncounted,
    }
  }
  const ofKind = { orders: create('orders'), rest: create('rest') }
  const quotes = createQuoteBreakers(limits)
  function ownOf(kind: RequestKind): { name: OpenBreaker; breaker: Breaker } {
    if (typeof kind === 'object') return { name: 'pair', breaker: quotes.of(kind.quoteOf) }
    const name = trafficOf(kind)
    return { name, breaker: ofKind[name] }
  }

  return {
    connections,
    states: { connections, ...ofKind },
    refusedPairs: quotes.refusedPairs,
    stoppedPairs: quotes.stoppedPairs,
    pairsAskedFor: quotes.askedFor,
    refusal(kind) {
      const unconnected = refusalOf(connections, 'connections')
      if (unconnected !== undefined) return unconnected
      const { name, breaker } = ownOf(kind)
      return refusalOf(breaker, name)
    },
    admit(kind) {
      const permit = ownOf(kind).breaker.admit()
      if (permit === undefined) throw new TypeError('a refused request has no permit')
      return permit
    },
  }
}

/** What a request counts as. */
export function trafficOf(kind: Exclude<RequestKind, object>): Exclude<Traffic, 'quotes'>
export function trafficOf(kind: RequestKind): Traffic
export function trafficOf(kind: RequestKind): Traffic {
  if (typeof kind === 'object') return 'quotes'
  return kind === 'other' ? 'rest' : 'orders'
}

function refusalOf(breaker: Breaker, name: OpenBreaker): Refusal | undefined {
  return breaker.admits() ? undefined : refusalBy(breaker, name)
}

export function refusalBy({ retryAfterMs, failingSinceMs }: Breaker, name: OpenBreaker): Refusal {
  return { breaker: name, retryAfterMs, failingSinceMs: failingSinceMs ?? Number.POSITIVE_INFINITY }
}
