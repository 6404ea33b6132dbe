import type { Clock } from '../clock.ts'
import type { Metrics } from '../metrics/metrics.ts'
import type { ConsoleListener } from '../operations/console-listener.ts'
import type { History } from '../operations/history.ts'
import { failureText, type Subject, type Trouble } from '../operations/outages.ts'
import type { OtherHeaderPeers } from '../operations/view.ts'
import type { ClockDifference } from '../quotes/clock-difference.ts'
import type { SharedStore } from '../replicas/store.ts'
import type { Breaker, BreakerName } from '../upstream/breakers.ts'
import type { Upstream } from '../upstream/upstream.ts'

interface SubjectParts {
  clock: Clock
  upstreams: readonly Upstream[]
  consoleListener: Pick<ConsoleListener, 'refusals'>
  clockDifference: ClockDifference
  sharedStore: SharedStore | undefined
  metrics: Pick<Metrics, 'requestCounts' | 'quoteCounts'>
  untrustedPeers: ReadonlySet<string>
  otherHeaderPeers(): OtherHeaderPeers
  /** CLIENT_IP_HEADER. */
  clientIpHeader: string
  history: Pick<History, 'total' | 'p95sOf'>
}

const maxNames = 20
/** As in the alert QuotegateOrdersUnknown. */
const unknownShare = { notable: 0.1, timesUsual: 2, always: 0.5, minOrders: 5 }
const slicesOfHalfAnHour = 180
/** As in the alert QuotegateProviderSlow. With a shorter past, what is slow now would soon be what is usual. */
const slow = { timesUsual: 2, moreMs: 500, minHistoryMinutes: 60 }
const maxClockOffsetMs = 2_000

/** All that the console may have to say is wrong. */
export function createSubjects(parts: SubjectParts): Subject[] {
  const { clock, upstreams, consoleListener, clockDifference, sharedStore, metrics, untrustedPeers } = parts
  const wasServedFromCache = createHitWatch(metrics)
  const wallOf = (monotonicMs: number) => Math.round(clock.nowMs() - (performance.now() - monotonicMs))

  function lastFailureOf({ lastFailures }: Upstream, what: BreakerName | 'quotes'): string | undefined {
    const last = lastFailures[what]
    return last && failureText(last.failure, last.afterMs)
  }

  /** Only what has succeeded since the first failure, and is not stopped. */
  function stillServed(sinceMs: number, quotes = 'quotes'): string[] {
    const fromCache = wasServedFromCache(sinceMs)
    return upstreams.flatMap(({ name, breakers }) => {
      const succeeded = breakers.servedSince(sinceMs)
      if (breakers.states.orders === undefined) return succeeded.length > 0 ? [name] : []
      const cached = fromCache ? ['cached quotes until they expire'] : []
      return [
        ...(succeeded.includes('quotes') ? [quotes] : cached),
        ...(succeeded.includes('orders') ? ['orders'] : []),
        ...(succeeded.includes('rest') ? ['the rest of the swap API'] : []),
      ]
    })
  }

  function ofBreaker(upstream: Upstream, name: BreakerName, breaker: Breaker): Subject {
    return {
      name: `${upstream.name} ${name}`,
      concerned: 'refused',
      count: () => consoleListener.refusals(upstream.name, name),
      trouble() {
        const { state, failingSinceMs, retryAfterMs } = breaker
        if (state === 'closed') return undefined
        return {
          what: 'upstream',
          isSevere: true,
          since: failingSinceMs === undefined ? undefined : wallOf(failingSinceMs),
          upstream: upstream.name,
          traffic: name,
          lastFailure: lastFailureOf(upstream, name),
          // Half-open without a request that tries: the client of the last one left.
          retryInMs: state === 'half-open' && !breaker.admits() ? undefined : Math.round(retryAfterMs),
          stillServed: stillServed(failingSinceMs ?? performance.now()),
        }
      },
    }
  }

  function ofPairs(upstream: Upstream): Subject {
    return {
      name: `${upstream.name} quotes`,
      concerned: 'refused',
      count: () => consoleListener.refusals(upstream.name, 'pair'),
      trouble() {
        const outage = upstream.breakers.quotesOutage()
        if (outage === undefined) return undefined
        const { stopped, sinceMs, askedFor } = outage
        return {
          what: 'pairs',
          isSevere: askedFor !== undefined,
          since: wallOf(sinceMs),
          upstream: upstream.name,
          traffic: 'quotes',
          lastFailure: lastFailureOf(upstream, 'quotes'),
          retryInMs: Math.round(Math.min(...stopped.map(({ retryAfterMs }) => retryAfterMs))),
          stillServed: stillServed(sinceMs, 'quotes of other pairs'),
          names: stopped
            .map(({ pair }) => pair)
            .sort()
            .slice(0, maxNames),
          howMany: stopped.length,
          askedFor,
        }
      },
    }
  }

  function ofSlowness({ name }: Upstream): Subject {
    return {
      name: `${name} slowness`,
      concerned: 'none',
      count: () => 0,
      trouble() {
        const found = slowness(parts.history.p95sOf(name))
        return found && { what: 'slow', isSevere: false, upstream: name, ...found }
      },
    }
  }

  const ofStore: Subject = {
    name: 'shared store',
    concerned: 'forwarded',
    count: () => metrics.quoteCounts().ordersWithoutStore,
    trouble() {
      const outage = sharedStore?.outage
      return (
        outage && {
          what: 'store',
          isSevere: true,
          since: wallOf(outage.sinceMs),
          lastFailure: outage.reason,
          stillServed: ['everything, out of the memory of this replica alone'],
        }
      )
    },
  }

  const ofClock: Subject = {
    name: "provider's clock",
    concerned: 'none',
    count: () => 0,
    trouble() {
      if (clockDifference.saysNoTime) return { what: 'clock', isSevere: false }
      const { leastMs } = clockDifference
      if (Math.abs(leastMs) <= maxClockOffsetMs) return undefined
      return { what: 'clock', isSevere: true, offsetMs: Math.round(leastMs) }
    },
  }

  const ofProxies: Subject = {
    name: 'TRUST_PROXY',
    concerned: 'misplaced',
    count: () => metrics.requestCounts().untrustedHeaders,
    trouble() {
      if (untrustedPeers.size === 0) return undefined
      const names = [...untrustedPeers].slice(0, maxNames)
      return { what: 'trust-proxy', isSevere: false, names, howMany: untrustedPeers.size }
    },
  }

  const ofIpHeader: Subject = {
    name: 'CLIENT_IP_HEADER',
    concerned: 'misplaced',
    count: () => metrics.requestCounts().otherHeaders,
    trouble() {
      const { peers, headers } = parts.otherHeaderPeers()
      if (peers.length === 0) return undefined
      const { clientIpHeader } = parts
      const names = peers.slice(0, maxNames)
      return {
        what: 'client-ip-header',
        isSevere: false,
        names,
        howMany: peers.length,
        headers,
        clientIpHeader,
      }
    },
  }

  const ofUnknownOrders: Subject = {
    name: 'unknown orders',
    concerned: 'forwarded',
    count: () => metrics.quoteCounts().orders['forwarded-unknown'],
    trouble: () => unknownOrders(parts.history),
  }

  return [
    ...upstreams.flatMap((upstream) => [
      ...Object.entries(upstream.breakers.states).map(([name, breaker]) =>
        ofBreaker(upstream, name as BreakerName, breaker),
      ),
      ofPairs(upstream),
    ]),
    ...upstreams.map(ofSlowness),
    ofStore,
    ofClock,
    ofProxies,
    ofIpHeader,
    ofUnknownOrders,
  ]
}

/** More than a tenth and twice the usual share, or more than half. */
function unknownOrders(history: Pick<History, 'total'>): Trouble | undefined {
  const recent = history.total('unknown', slicesOfHalfAnHour)
  if (recent <= unknownShare.minOrders) return undefined
  const share = recent / history.total('orders', slicesOfHalfAnHour)
  const usualShare = history.total('unknown') / history.total('orders')
  const isUnusual = share > unknownShare.notable && share > unknownShare.timesUsual * usualShare
  if (!isUnusual && share <= unknownShare.always) return undefined
  return { what: 'unknown-orders', isSevere: false, share, usualShare }
}

/**
 * Whether a quote was served from a cache since a moment. Hits are counted and not dated, so it compares the count each time
 * that it is asked, and takes a hit to be as old as the time before.
 */
function createHitWatch({ quoteCounts }: Pick<Metrics, 'quoteCounts'>): (sinceMs: number) => boolean {
  let before = { hits: 0, atMs: Number.NEGATIVE_INFINITY }
  let lastHitAtMs = Number.NEGATIVE_INFINITY
  return (sinceMs) => {
    const { hit, shared } = quoteCounts().lookups
    if (hit + shared > before.hits) lastHitAtMs = before.atMs
    before = { hits: hit + shared, atMs: performance.now() }
    return lastHitAtMs >= sinceMs
  }
}

/**
 * Whether an upstream takes much longer than it usually does, by its p95 of ten minutes for each minute of the last day. What is
 * usual is the median of these: a p95 of the day itself would contain the slow calls, and hide them once they are a
 * twentieth of the day's.
 */
export function slowness(
  p95s: readonly (number | null)[],
): { p95Ms: number; usualP95Ms: number } | undefined {
  const p95Ms = p95s.at(-1) ?? 0
  const isOldEnough = p95s.slice(0, -slow.minHistoryMinutes).some((p95) => p95 !== null)
  if (p95Ms < slow.moreMs || !isOldEnough) return undefined
  const known = p95s.filter((p95) => p95 !== null).sort((left, right) => left - right)
  const middle = (known.length - 1) / 2
  const usualP95Ms = ((known[Math.floor(middle)] ?? 0) + (known[Math.ceil(middle)] ?? 0)) / 2
  const isSlow = p95Ms >= slow.timesUsual * usualP95Ms && p95Ms >= usualP95Ms + slow.moreMs
  return isSlow ? { p95Ms: Math.round(p95Ms), usualP95Ms: Math.round(usualP95Ms) } : undefined
}
