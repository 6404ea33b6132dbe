import { lookAt } from '../clock.ts'
import type { Breaker, Traffic } from '../upstream/breakers.ts'
import type { Upstream } from '../upstream/upstream.ts'
import { createFailing, type Failing, sentenceOf } from './failing.ts'
import type { History } from './history.ts'
import { durationText, failureText, type Subject, type Trouble } from './outages.ts'
import type { OperationsParts } from './parts.ts'

const maxNames = 20
/** As in the alert QuotegateOrdersUnknown. */
const unknownShare = { notable: 0.1, timesUsual: 2, always: 0.5, minOrders: 5 }
const slicesOfHalfAnHour = 180
/** As in the alert QuotegateProviderSlow. With a shorter past, what is slow now would soon be what is usual. */
const slow = { timesUsual: 2, moreMs: 500, minHistoryMinutes: 60 }
const maxClockOffsetMs = 2_000

interface JudgedUpstream {
  readonly upstream: Upstream
  readonly failingNow: () => Failing[]
}

/** All that the console may have to say is wrong. */
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

/** What may be wrong with the upstreams: with each, or with one as long as others still serve. */
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

  /** Only what has succeeded since the first failure, and is not failing. */
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

  /** All kinds of requests to one upstream that fail equally badly, or for one reason, are one outage. */
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
        // What fails for the same reason is the same outage, a little above the bound or below it.
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

  /** Single pairs: that all quotes fail is said of the upstream. */
  #ofPairs(upstream: Upstream): Subject {
    return {
      name: `${upstream.name} quotes`,
      count: () => this.#parts.outages.refusals(upstream.name, 'pair'),
      trouble: () => {
        const { name, breakers } = upstream
        const outage = breakers.quotesOutage()
        if (outage === undefined) return undefined
        if (outage.askedFor !== undefined) return 'covered'
        const { sinceMs } = outage
        const lastFailure = lastFailureOf(upstream, 'quotes')
        const pairs = pairsOf(upstream)
        return {
          ...pairs,
          what: 'pairs',
          says: `${many(pairs.howMany, 'pair')} stopped (${lastFailure})`,
          isSevere: false,
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
        if (found === undefined) return undefined
        const { p95Ms, usualP95Ms } = found
        const usual =
          usualP95Ms === undefined
            ? 'at least half of UPSTREAM_TOTAL_TIMEOUT_MS; what is usual is known after an hour'
            : `usually ${usualP95Ms} ms`
        const says = `p95 of 10 min is ${p95Ms} ms, ${usual}`
        return { what: 'slow', says, isSevere: false, upstream: name, ...found }
      },
    }
  }
}

/** What may be wrong with what keeps quotes and keys beyond this process. */
function memoryTroubles(parts: OperationsParts): Subject[] {
  const { metrics } = parts
  return [
    {
      name: 'shared store',
      count: () => metrics.quoteCounts().ordersWithoutStore,
      trouble() {
        const outage = parts.sharedStore?.outage
        const ofJournal = parts.journals.stream?.trouble.reason
        if (outage === undefined && ofJournal === undefined) return undefined
        const { sinceMs, reason: lastFailure = ofJournal } = outage ?? {}
        const how = outage
          ? `down (${lastFailure}) and tried again every second`
          : `up, but its journal is not used (${lastFailure})`
        const says =
          `${how}, so everything is served out of the memory of this replica alone, and orders that the store may ` +
          'know as expired are forwarded'
        return { what: 'store', says, isSevere: true, sinceMs, lastFailure }
      },
    },
    {
      name: 'STATE_DIRECTORY',
      trouble() {
        const why = parts.journals.disk?.trouble.reason
        if (why === undefined) return undefined
        const says =
          `cannot be written to (${why}), so a restart now forgets the newest quotes, and the newest keys of orders ` +
          'of this replica'
        return { what: 'disk', says, isSevere: true, lastFailure: why }
      },
    },
  ]
}

function clockTrouble({ clockDifference }: OperationsParts): Subject {
  return {
    name: "provider's clock",
    trouble() {
      const { saysNoTime, leastMs } = clockDifference
      const unknown =
        'unknown without a Date that can be read, so quotes expire by our own clock'
      if (saysNoTime) return { what: 'clock', says: unknown, isSevere: false }
      const offMs = Math.abs(leastMs)
      if (offMs <= maxClockOffsetMs) return undefined
      const off = `${durationText(offMs)} ${leastMs > 0 ? 'ahead of' : 'behind'} ours`
      const says = `${off}, and quotes expire by it, so check which of the two is wrong`
      return { what: 'clock', says, isSevere: true, offsetMs: Math.round(leastMs) }
    },
  }
}

/** What may be wrong with how the client of a request is found. */
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
        const sent = `${many(untrusted.size, 'peer')} outside it sent a client-address header`
        const says = `${sent}: the provider sees all users behind each as one`
        return peers && { what: 'trust-proxy', says, isSevere: false, ...peers }
      },
    },
    {
      name: 'CLIENT_IP_HEADER',
      count: () => metrics.requestCounts().otherHeaders,
      trouble() {
        const peers = named(others)
        const sent = `${many(others.size, 'trusted peer')} sent ${addressNotes.otherHeaders.join(', ')}`
        const says = `it is ${config.client.ipHeader}, but ${sent}: the provider sees these users as one`
        return peers && { what: 'client-ip-header', says, isSevere: false, ...peers }
      },
    },
    {
      name: 'client addresses',
      count: () => metrics.requestCounts().missingHeaders,
      trouble() {
        const peers = named(silent)
        const who =
          silent.size === 1
            ? '1 trusted proxy sends'
            : `${silent.size} trusted proxies send`
        const says = `${who} no ${addressNotes.ownHeader}: the provider sees these users as one`
        return peers && { what: 'no-client-header', says, isSevere: false, ...peers }
      },
    },
  ]
}

/** The pairs that have stopped. */
function pairsOf({ breakers }: Upstream) {
  const { stopped = [], askedFor } = breakers.quotesOutage() ?? {}
  const trials = breakers.pairs.map(([, breaker]) => retryInMsOf(breaker))
  const names = stopped.map(({ pair }) => pair).sort()
  return {
    names: names.slice(0, maxNames),
    howMany: stopped.length,
    askedFor,
    retryInMs: leastOf(trials),
  }
}

/** Undefined: there is none. */
function leastOf(times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((time) => time !== undefined)
  return known.length === 0 ? undefined : Math.min(...known)
}

function lastFailureOf({ lastFailures }: Upstream, what: 'quotes'): string | undefined {
  const last = lastFailures[what]
  return last && failureText(last.failure, last.afterMs)
}

/** Undefined: it is closed, or a request tries. Half-open without one: the client of the last one left. */
function retryInMsOf(breaker: Breaker): number | undefined {
  const isTried = breaker.state === 'half-open' && !breaker.admits()
  return breaker.state === 'closed' || isTried
    ? undefined
    : Math.round(breaker.retryAfterMs)
}

const many = (number: number, what: string) =>
  `${number} ${what}${number === 1 ? '' : 's'}`

/** Undefined: there are none. */
function named(peers: ReadonlyMap<string, string>) {
  return peers.size === 0
    ? undefined
    : { names: [...peers.keys()].slice(0, maxNames), howMany: peers.size }
}

/** More than a tenth and twice the usual share, or more than half. */
function unknownOrders(history: History): Trouble | undefined {
  const recent = history.total('unknown', slicesOfHalfAnHour)
  if (recent <= unknownShare.minOrders) return undefined
  const recentOrders = history.total('orders', slicesOfHalfAnHour)
  const orders = history.total('orders')
  const share = recent / recentOrders
  const usualShare = history.total('unknown') / orders
  const isUnusual =
    share > unknownShare.notable && share > unknownShare.timesUsual * usualShare
  if (!isUnusual && share <= unknownShare.always) return undefined
  const [now, usual] = [share, usualShare].map((one) => `${Math.round(one * 100)} %`)
  // Of the same orders it would be the same number.
  const usually = orders === recentOrders ? '' : `, usually ${usual}`
  const says = `${now} of the float orders of the last 30 min were forwarded as unknown${usually}`
  return { what: 'unknown-orders', says, isSevere: false, share, usualShare }
}

/**
 * Whether an upstream takes much longer than it usually does, by its p95 of ten minutes for each minute of the last day.
 * What is usual is the median of these: a p95 of the day itself would contain the slow calls, and hide them once they are
 * a twentieth of the day's. Until there is an hour of them, `maxMs` is too long.
 */
export function slowness(p95s: readonly (number | null)[], maxMs: number) {
  const p95Ms = p95s.at(-1) ?? 0
  const isOldEnough = p95s.slice(0, -slow.minHistoryMinutes).some((p95) => p95 !== null)
  if (!isOldEnough)
    return p95Ms >= maxMs
      ? { p95Ms: Math.round(p95Ms), usualP95Ms: undefined }
      : undefined
  const known = p95s.filter((p95) => p95 !== null).sort((left, right) => left - right)
  const usualP95Ms = known[Math.floor(known.length / 2)] ?? 0
  const isSlow =
    p95Ms >= slow.timesUsual * usualP95Ms && p95Ms >= usualP95Ms + slow.moreMs
  return isSlow
    ? { p95Ms: Math.round(p95Ms), usualP95Ms: Math.round(usualP95Ms) }
    : undefined
}
