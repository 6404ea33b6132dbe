import { lookAt } from '../clock.ts'
import type { Breaker, Traffic } from '../upstream/breakers.ts'
import type { Upstream } from '../upstream/upstream.ts'
import { createFailing, type Failing, sentenceOf } from './failing.ts'
import type { History } from './history.ts'
import { failureText, type Subject, type Trouble } from './outages.ts'
import type { OperationsParts } from './parts.ts'
import { troubles } from './trouble-table.ts'

const maxNames = 20
const minutesOfHalfAnHour = 30

interface JudgedUpstream {
  readonly upstream: Upstream
  readonly failingNow: () => Failing[]
}

/** All troubles that the console may report. */
export function troublesOf(parts: OperationsParts): Subject[] {
  return [
    ...new UpstreamTroubles(parts).subjects,
    ...memoryTroubles(parts),
    clockTrouble(parts),
    ...addressTroubles(parts),
    {
      name: 'unknown orders',
      count: () => parts.metrics.quoteCounts().orders['forwarded-unknown'],
      trouble: () => unknownOrders(parts.history),
    },
  ]
}

/** Troubles of upstreams, and what is still served. */
class UpstreamTroubles {
  readonly #parts: OperationsParts
  readonly #watched: readonly JudgedUpstream[]

  constructor(parts: OperationsParts) {
    this.#parts = parts
    this.#watched = Object.values(parts.upstreams)
      .filter((upstream) => upstream !== undefined)
      .map((upstream) => ({ upstream, failingNow: createFailing(upstream, parts) }))
  }

  get subjects(): Subject[] {
    return [
      ...this.#watched.flatMap((one) => this.#ofUpstream(one)),
      ...this.#watched.map(({ upstream }) => this.#ofSlowness(upstream)),
    ]
  }

  /** What has succeeded since the first failure and is not failing. */
  #stillServed(sinceMs: number, quotes = 'quotes'): string[] {
    return this.#watched.flatMap(({ upstream: { name, breakers }, failingNow }) => {
      const succeeded = breakers.servedSince(sinceMs)
      const failing = failingNow().map(({ traffic }) => traffic)
      const works = (traffic: Traffic) =>
        succeeded.includes(traffic) && !failing.includes(traffic)
      if (breakers.states.orders === undefined) return works('rest') ? [name] : []
      const isCached =
        this.#parts.history.hitAfterMs >= sinceMs &&
        this.#parts.cache.mostHit(1, lookAt(this.#parts.clock)).length > 0
      return [
        ...(works('quotes') ? [quotes] : isCached ? ['cached quotes'] : []),
        ...(works('orders') ? ['orders'] : []),
        ...(works('rest') ? ['other swap requests'] : []),
      ]
    })
  }

  /** Kinds that fail equally badly, or for one reason, are one outage. */
  #ofUpstream({ upstream, failingNow }: JudgedUpstream): Subject[] {
    const { name, breakers } = upstream
    const { connections, orders, rest } = breakers.states
    const subjectOf = (isSevere: boolean): Subject => ({
      name: isSevere ? name : `${name}, in part`,
      count: () => {
        const stopped = ['connections', 'orders', 'rest', 'pair'] as const
        return stopped.reduce(
          (sum, one) => sum + this.#parts.outages.refusals(name, one),
          0,
        )
      },
      trouble: () => {
        const all = failingNow()
        // Kinds with one reason are one outage, a little above the bound or below it.
        const reasons = all.flatMap((one) => (one.isSevere ? one.reason : []))
        const failing = all.filter((one) => reasons.includes(one.reason) === isSevere)
        const [only] = failing
        if (only === undefined) return all.length > 0 ? 'covered' : undefined
        const stopped = failing.filter(({ share }) => share === undefined)
        const isStopped = (traffic: Traffic) =>
          stopped.some((one) => one.traffic === traffic)
        const pairs = isStopped('quotes') ? pairsOf(upstream) : undefined
        const trials = [connections, orders, rest].flatMap(
          (breaker) => (breaker && retryInMsOf(breaker)) ?? [],
        )
        const sinces = failing.flatMap(({ sinceMs }) => sinceMs ?? [])
        const sinceMs = sinces.length === 0 ? undefined : Math.min(...sinces)
        const areQuotes = failing.length === 1 && only.traffic === 'quotes'
        return {
          ...sentenceOf(upstream, failing),
          what: stopped.length > 0 ? 'upstream' : areQuotes ? 'no-quotes' : 'failing',
          isSevere,
          upstream: name,
          failing: failing.map(({ traffic }) => traffic),
          sinceMs,
          lastFailure: only.reason,
          retryInMs: leastOf([...trials, pairs?.retryInMs]),
          stillServed: this.#stillServed(sinceMs ?? performance.now()),
          ...(areQuotes ? pairs : {}),
          gist: failing.map(({ traffic, reason }) => `${traffic} ${reason}`).join(),
          logged: failing.flatMap(({ logged }) => logged ?? []),
        }
      },
    })
    if (orders === undefined) return [subjectOf(true), subjectOf(false)]
    return [subjectOf(true), subjectOf(false), this.#ofPairs(upstream)]
  }

  /** If all quotes fail, the upstream's sentence says so. */
  #ofPairs(upstream: Upstream): Subject {
    return {
      name: `${upstream.name} quotes`,
      count: () => this.#parts.outages.refusals(upstream.name, 'pair'),
      trouble: () => {
        const { name, breakers } = upstream
        const outage = breakers.quotesOutage()
        if (outage === undefined) return undefined
        if (outage.triedPairs !== undefined) return 'covered'
        const { sinceMs } = outage
        const lastFailure = lastFailureOf(upstream, 'quotes')
        const pairs = pairsOf(upstream)
        return {
          ...pairs,
          what: 'pairs',
          says: troubles.pairs.says(pairs.howMany, lastFailure),
          upstream: name,
          sinceMs,
          lastFailure,
          stillServed: this.#stillServed(sinceMs, 'quotes of other pairs'),
          gist: String(pairs.howMany),
        }
      },
    }
  }

  #ofSlowness({ name }: Upstream): Subject {
    const { config, history } = this.#parts
    return {
      name: `${name} slowness`,
      trouble() {
        const found = slowness(history.p95s[name], config.upstream.totalTimeoutMs / 2)
        return (
          found && {
            what: 'slow',
            says: troubles.slow.says(found),
            upstream: name,
            ...found,
          }
        )
      },
    }
  }
}

/** Troubles of what keeps quotes and keys beyond this process. */
function memoryTroubles(parts: OperationsParts): Subject[] {
  const { metrics } = parts
  return [
    {
      name: 'shared store',
      count: () => metrics.quoteCounts().ordersWithoutStore,
      trouble() {
        const outage = parts.sharedStore?.outage
        const ofJournal = parts.journals.stream?.trouble.reason
        const { when, says } = troubles.store
        if (!when(outage === undefined, ofJournal === undefined)) return undefined
        return {
          what: 'store',
          says: says(outage?.reason, ofJournal),
          sinceMs: outage?.sinceMs,
          lastFailure: outage?.reason ?? ofJournal,
        }
      },
    },
    {
      name: 'STATE_DIRECTORY',
      trouble() {
        const why = parts.journals.disk?.trouble.reason
        if (why === undefined) return undefined
        return { what: 'disk', says: troubles.disk.says(why), lastFailure: why }
      },
    },
  ]
}

function clockTrouble({ clockDifference }: OperationsParts): Subject {
  return {
    name: "provider's clock",
    trouble() {
      const { saysNoTime, leastMs } = clockDifference
      if (saysNoTime) return { what: 'clock', says: troubles['clock-unknown'].says() }
      const { when, says } = troubles.clock
      if (!when(leastMs)) return undefined
      return { what: 'clock', says: says(leastMs), offsetMs: Math.round(leastMs) }
    },
  }
}

/** Troubles in finding the user behind a request. */
function addressTroubles({ addressNotes, config, metrics }: OperationsParts): Subject[] {
  const {
    'untrusted-header': untrusted,
    'other-header': others,
    'no-header': silent,
  } = addressNotes.peers
  return [
    {
      name: 'TRUST_PROXY',
      count: () => metrics.requestCounts().untrustedHeaders,
      trouble() {
        const peers = named(untrusted)
        const says = troubles['trust-proxy'].says(untrusted.size)
        return peers && { what: 'trust-proxy', says, ...peers }
      },
    },
    {
      name: 'CLIENT_IP_HEADER',
      count: () => metrics.requestCounts().otherHeaders,
      trouble() {
        const peers = named(others)
        const sent = addressNotes.otherHeaders.join(', ')
        const { ipHeader } = config.client
        const says = troubles['client-ip-header'].says(others.size, ipHeader, sent)
        return peers && { what: 'client-ip-header', says, ...peers }
      },
    },
    {
      name: "users' addresses",
      count: () => metrics.requestCounts().missingHeaders,
      trouble() {
        const peers = named(silent)
        const { ownHeader } = addressNotes
        const says = troubles['no-client-header'].says(silent.size, ownHeader)
        return peers && { what: 'no-client-header', says, ...peers }
      },
    },
  ]
}

function pairsOf({ breakers }: Upstream) {
  const { stopped = [], triedPairs } = breakers.quotesOutage() ?? {}
  const trials = breakers.pairs.map(([, breaker]) => retryInMsOf(breaker))
  const names = stopped.map(({ pair }) => pair).sort()
  return {
    names: names.slice(0, maxNames),
    howMany: stopped.length,
    askedFor: triedPairs,
    retryInMs: leastOf(trials),
  }
}

function leastOf(times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((time) => time !== undefined)
  return known.length === 0 ? undefined : Math.min(...known)
}

function lastFailureOf({ lastFailures }: Upstream, what: 'quotes'): string | undefined {
  const last = lastFailures[what]
  return last && failureText(last.failure, last.afterMs)
}

/**
 * Undefined: the breaker is closed, or a request tries. If it is half-open without a trial, the last trial's caller
 * left.
 */
function retryInMsOf(breaker: Breaker): number | undefined {
  const isTried = breaker.state === 'half-open' && !breaker.admits()
  return breaker.state === 'closed' || isTried
    ? undefined
    : Math.round(breaker.retryAfterMs)
}

function named(peers: ReadonlyMap<string, string>) {
  return peers.size === 0
    ? undefined
    : { names: [...peers.keys()].slice(0, maxNames), howMany: peers.size }
}

function unknownOrders(history: History): Trouble | undefined {
  const { when, says } = troubles['unknown-orders']
  const recent = history.ordersOf(minutesOfHalfAnHour)
  const ofDay = history.ordersOf()
  const share = recent.unknown / recent.orders
  const usualShare = ofDay.unknown / ofDay.orders
  if (!when(recent.unknown, share, usualShare)) return undefined
  return {
    what: 'unknown-orders',
    // Over the same orders, both shares would be equal.
    says: says(share, ofDay.orders === recent.orders ? undefined : usualShare),
    share,
    usualShare,
  }
}

/**
 * Compares the p95 of ten minutes with the median of such p95s over a day. A p95 of the whole day would contain the
 * slow calls, and hide them once they are a twentieth. In the first hour, `maxMs` is too long.
 */
export function slowness(p95s: readonly (number | null)[], maxMs: number) {
  const { when, limits } = troubles.slow
  const p95Ms = p95s.at(-1) ?? 0
  const past = p95s.slice(0, -60 * limits.historyHours)
  const isOldEnough = past.some((p95) => p95 !== null)
  if (!isOldEnough)
    return p95Ms >= maxMs
      ? { p95Ms: Math.round(p95Ms), usualP95Ms: undefined }
      : undefined
  const known = p95s.filter((p95) => p95 !== null).sort((left, right) => left - right)
  const usualP95Ms = known[Math.floor(known.length / 2)] ?? 0
  return when(p95Ms, usualP95Ms)
    ? { p95Ms: Math.round(p95Ms), usualP95Ms: Math.round(usualP95Ms) }
    : undefined
}
