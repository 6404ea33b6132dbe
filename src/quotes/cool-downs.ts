import { LRUCache } from 'lru-cache'
import { type Clock, steadyMsOf } from '../clock.ts'

/** As whom a quote call is made, as the provider sees it. */
export interface AskedAs {
  application: string
  /** A digest of the application and its Authorization. */
  credentials: string
  /** `unknown` for a client without an address. */
  address: string
}

/** The provider's 429 to a quote. */
export interface Refused {
  /** From its Retry-After; undefined if it has none that can be read. */
  retryAfterMs: number | undefined
}

/** What the provider's answer to a quote call said of its limits. */
export type Answered = Refused | 'succeeded' | 'other'

/** Given to each call that is made. The caller must call exactly one of the two, once, when the call has ended. */
export interface Pass {
  answered(how: Answered): void
  /** No answer came, so the call says nothing of the provider's limits. */
  unanswered(): void
}

/** `address`: of one client address. `application`: of all addresses of an application's credentials. */
export type CoolDownScope = 'address' | 'application'

export interface CoolDown {
  scope: CoolDownScope
  application: string
  /** Undefined: of all addresses. */
  address: string | undefined
  leftMs: number
}

export interface CoolDownObserver {
  /** Not for one that is prolonged because the provider refused its trial as well. */
  began(coolDown: CoolDown): void
  /** A trial was answered, and not with 429. */
  ended(coolDown: Pick<CoolDown, 'scope' | 'application' | 'address'> & { lastedMs: number }): void
}

/** After the provider's 429, quotes that it would refuse as well are not asked for until its Retry-After is over. */
export interface CoolDowns {
  /** What keeps a quote from being asked for; of several cool-downs, the longest. */
  refusal(client: AskedAs): CoolDown | undefined
  /** A pass for a call that nothing refuses. It may be the trial that finds out if a cool-down is over. */
  admit(client: AskedAs): Pass
  /** Whether some cool-down of this client has not ended yet, though a trial may be due. */
  concerns(client: AskedAs): boolean
  /** Those in which the provider is not asked: first those of all addresses. */
  list(): CoolDown[]
}

const maxEntries = 1_000
const leastMs = 1_000
const mostMs = 30_000
/** Two addresses refused within this time are refused for what they have in common: the application's credentials. */
const widensWithinMs = 10_000
/** Others wait no longer for a trial whose answer is late. */
const longestTrialMs = 1_000
/** A cool-down that is over and that no request came to try is not a reason to hold back a crowd any more. */
const forgottenAfterMs = 30_000

interface State {
  sinceMs: number
  untilMs: number
  /** The one call that finds out if the cool-down is over. */
  trial: Pass | undefined
  /** When that call, or the last one before it, has taken its time, answered or not. */
  trialUntilMs: number
  shown: Pick<CoolDown, 'scope' | 'application' | 'address'>
}

/** The last 429 to an application's credentials, unless a quote call with them succeeded since. */
interface LastRefused {
  address: string
  atMs: number
}

export function createCoolDowns({
  clock,
  observer,
}: {
  clock: Clock
  observer: CoolDownObserver
}): CoolDowns {
  /** By credentials and address, and by credentials alone. */
  const states = new LRUCache<string, State>({ max: maxEntries })
  const lastRefused = new LRUCache<string, LastRefused>({ max: maxEntries })
  const nowMs = () => steadyMsOf(clock)

  const keysOf = ({ credentials, address }: AskedAs) =>
    ({ application: credentials, address: `${credentials} ${address}` }) as const

  function find(key: string): State | undefined {
    const state = states.get(key)
    if (state === undefined || state.trial !== undefined || nowMs() < state.untilMs + forgottenAfterMs)
      return state
    states.delete(key)
    return undefined
  }

  const hasItsOwn = (client: AskedAs) => find(keysOf(client).address) !== undefined

  function concerning(client: AskedAs): [key: string, state: State][] {
    if (states.size === 0) return []
    return Object.values(keysOf(client)).flatMap((key) => {
      const state = find(key)
      return state === undefined ? [] : [[key, state] as [string, State]]
    })
  }

  function cool(client: AskedAs, scope: CoolDownScope, forMs: number): void {
    const key = keysOf(client)[scope]
    const untilMs = nowMs() + forMs
    const known = find(key)
    if (known !== undefined) {
      known.untilMs = Math.max(known.untilMs, untilMs)
      return
    }
    const address = scope === 'address' ? client.address : undefined
    const state = {
      sinceMs: nowMs(),
      untilMs,
      trial: undefined,
      trialUntilMs: 0,
      shown: { scope, application: client.application, address },
    }
    states.set(key, state)
    observer.began({ ...state.shown, leftMs: forMs })
  }

  function onRefused(client: AskedAs, retryAfterMs = 0, wasTrialOfAll: boolean): void {
    const forMs = Math.min(Math.max(retryAfterMs, leastMs), mostMs)
    const last = lastRefused.get(client.credentials)
    const isAnotherAddress =
      last !== undefined && last.address !== client.address && nowMs() - last.atMs <= widensWithinMs
    lastRefused.set(client.credentials, { address: client.address, atMs: nowMs() })
    // An address that is refused again may be limited by itself, which says nothing of the others.
    const wasRefusedBefore = hasItsOwn(client)
    cool(client, 'address', forMs)
    if (!wasRefusedBefore && (isAnotherAddress || wasTrialOfAll)) cool(client, 'application', forMs)
  }

  function passFor(client: AskedAs, tried: [key: string, state: State][]): Pass {
    function endTrial(): [key: string, state: State][] {
      const ended = tried.filter(([, state]) => state.trial === pass)
      for (const [, state] of ended) state.trial = undefined
      return ended
    }
    const pass: Pass = {
      answered(how) {
        const ended = endTrial()
        if (typeof how === 'object') {
          const wasTrialOfAll = ended.some(([, { shown }]) => shown.scope === 'application')
          onRefused(client, how.retryAfterMs, wasTrialOfAll)
          return
        }
        if (how === 'succeeded') lastRefused.delete(client.credentials)
        for (const [key, state] of ended) {
          // Another call, from before the cool-down, may have been refused meanwhile, and prolonged it.
          if (state.untilMs > nowMs()) continue
          if (states.peek(key) === state) states.delete(key)
          observer.ended({ ...state.shown, lastedMs: nowMs() - state.sinceMs })
        }
      },
      unanswered: endTrial,
    }
    for (const [, state] of tried) {
      state.trial = pass
      state.trialUntilMs = nowMs() + longestTrialMs
    }
    return pass
  }

  const coolDownOf = ({ shown, untilMs }: State): CoolDown => ({
    ...shown,
    leftMs: Math.max(0, untilMs - nowMs()),
  })
  const isOn = ({ trial, trialUntilMs, untilMs }: State) =>
    nowMs() < untilMs || (trial !== undefined && nowMs() < trialUntilMs)
  /**
   * Of the addresses that were refused themselves one a second tries for all, so that they can neither keep the trial
   * from the others nor send a call each.
   */
  const isOthersTurn = (client: AskedAs, { shown, trialUntilMs }: State) =>
    shown.scope === 'application' && nowMs() < trialUntilMs && hasItsOwn(client)

  return {
    refusal(client) {
      return concerning(client)
        .filter(([, state]) => isOn(state) || isOthersTurn(client, state))
        .map(([, state]) => coolDownOf(state))
        .sort((one, other) => other.leftMs - one.leftMs)[0]
    },
    admit: (client) => passFor(client, concerning(client)),
    concerns: (client) => concerning(client).length > 0,
    list: () =>
      [...states.values()]
        .filter(isOn)
        .map(coolDownOf)
        .sort((one, other) => Number(one.scope === 'address') - Number(other.scope === 'address')),
  }
}
