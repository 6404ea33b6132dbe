import type { Breaker, BreakerName } from '../upstream/breakers.ts'
import type { Upstream } from '../upstream/upstream.ts'
import { pairsText } from '../upstream/upstream.ts'
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

/** All that the console may have to say is wrong. */
export function troublesOf(parts: OperationsParts): Subject[] {
  const { config, clockDifference, metrics, addressNotes, outages, history } = parts
  const {
    'untrusted-header': untrusted,
    'other-header': others,
    'no-header': silent,
  } = addressNotes.peers
  const upstreams = Object.values(parts.upstreams).filter(
    (upstream) => upstream !== undefined,
  )

  /** Only what has succeeded since the first failure, and is not stopped. */
  function stillServed(sinceMs: number, quotes = 'quotes'): string[] {
    return upstreams.flatMap(({ name, breakers }) => {
      const succeeded = breakers.servedSince(sinceMs)
      if (breakers.states.orders === undefined) return succeeded.length > 0 ? [name] : []
      const cached =
        history.hitAfterMs >= sinceMs ? ['cached quotes until they expire'] : []
      return [
        ...(succeeded.includes('quotes') ? [quotes] : cached),
        ...(succeeded.includes('orders') ? ['orders'] : []),
        ...(succeeded.includes('rest') ? ['the rest of the swap API'] : []),
      ]
    })
  }

  const ofBreaker = (
    upstream: Upstream,
    name: BreakerName,
    breaker: Breaker,
  ): Subject => ({
    name: `${upstream.name} ${name}`,
    count: () => outages.refusals(upstream.name, name),
    trouble() {
      const { state, failingSinceMs } = breaker
      if (state === 'closed') return undefined
      return {
        what: 'upstream',
        says: 'stopped',
        isSevere: true,
        upstream: upstream.name,
        traffic: name,
        sinceMs: failingSinceMs,
        lastFailure: lastFailureOf(upstream, name),
        retryInMs: retryInMsOf(breaker),
        stillServed: stillServed(failingSinceMs ?? performance.now()),
      }
    },
  })

  const ofPairs = (upstream: Upstream): Subject => ({
    name: `${upstream.name} quotes`,
    count: () => outages.refusals(upstream.name, 'pair'),
    trouble() {
      const outage = upstream.breakers.quotesOutage()
      if (outage === undefined) return undefined
      const { stopped, sinceMs, askedFor } = outage
      const trials = upstream.breakers.pairs.flatMap(
        ([, breaker]) => retryInMsOf(breaker) ?? [],
      )
      const names = stopped.map(({ pair }) => pair).sort()
      const howMany = stopped.length
      const says = askedFor
        ? `all that were asked for fail (${pairsText(howMany, askedFor)})`
        : `${many(howMany, 'pair')} stopped`
      return {
        what: 'pairs',
        says,
        isSevere: askedFor !== undefined,
        upstream: upstream.name,
        traffic: 'quotes',
        sinceMs,
        lastFailure: lastFailureOf(upstream, 'quotes'),
        retryInMs: trials.length === 0 ? undefined : Math.min(...trials),
        stillServed: stillServed(sinceMs, 'quotes of other pairs'),
        names: names.slice(0, maxNames),
        howMany,
        askedFor,
      }
    },
  })

  const ofSlowness = ({ name }: Upstream): Subject => ({
    name: `${name} slowness`,
    trouble() {
      const found = slowness(history.p95s[name])
      if (found === undefined) return undefined
      const says = `p95 of 10 min is ${found.p95Ms} ms, usually ${found.usualP95Ms} ms`
      return { what: 'slow', says, isSevere: false, upstream: name, ...found }
    },
  })

  const general: readonly Subject[] = [
    {
      name: 'shared store',
      count: () => metrics.quoteCounts().ordersWithoutStore,
      trouble() {
        const outage = parts.sharedStore?.outage
        if (
          outage === undefined &&
          parts.journals.stream?.facts.awaySinceMs === undefined
        )
          return undefined
        const { sinceMs, reason: lastFailure } = outage ?? {}
        const stillServed = ['everything, out of the memory of this replica alone']
        const how = outage
          ? 'down and tried again every second'
          : 'up, but its journal is not used (the log says why)'
        const says = `${how}, orders that it may know as expired are forwarded`
        return { what: 'store', says, isSevere: true, sinceMs, lastFailure, stillServed }
      },
    },
    {
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
    },
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
    {
      name: 'unknown orders',
      count: () => metrics.quoteCounts().orders['forwarded-unknown'],
      trouble: () => unknownOrders(history),
    },
  ]

  const ofUpstreams = upstreams.flatMap((upstream) => {
    const breakers = Object.entries(upstream.breakers.states) as [BreakerName, Breaker][]
    return [
      ...breakers.map(([name, breaker]) => ofBreaker(upstream, name, breaker)),
      ofPairs(upstream),
    ]
  })
  return [...ofUpstreams, ...upstreams.map(ofSlowness), ...general]
}

function lastFailureOf(
  { lastFailures }: Upstream,
  what: BreakerName | 'quotes',
): string | undefined {
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
  const share = recent / history.total('orders', slicesOfHalfAnHour)
  const usualShare = history.total('unknown') / history.total('orders')
  const isUnusual =
    share > unknownShare.notable && share > unknownShare.timesUsual * usualShare
  if (!isUnusual && share <= unknownShare.always) return undefined
  const [now, usually] = [share, usualShare].map((one) => `${Math.round(one * 100)}%`)
  const says = `${now} of the float orders of the last 30 min were forwarded as unknown, usually ${usually}`
  return { what: 'unknown-orders', says, isSevere: false, share, usualShare }
}

/**
 * Whether an upstream takes much longer than it usually does, by its p95 of ten minutes for each minute of the last day.
 * What is usual is the median of these: a p95 of the day itself would contain the slow calls, and hide them once they are
 * a twentieth of the day's.
 */
export function slowness(p95s: readonly (number | null)[]) {
  const p95Ms = p95s.at(-1) ?? 0
  const isOldEnough = p95s.slice(0, -slow.minHistoryMinutes).some((p95) => p95 !== null)
  if (p95Ms < slow.moreMs || !isOldEnough) return undefined
  const known = p95s.filter((p95) => p95 !== null).sort((left, right) => left - right)
  const usualP95Ms = known[Math.floor(known.length / 2)] ?? 0
  const isSlow =
    p95Ms >= slow.timesUsual * usualP95Ms && p95Ms >= usualP95Ms + slow.moreMs
  return isSlow
    ? { p95Ms: Math.round(p95Ms), usualP95Ms: Math.round(usualP95Ms) }
    : undefined
}
