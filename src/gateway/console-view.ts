import { lookAt, type Now, orderLeftMs } from '../clock.ts'
import type { LoadedConfig } from '../config/config.ts'
import { factsOf, settingNames } from '../config/settings.ts'
import { maskedAddress } from '../http/ip-address.ts'
import type { DiskFacts } from '../journal/disk.ts'
import type { JournalFacts, NotedQuote } from '../journal/journal.ts'
import type { StreamFacts } from '../journal/stream.ts'
import type { Metrics } from '../metrics/metrics.ts'
import type { Counts } from '../operations/history.ts'
import type {
  Explanation,
  OperationsView,
  OtherHeaderPeers,
  ShownSetting,
  UpstreamState,
} from '../operations/view.ts'
import type { FloatOrder, FloatOrderDecision } from '../orders/float-order.ts'
import { serveLeftMs } from '../quotes/ends.ts'
import { listQuotes } from '../quotes/listing.ts'
import type { StoredQuote } from '../quotes/quote.ts'
import { stoppedPairs } from '../upstream/breakers.ts'
import type { Upstream } from '../upstream/upstream.ts'
import { createSubjects } from './console-subjects.ts'
import type { Parts } from './parts.ts'

/** A proxy may spell one name in several ways. */
const maxHeaders = 5

/** What the operations listener may know of all the other parts. */
/** `trafficUrl`: undefined until the traffic listener listens. */
export function createConsoleView(parts: Parts, trafficUrl: () => string | undefined): OperationsView {
  const { addressNotes, cache, clock, clockDifference, exchanges, ledger, notes } = parts
  const { providerLimit, sandbox } = parts
  const { config, sources } = parts.loaded
  const startedAtMs = performance.now()
  const upstreams = Object.values(parts.upstreams).filter((upstream) => upstream !== undefined)

  function stateOf(upstream: Upstream): UpstreamState {
    const { name, breakers, inFlight } = upstream
    return {
      name,
      sandbox: config.upstreams[name].baseUrl === 'sandbox',
      breakers: Object.entries(breakers.states).map(([breaker, { state, retryAfterMs }]) => ({
        name: breaker,
        state,
        retryAfterMs: Math.round(retryAfterMs),
      })),
      openPairs: stoppedPairs(breakers).length,
      inFlight,
      connections: { ...upstream.connections },
      connectionsMost: config.upstream.connections,
      queueMost: config.upstream.queue,
    }
  }

  function otherHeaderPeers(): OtherHeaderPeers {
    const { otherHeaderPeers: headerOf } = addressNotes
    return { peers: [...headerOf.keys()], headers: [...new Set(headerOf.values())].slice(0, maxHeaders) }
  }

  function dropQuotes(matches: (quote: StoredQuote) => boolean): number {
    const found = [...cache.list()].filter(([, { quote }]) => matches(quote))
    for (const [cacheKey, { quote }] of found) notes.drop({ ...quote, cacheKey })
    return found.length
  }

  return {
    version: parts.version,
    mode: Object.values(config.upstreams).every(
      ({ baseUrl }) => baseUrl === undefined || baseUrl === 'sandbox',
    )
      ? 'SANDBOX'
      : 'LIVE',
    settings: shownSettings(sources),
    uptimeMs: () => performance.now() - startedAtMs,
    upstreams: () => upstreams.map(stateOf),
    clock() {
      const { newestMs, bounds, saysNoTime } = clockDifference
      const { lowMs = null, highMs = null } = bounds ?? {}
      return { estimateMs: newestMs, lowMs, highMs, unknown: saysNoTime }
    },
    cache: {
      get entries() {
        return cache.entries
      },
      get bytes() {
        return cache.bytes
      },
      list(maxQuotes) {
        const now = lookAt(clock)
        return listQuotes(cache.list(), {
          leftMs: ({ end }) => serveLeftMs(end, now),
          maxQuotes,
        })
      },
      drop: (id) => dropQuotes((quote) => quote.id === id),
      dropAll: () => dropQuotes(() => true),
    },
    store: () =>
      parts.sharedStore ? { kind: 'valkey', up: parts.sharedStore.up } : { kind: 'memory', up: true },
    ledgerEntries: () => ledger.size,
    journal: () => ({
      disk: shownDisk(parts.journals.disk?.facts),
      stream: shownStream(parts.journals.stream?.facts),
    }),
    inFlight: () => exchanges.inFlight,
    counts: () => countsOf(parts.metrics, upstreams, exchanges.inFlight),
    subjects: createSubjects({
      ...parts,
      upstreams,
      untrustedPeers: addressNotes.untrustedPeers,
      otherHeaderPeers,
      clientIpHeader: config.client.ipHeader,
    }),
    coolDowns: () =>
      providerLimit.list().map(({ application, address, leftMs }) => ({
        application,
        address: maskedAddress(address),
        leftMs: Math.round(leftMs),
      })),
    untrustedPeers: () => [...addressNotes.untrustedPeers],
    otherHeaderPeers,
    async explainOrder(body, application) {
      const explained = await parts.floatOrders.explain(Buffer.from(body), application)
      if (explained.problem !== undefined) return { decision: 'bad-order', detail: explained.problem }
      return explanationOf(explained.order, explained.decision, lookAt(clock))
    },
    sandbox: sandbox && { faults: () => sandbox.faults(), set: (next) => sandbox.faults(next) },
    traffic: {
      url: () => trafficUrl()?.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:'),
      clientIpHeader: config.client.ipHeader,
      loopbackTrusted: config.client.trustProxy.some((entry) =>
        /^(loopback|127\.|0\.0\.0\.0\/|::)/.test(entry),
      ),
    },
  }
}

function shownJournal({ appended, waiting, skipped, awaySinceMs }: JournalFacts) {
  return { appended, waiting, skipped, awaySinceMs: awaySinceMs ?? null }
}

function shownDisk(facts: DiskFacts | undefined) {
  if (facts === undefined) return null
  const { bytes, syncedAtMs, restored, setAside, failures } = facts
  return { ...shownJournal(facts), bytes, syncedAtMs, restored, setAside, failures: { ...failures } }
}

function shownStream(facts: StreamFacts | undefined) {
  return facts === undefined ? null : { ...shownJournal(facts), behind: facts.behind }
}

function shownSettings(sources: LoadedConfig['sources']): ShownSetting[] {
  return settingNames.map((name) => ({ name, meaning: factsOf(name).meaning, ...sources[name] }))
}

const explained: Readonly<Record<FloatOrderDecision, string>> = {
  'forwarded-live': 'Forwarded: its quote is live.',
  'forwarded-unknown': 'Forwarded, though no quote seen here matches it.',
  'reported-expired': 'Sent and reported, because ORDER_EXPIRED_QUOTE is report: its quote is too old.',
  'refused-expired': '409 quote-expired: its quote is too old.',
  'refused-unknown': '409 quote-unknown: no quote seen here matches it.',
}

function explanationOf({ terms, verdict }: FloatOrder, decision: FloatOrderDecision, now: Now): Explanation {
  const { pair, fromAmount, toAmount, quoteIds } = terms
  const order = {
    pair: pair ?? null,
    fromAmount: fromAmount?.text ?? null,
    toAmount: toAmount === 'unreadable' ? 'unreadable' : (toAmount?.text ?? null),
    quoteIds: quoteIds.map(({ id }) => id),
  }
  const detail = explained[decision]
  if (verdict.state === 'unknown') return { order, decision, detail }
  return { order, matchedBy: verdict.rule, quote: shownQuote(verdict.quote, now), decision, detail }
}

function shownQuote(quote: NotedQuote, now: Now) {
  const { id, pairId, fromValue, requestedAmount, toValue, application, notedAtMs } = quote
  return {
    id,
    pair: pairId,
    amount: fromValue,
    requestedAmount,
    toAmount: toValue,
    application,
    ageMs: Math.max(0, now.nowMs - notedAtMs),
    leftMs: Math.round(orderLeftMs(quote, now)),
  }
}

function countsOf(metrics: Metrics, upstreams: readonly Upstream[], inFlight: number): Counts {
  const { lookups, orders } = metrics.quoteCounts()
  const { hit, shared, collapsed } = lookups
  return {
    sums: {
      requests: metrics.requestCounts().requests,
      quotes: total(lookups),
      hits: hit,
      saved: hit + shared + collapsed,
      errors: upstreams.reduce((sum, { failures }) => sum + failures, 0),
      refused: orders['refused-expired'] + orders['refused-unknown'],
      expired: orders['refused-expired'],
      orders: total(orders),
      matched: orders['forwarded-live'] + orders['reported-expired'] + orders['refused-expired'],
      unknown: orders['forwarded-unknown'],
    },
    inFlight,
  }
}

function total(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0)
}
