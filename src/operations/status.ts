import { lookAt } from '../clock.ts'
import { maskedAddress } from '../http/ip-address.ts'
import { upstreamNames } from '../http/upstreams.ts'
import { stoppedPairs } from '../upstream/breakers.ts'
import type { Upstream } from '../upstream/upstream.ts'
import type { Level } from './access.ts'
import type { OperationsFacts, OperationsParts } from './parts.ts'
import type { Health, Hello, Outage, Refusal, ShownHistory, Status, Tick } from './schemas.ts'

type UpstreamState = Health['upstreams'][number]

const maxShown = 20
const maxQuotes = 100

export type Shown = ReturnType<typeof createShown>

/** What /status, /stream and /history say. Who may not see requests gets no details of any. */
export function createShown(parts: OperationsParts, facts: OperationsFacts, needsToken: boolean) {
  const { version, config, clock, history, recent, addressNotes, upstreams, clockDifference } = parts
  const { sharedStore, cache, ledger, exchanges, outages, providerLimit, sandbox } = parts
  const startedAtMs = performance.now()

  return { status, history: shownHistory, hello, tick }

  function healthOf(level: Level): Health {
    const { newestMs, bounds, saysNoTime } = clockDifference
    const { slowest } = history
    const baseUrls = Object.values(config.upstreams).map(({ baseUrl }) => baseUrl ?? 'sandbox')
    return {
      version,
      mode: baseUrls.every((url) => url === 'sandbox') ? 'SANDBOX' : 'LIVE',
      now: clock.nowMs(),
      uptimeMs: Math.round(performance.now() - startedAtMs),
      ready: facts.isReady(),
      degraded: sharedStore?.up === false,
      upstreams: upstreamNames.flatMap((name) => upstreams[name] ?? []).map(stateOf),
      savings: history.savings,
      clock: {
        estimateMs: newestMs,
        lowMs: bounds?.lowMs ?? null,
        highMs: bounds?.highMs ?? null,
        unknown: saysNoTime,
      },
      store: { kind: sharedStore ? 'valkey' : 'memory', up: sharedStore?.up ?? true },
      cache: { entries: cache.entries, bytes: cache.bytes },
      ledger: { entries: ledger.size },
      journal: journalsNow(),
      coolDowns: coolDownsNow(),
      inFlight: exchanges.inFlight,
      // A client may have chosen the id.
      slowest: level === 'full' || slowest === null ? slowest : { ...slowest, requestId: '' },
    }
  }

  function stateOf({ name, breakers, inFlight, connections }: Upstream): UpstreamState {
    const { busy, idle, waiting } = connections
    const shown = Object.values(breakers.states).map(({ name, state, retryAfterMs }) => ({
      ...{ name, state, retryAfterMs: Math.round(retryAfterMs) },
    }))
    return {
      name,
      sandbox: config.upstreams[name].baseUrl === 'sandbox',
      breakers: shown as UpstreamState['breakers'],
      openPairs: stoppedPairs(breakers).length,
      inFlight,
      connections: { busy, idle, waiting },
      traffic: history.trafficOf(name),
      connectionsMost: config.upstream.connections,
      queueMost: config.upstream.queue,
    }
  }

  function journalsNow(): Health['journal'] {
    const { disk, stream } = parts.journals
    return {
      disk: disk ? { ...disk.facts, awaySinceMs: disk.facts.awaySinceMs ?? null } : null,
      stream: stream ? { ...stream.facts, awaySinceMs: stream.facts.awaySinceMs ?? null } : null,
    }
  }

  function coolDownsNow() {
    const left = providerLimit.list().map(({ leftMs }) => Math.round(leftMs))
    return { clients: left.length, longestLeftMs: Math.max(0, ...left) }
  }

  /** GET /status. */
  function status(level: Level): Status {
    const { untrustedPeers, otherHeaderPeers, otherHeaders } = addressNotes
    // Peers are shown with their whole addresses: they are proxies, not people, and TRUST_PROXY needs the addresses.
    const shownPeers = (peers: Iterable<string>, count: number) => ({
      ...{ count, peers: ofRequests(level, [...peers].slice(0, maxShown)) },
    })
    const coolDowns = providerLimit.list().slice(0, maxShown)
    return {
      ...healthOf(level),
      access: level,
      outages: outagesOf(level),
      ordersRefused: recent.refusedTotal,
      ordersReported: recent.reportedTotal,
      lastRefusals: shownRefusals(recent.refusals, level),
      refusedByApplication: ofRequests(level, recent.refusedByApplication),
      lastFailures: ofRequests(level, recent.failures),
      coolDowns: {
        ...coolDownsNow(),
        shown: coolDowns.map(({ application, address, leftMs }) => ({
          application: level === 'full' ? application : '',
          address: level === 'full' ? maskedAddress(address) : '',
          leftMs: Math.round(leftMs),
        })),
      },
      untrustedPeers: shownPeers(untrustedPeers, untrustedPeers.size),
      otherHeaderPeers: {
        ...shownPeers(otherHeaderPeers.keys(), otherHeaderPeers.size),
        headers: otherHeaders,
      },
      settings: facts.settings.map(({ name, value, source }) => ({ name, value, source })),
    }
  }

  /** GET /history: what was kept while no console was open. */
  function shownHistory(): ShownHistory {
    return {
      seconds: history.seconds(),
      minutes: history.minutes(),
      outages: outages.past.map(({ id, what, upstream, traffic, since, until, isSevere }) => ({
        ...{ id, what, upstream, traffic, since, until, isSevere },
      })),
      events: recent.eventsAfter(0),
    }
  }

  /** The first event of /stream. */
  function hello(level: Level): Hello {
    return {
      ...frameOf(level),
      access: level,
      needsToken,
      settings: [...facts.settings],
      history: shownHistory(),
      requests: ofRequests(level, recent.requests),
      failures: ofRequests(level, recent.failures),
      refusals: shownRefusals(recent.refusals, level),
      faults: level === 'full' && sandbox !== undefined ? { ...sandbox.faults() } : null,
      traffic: {
        url: facts.trafficUrl() ?? null,
        clientIpHeader: config.client.ipHeader,
        loopbackTrusted: config.client.trustProxy.some((entry) =>
          /^(loopback|127\.|0\.0\.0\.0\/|::)/.test(entry),
        ),
      },
    }
  }

  /** Every further event of /stream. */
  function tick(level: Level, passed: Pick<Tick, 'requests' | 'skipped' | 'refusals' | 'events'>): Tick {
    return {
      ...frameOf(level),
      ...passed,
      requests: ofRequests(level, passed.requests),
      refusals: shownRefusals(passed.refusals, level),
      // A few slots: the one before may have grown, and a viewer may have missed some seconds.
      seconds: history.seconds(3),
      minutes: history.minutes(2),
    }
  }

  function frameOf(level: Level) {
    const quotes = cache.mostHit(maxQuotes, lookAt(clock))
    return {
      health: healthOf(level),
      quotes: level === 'full' ? quotes : quotes.map((quote) => ({ ...quote, id: '' })),
      outages: outagesOf(level),
      recent: history.recent,
      refusedByApplication: ofRequests(level, recent.refusedByApplication),
      refusedTotal: recent.refusedTotal,
      reportedTotal: recent.reportedTotal,
    }
  }

  /** The pairs that fail and the peers that are not trusted are details of requests. */
  function outagesOf(level: Level): Outage[] {
    const { current } = outages
    return level === 'full' ? current : current.map((outage) => ({ ...outage, names: [] }))
  }
}

function ofRequests<One>(level: Level, list: One[]): One[] {
  return level === 'full' ? list : []
}

/** Who may not see requests gets nothing that a client sent or was given. */
function shownRefusals(refusals: Refusal[], level: Level): Refusal[] {
  if (level === 'full') return refusals
  return refusals.map((refusal) => ({
    ...refusal,
    ...{ pair: '', amount: '', toAmount: null, quoteIds: [], application: '', client: '' },
    ...{ quoteId: null, quotes: [], requestId: '' },
  }))
}
