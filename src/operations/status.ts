import { hash } from 'node:crypto'
import { lookAt } from '../clock.ts'
import { maskedAddress } from '../http/ip-address.ts'
import type { JournalFacts } from '../memory/journal.ts'
import { cutText } from '../process/text.ts'
import { stoppedPairs } from '../upstream/breakers.ts'
import type { Upstream } from '../upstream/upstream.ts'
import type { Level } from './access.ts'
import { countsOf } from './counts.ts'
import type { OperationsParts } from './parts.ts'
import { isDegraded } from './probes.ts'
import type { SeenRefusal, Status } from './schemas.ts'
import { trafficOf } from './try-it.ts'

type UpstreamState = Status['upstreams'][number]

const maxShown = 20
const maxQuotes = 80
/** A provider's pair may have any length. */
const maxPairLength = 200

/** Members that change with time alone. A rate falls as its count leaves the sparklines. */
const passing: ReadonlySet<string> = new Set([
  'now',
  'uptimeMs',
  'seconds',
  'agoMs',
  'leftMs',
  'longestLeftMs',
  'retryAfterMs',
  'retryInMs',
  'callsPerSecond',
  'requestsPerSecond',
])

interface StatusAnswer {
  readonly body: Buffer
  /** The ETag is unchanged while only time passes. */
  readonly etag: string
}

export function statusAnswer(status: Status): StatusAnswer {
  const lasting = JSON.stringify(status, (name, value) =>
    passing.has(name) ? undefined : value,
  )
  return {
    body: Buffer.from(JSON.stringify(status)),
    etag: `W/"${hash('sha256', lasting, 'base64url')}"`,
  }
}

/** The details of requests need full rights. */
export function statusOf(parts: OperationsParts, level: Level): Status {
  return {
    ...healthOf(parts),
    ...whatIsWrong(parts, level),
    ...ordersOf(parts, level),
    ...requestsOf(parts, level),
    ...trialsOf(parts, level),
    access: level,
  }
}

/** The part without details of a request, its caller or its user. */
function healthOf(parts: OperationsParts) {
  const { version, config, clock, history, clockDifference, sharedStore } = parts
  const { cache, ledger, journals, exchanges } = parts
  const { newestMs, bounds, saysNoTime } = clockDifference
  const baseUrls = Object.values(config.upstreams).map(
    ({ baseUrl }) => baseUrl ?? 'sandbox',
  )
  const isSandbox = baseUrls.every((url) => url === 'sandbox')
  return {
    version,
    mode: isSandbox ? ('SANDBOX' as const) : ('LIVE' as const),
    now: clock.nowMs(),
    uptimeMs: Math.round(history.uptimeMs),
    ready: parts.isReady(),
    degraded: isDegraded(parts),
    upstreams: Object.values(parts.upstreams)
      .filter((upstream) => upstream !== undefined)
      .map((upstream) => upstreamState(parts, upstream)),
    recent: history.recent,
    sparklines: history.sparklines,
    savings: savingsOf(parts),
    clock: {
      estimateMs: newestMs,
      lowMs: null,
      highMs: null,
      ...bounds,
      unknown: saysNoTime,
    },
    store: {
      kind: sharedStore ? ('valkey' as const) : ('memory' as const),
      up: sharedStore?.up ?? true,
    },
    cache: { entries: cache.entries, bytes: cache.bytes },
    ledger: { entries: ledger.size },
    journal: { disk: journalNow(journals.disk), stream: journalNow(journals.stream) },
    holds: parts.holds.list,
    inFlight: exchanges.inFlight,
  }
}

function upstreamState(
  { config, history }: OperationsParts,
  { name, breakers, inFlight, connections }: Upstream,
): UpstreamState {
  const { busy, idle, lanes } = connections
  const states = Object.values(breakers.states).map((breaker) => ({
    name: breaker.name,
    state: breaker.state,
    retryAfterMs: Math.round(breaker.retryAfterMs),
  }))
  return {
    name,
    sandbox: config.upstreams[name].baseUrl === 'sandbox',
    breakers: states as UpstreamState['breakers'],
    openPairs: stoppedPairs(breakers).length,
    inFlight,
    connections: { busy, idle, waiting: lanes.waiting },
    traffic: history.trafficOf(name),
    connectionsMost: config.upstream.connections,
    queueMost: config.upstream.queue,
  }
}

function savingsOf(parts: OperationsParts): Status['savings'] {
  const { quotes, saved, expired, orders, matched } = countsOf(parts)
  return {
    quotes,
    callsSaved: saved,
    expiredOrdersStopped: expired,
    orders,
    ordersMatched: matched,
  }
}

/** Failing pairs and untrusted peers are details of requests. */
function whatIsWrong({ outages, recent, addressNotes }: OperationsParts, level: Level) {
  const { 'untrusted-header': untrusted, 'other-header': others } = addressNotes.peers
  // Addresses are shown whole: these peers are proxies, not people, and TRUST_PROXY needs them.
  const shownPeers = (peers: ReadonlyMap<string, string>) => ({
    count: peers.size,
    peers: ofRequests(level, [...peers.keys()].slice(0, maxShown)),
  })
  const { current } = outages
  return {
    outages:
      level === 'full' ? current : current.map((outage) => ({ ...outage, names: [] })),
    pastOutages: outages.past,
    events: recent.events,
    untrustedPeers: shownPeers(untrusted),
    otherHeaderPeers: { ...shownPeers(others), headers: addressNotes.otherHeaders },
  }
}

function ordersOf({ recent }: OperationsParts, level: Level) {
  return {
    ordersRefused: recent.refusedTotal,
    ordersReported: recent.reportedTotal,
    lastRefusals:
      level === 'full' ? recent.refusals : recent.refusals.map(withoutDetails),
    refusedByApplication: ofRequests(level, recent.refusedByApplication),
  }
}

function requestsOf(parts: OperationsParts, level: Level) {
  const { cache, clock, history, providerLimit, recent } = parts
  const isFull = level === 'full'
  const coolDowns = providerLimit.list()
  const left = coolDowns.map(({ leftMs }) => Math.round(leftMs))
  const { slowest } = history
  return {
    quotes: cache.mostHit(maxQuotes, lookAt(clock)).map((quote) => ({
      ...quote,
      id: isFull ? quote.id : '',
      pair: cutText(quote.pair, maxPairLength),
      leftMs: Math.round(quote.leftMs),
      lifeMs: Math.round(quote.lifeMs),
      drift: quote.drift && Number(quote.drift.toFixed(6)),
    })),
    lastRequests: ofRequests(level, recent.requests),
    // A caller may have chosen both ids.
    slowest:
      isFull || slowest === null ? slowest : { ...slowest, requestId: '', traceId: null },
    coolDowns: {
      clients: coolDowns.length,
      longestLeftMs: Math.max(0, ...left),
      shown: coolDowns.slice(0, maxShown).map(({ application, address, leftMs }) => ({
        application: isFull ? application : '',
        address: isFull ? shownAddress(address) : '',
        leftMs: Math.round(leftMs),
      })),
    },
  }
}

/** For trials in the console. */
function trialsOf(parts: OperationsParts, level: Level) {
  const { config, sandbox } = parts
  return {
    needsToken: config.admin.token !== undefined,
    faults: level === 'full' && sandbox !== undefined ? { ...sandbox.faults() } : null,
    traffic: trafficOf(parts),
  }
}

function journalNow<Facts extends JournalFacts>(
  journal: { readonly facts: Facts } | undefined,
) {
  return journal
    ? { ...journal.facts, awaySinceMs: journal.facts.awaySinceMs ?? null }
    : null
}

function ofRequests<One>(level: Level, list: One[]): One[] {
  return level === 'full' ? list : []
}

/** A refusal without anything that a caller sent or got. */
function withoutDetails(refusal: SeenRefusal): SeenRefusal {
  return {
    ...refusal,
    pair: '',
    amount: '',
    toAmount: null,
    quoteIds: [],
    application: '',
    client: '',
    quoteId: null,
    quotes: [],
    requestId: '',
  }
}

/** Undefined: the application is limited as a whole. */
function shownAddress(address: string | undefined): string {
  return address === undefined ? 'all addresses' : maskedAddress(address)
}
