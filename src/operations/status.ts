import { lookAt } from '../clock.ts'
import { maskedAddress } from '../http/ip-address.ts'
import { upstreamNames } from '../http/upstreams.ts'
import { serveLeftMs } from '../quotes/ends.ts'
import { listQuotes } from '../quotes/listing.ts'
import { stoppedPairs } from '../upstream/breakers.ts'
import type { Upstream } from '../upstream/upstream.ts'
import type { Level } from './access.ts'
import type { OperationsFacts, OperationsParts } from './parts.ts'
import type { Health, Hello, Outage, Refusal, ShownHistory, Status, Tick } from './schemas.ts'

type UpstreamState = Health['upstreams'][number]

const maxShown = 20
const maxQuotes = 100

/** What /status, /stream and /history say. Who may not see requests gets no details of any. */
export class Shown {
  readonly #parts: OperationsParts
  readonly #facts: OperationsFacts
  readonly #needsToken: boolean
  readonly #startedAtMs = performance.now()

  constructor(parts: OperationsParts, facts: OperationsFacts, needsToken: boolean) {
    this.#parts = parts
    this.#facts = facts
    this.#needsToken = needsToken
  }

  #health(level: Level): Health {
    const { version, clock, history, clockDifference, sharedStore, cache, ledger, exchanges } = this.#parts
    const { config, upstreams } = this.#parts
    const { newestMs, bounds, saysNoTime } = clockDifference
    const { slowest } = history
    const baseUrls = Object.values(config.upstreams).map(({ baseUrl }) => baseUrl ?? 'sandbox')
    return {
      version,
      mode: baseUrls.every((url) => url === 'sandbox') ? 'SANDBOX' : 'LIVE',
      now: clock.nowMs(),
      uptimeMs: Math.round(performance.now() - this.#startedAtMs),
      ready: this.#facts.isReady(),
      degraded: sharedStore?.up === false,
      upstreams: upstreamNames
        .flatMap((name) => upstreams[name] ?? [])
        .map((upstream) => this.#upstream(upstream)),
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
      journal: this.#journal(),
      coolDowns: this.#coolDowns(),
      inFlight: exchanges.inFlight,
      // A client may have chosen the id.
      slowest: level === 'full' || slowest === null ? slowest : { ...slowest, requestId: '' },
    }
  }

  #upstream({ name, breakers, inFlight, connections }: Upstream): UpstreamState {
    const { config, history } = this.#parts
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

  #journal(): Health['journal'] {
    const { disk, stream } = this.#parts.journals
    return {
      disk: disk ? { ...disk.facts, awaySinceMs: disk.facts.awaySinceMs ?? null } : null,
      stream: stream ? { ...stream.facts, awaySinceMs: stream.facts.awaySinceMs ?? null } : null,
    }
  }

  #coolDowns() {
    const left = this.#parts.providerLimit.list().map(({ leftMs }) => Math.round(leftMs))
    return { clients: left.length, longestLeftMs: Math.max(0, ...left) }
  }

  /** GET /status. */
  status(level: Level): Status {
    const { recent, addressNotes, providerLimit } = this.#parts
    const { untrustedPeers, otherHeaderPeers, otherHeaders } = addressNotes
    // Peers are shown with their whole addresses: they are proxies, not people, and TRUST_PROXY needs the addresses.
    const shownPeers = (peers: Iterable<string>, count: number) => ({
      ...{ count, peers: ofRequests(level, [...peers].slice(0, maxShown)) },
    })
    const coolDowns = providerLimit.list().slice(0, maxShown)
    return {
      ...this.#health(level),
      access: level,
      outages: this.#outages(level),
      ordersRefused: recent.refusedTotal,
      ordersReported: recent.reportedTotal,
      lastRefusals: shownRefusals(recent.refusals, level),
      refusedByApplication: ofRequests(level, recent.refusedByApplication),
      lastFailures: ofRequests(level, recent.failures),
      coolDowns: {
        ...this.#coolDowns(),
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
      settings: this.#facts.settings.map(({ name, value, source }) => ({ name, value, source })),
    }
  }

  /** GET /history: what was kept while no console was open. */
  history(): ShownHistory {
    const { history, outages, recent } = this.#parts
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
  hello(level: Level): Hello {
    const { config, recent, sandbox } = this.#parts
    const { settings, trafficUrl } = this.#facts
    return {
      ...this.#frame(level),
      access: level,
      needsToken: this.#needsToken,
      settings: [...settings],
      history: this.history(),
      requests: ofRequests(level, recent.requests),
      failures: ofRequests(level, recent.failures),
      refusals: shownRefusals(recent.refusals, level),
      faults: level === 'full' && sandbox !== undefined ? { ...sandbox.faults() } : null,
      traffic: {
        url: trafficUrl() ?? null,
        clientIpHeader: config.client.ipHeader,
        loopbackTrusted: config.client.trustProxy.some((entry) =>
          /^(loopback|127\.|0\.0\.0\.0\/|::)/.test(entry),
        ),
      },
    }
  }

  /** Every further event of /stream. */
  tick(level: Level, passed: Pick<Tick, 'requests' | 'skipped' | 'refusals' | 'events'>): Tick {
    const { history } = this.#parts
    return {
      ...this.#frame(level),
      ...passed,
      requests: ofRequests(level, passed.requests),
      refusals: shownRefusals(passed.refusals, level),
      // A few slots: the one before may have grown, and a viewer may have missed some seconds.
      seconds: history.seconds(3),
      minutes: history.minutes(2),
    }
  }

  #frame(level: Level) {
    const { cache, clock, history, recent } = this.#parts
    const now = lookAt(clock)
    const quotes = listQuotes(cache.list(), { leftMs: ({ end }) => serveLeftMs(end, now), maxQuotes })
    return {
      health: this.#health(level),
      quotes: level === 'full' ? quotes : quotes.map((quote) => ({ ...quote, id: '' })),
      outages: this.#outages(level),
      recent: history.recent,
      refusedByApplication: ofRequests(level, recent.refusedByApplication),
      refusedTotal: recent.refusedTotal,
      reportedTotal: recent.reportedTotal,
    }
  }

  /** The pairs that fail and the peers that are not trusted are details of requests. */
  #outages(level: Level): Outage[] {
    const { current } = this.#parts.outages
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
