import type { Clock } from '../clock.ts'
import type { Metrics } from '../metrics/metrics.ts'
import { type ConsoleListener, failureText } from '../operations/console-listener.ts'
import type { History, UnknownOrders } from '../operations/history.ts'
import type { Subject, Trouble } from '../operations/outages.ts'
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
  unknownOrders(): UnknownOrders
  slownessOf: History['slownessOf']
}

const maxNames = 20
/** As in the alert QuotegateOrdersUnknown. */
const unknownShare = { notable: 0.1, timesUsual: 2, always: 0.5, minOrders: 5 }
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
    trouble: () => troubleOf(parts.unknownOrders()),
  }

  return [
    ...upstreams.flatMap((upstream) => [
      ...Object.entries(upstream.breakers.states).map(([name, breaker]) =>
        ofBreaker(upstream, name as BreakerName, breaker),
      ),
      ofPairs(upstream),
    ]),
    ...createSlowSubjects(parts),
    ofStore,
    ofClock,
    ofProxies,
    ofIpHeader,
    ofUnknownOrders,
  ]
}

/** More than a tenth and twice the usual share, or more than half. */
function troubleOf({ recent, day }: UnknownOrders): Trouble | undefined {
  if (recent.unknown <= unknownShare.minOrders) return undefined
  const share = recent.unknown / recent.orders
  const usualShare = day.unknown / day.orders
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

/** Upstreams that take much longer than they usually do. */
function createSlowSubjects({
  upstreams,
  slownessOf,
}: {
  upstreams: readonly Pick<Upstream, 'name'>[]
  slownessOf: History['slownessOf']
}): Subject[] {
  return upstreams.map(({ name }) => ({
    name: `${name} slowness`,
    concerned: 'none',
    count: () => 0,
    trouble() {
      const slowness = slownessOf(name)
      if (slowness === undefined) return undefined
      const [p95Ms, usualP95Ms] = [Math.round(slowness.p95Ms), Math.round(slowness.usualP95Ms)]
      return { what: 'slow', isSevere: false, upstream: name, p95Ms, usualP95Ms }
    },
  }))
}
