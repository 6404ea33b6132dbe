import { lookAt } from '../clock.ts'
import { maskedAddress } from '../http/ip-address.ts'
import type { JournalFacts } from '../memory/journal.ts'
import { cutText } from '../process/text.ts'
import { stoppedPairs } from '../upstream/breakers.ts'
import type { Upstream } from '../upstream/upstream.ts'
import type { Level } from './access.ts'
import type { OperationsParts } from './parts.ts'
import { isDegraded } from './probes.ts'
import type {
  Health,
  Hello,
  Outage,
  SeenRefusal,
  ShownHistory,
  StatusPage,
  Tick,
} from './schemas.ts'
import { trafficOf } from './try-it.ts'

type UpstreamState = Health['upstreams'][number]

const maxShown = 20
const maxQuotes = 100
/** The provider may make it as long as it likes. */
const maxPairLength = 200

/** What /status, /stream and /history say. Who may not see requests gets no details of any. */
export class Shown {
  readonly #parts: OperationsParts
  readonly #upstreams: readonly Upstream[]
  readonly #startedAtMs = performance.now()

  constructor(parts: OperationsParts) {
    this.#parts = parts
    this.#upstreams = Object.values(parts.upstreams).filter(
      (upstream) => upstream !== undefined,
    )
  }

  #healthOf(level: Level): Health {
    const { version, config, clock, history, clockDifference, sharedStore } = this.#parts
    const { cache, ledger, journals, providerLimit, exchanges } = this.#parts
    const { newestMs, bounds, saysNoTime } = clockDifference
    const { slowest } = history
    const coolDowns = providerLimit.list().map(({ leftMs }) => Math.round(leftMs))
    const baseUrls = Object.values(config.upstreams).map(
      ({ baseUrl }) => baseUrl ?? 'sandbox',
    )
    return {
      version,
      mode: baseUrls.every((url) => url === 'sandbox') ? 'SANDBOX' : 'LIVE',
      now: clock.nowMs(),
      uptimeMs: Math.round(performance.now() - this.#startedAtMs),
      ready: this.#parts.isReady(),
      degraded: isDegraded(this.#parts),
      upstreams: this.#upstreams.map((upstream) => this.#stateOf(upstream)),
      savings: history.savings,
      clock: {
        estimateMs: newestMs,
        lowMs: null,
        highMs: null,
        ...bounds,
        unknown: saysNoTime,
      },
      store: { kind: sharedStore ? 'valkey' : 'memory', up: sharedStore?.up ?? true },
      cache: { entries: cache.entries, bytes: cache.bytes },
      ledger: { entries: ledger.size },
      journal: { disk: journalNow(journals.disk), stream: journalNow(journals.stream) },
      holds: [...this.#parts.holds.list],
      coolDowns: { clients: coolDowns.length, longestLeftMs: Math.max(0, ...coolDowns) },
      inFlight: exchanges.inFlight,
      // A client may have chosen both ids.
      slowest:
        level === 'full' || slowest === null
          ? slowest
          : { ...slowest, requestId: '', traceId: null },
    }
  }

  #stateOf({ name, breakers, inFlight, connections }: Upstream): UpstreamState {
    const { config, history } = this.#parts
    const { busy, idle, lanes } = connections
    const shown = Object.values(breakers.states).map(({ name, state, retryAfterMs }) => ({
      name,
      state,
      retryAfterMs: Math.round(retryAfterMs),
    }))
    return {
      name,
      sandbox: config.upstreams[name].baseUrl === 'sandbox',
      breakers: shown as UpstreamState['breakers'],
      openPairs: stoppedPairs(breakers).length,
      inFlight,
      connections: { busy, idle, waiting: lanes.waiting },
      traffic: history.trafficOf(name),
      connectionsMost: config.upstream.connections,
      queueMost: config.upstream.queue,
    }
  }

  status(level: Level): StatusPage {
    const { recent, addressNotes, providerLimit } = this.#parts
    const { 'untrusted-header': untrusted, 'other-header': others } = addressNotes.peers
    const isFull = level === 'full'
    // Peers are shown with their whole addresses: they are proxies, not people, and TRUST_PROXY needs the addresses.
    const shownPeers = (peers: ReadonlyMap<string, string>) => ({
      count: peers.size,
      peers: ofRequests(level, [...peers.keys()].slice(0, maxShown)),
    })
    const coolDowns = providerLimit.list().slice(0, maxShown)
    const health = this.#healthOf(level)
    return {
      ...health,
      access: level,
      outages: this.#outagesOf(level),
      ordersRefused: recent.refusedTotal,
      ordersReported: recent.reportedTotal,
      lastRefusals: shownRefusals(recent.refusals, level),
      refusedByApplication: ofRequests(level, recent.refusedByApplication),
      lastFailures: ofRequests(level, recent.failures),
      coolDowns: {
        ...health.coolDowns,
        shown: coolDowns.map(({ application, address, leftMs }) => ({
          application: isFull ? application : '',
          address: isFull ? maskedAddress(address) : '',
          leftMs: Math.round(leftMs),
        })),
      },
      untrustedPeers: shownPeers(untrusted),
      otherHeaderPeers: { ...shownPeers(others), headers: addressNotes.otherHeaders },
      settings: this.#parts.settings.map(({ name, value, source }) => ({
        name,
        value,
        source,
      })),
    }
  }

  /** GET /history: what was kept while no console was open. */
  history(): ShownHistory {
    const { history, outages, recent } = this.#parts
    const slots = { seconds: history.seconds(), minutes: history.minutes() }
    return { ...slots, outages: outages.past, events: recent.eventsAfter(0) }
  }

  hello(level: Level): Hello {
    const { config, recent, sandbox } = this.#parts
    return {
      ...this.#frameOf(level),
      access: level,
      needsToken: config.admin.token !== undefined,
      settings: [...this.#parts.settings],
      history: this.history(),
      requests: ofRequests(level, recent.requests),
      failures: ofRequests(level, recent.failures),
      refusals: shownRefusals(recent.refusals, level),
      faults: level === 'full' && sandbox !== undefined ? { ...sandbox.faults() } : null,
      traffic: trafficOf(this.#parts),
    }
  }

  tick(
    level: Level,
    passed: Pick<Tick, 'requests' | 'skipped' | 'refusals' | 'events'>,
  ): Tick {
    const { history } = this.#parts
    return {
      ...this.#frameOf(level),
      ...passed,
      requests: ofRequests(level, passed.requests),
      refusals: shownRefusals(passed.refusals, level),
      // A few slots: the one before may have grown, and a viewer may have missed as many seconds as it is let.
      seconds: history.seconds(5),
      minutes: history.minutes(2),
    }
  }

  #frameOf(level: Level) {
    const { cache, clock, history, recent } = this.#parts
    const quotes = cache.mostHit(maxQuotes, lookAt(clock))
    return {
      health: this.#healthOf(level),
      quotes: quotes.map(({ id, pair, ...quote }) => ({
        ...quote,
        id: level === 'full' ? id : '',
        pair: cutText(pair, maxPairLength),
      })),
      outages: this.#outagesOf(level),
      recent: history.recent,
      refusedByApplication: ofRequests(level, recent.refusedByApplication),
      refusedTotal: recent.refusedTotal,
      reportedTotal: recent.reportedTotal,
    }
  }

  /** The pairs that fail and the peers that are not trusted are details of requests. */
  #outagesOf(level: Level): Outage[] {
    const { current } = this.#parts.outages
    return level === 'full'
      ? current
      : current.map((outage) => ({ ...outage, names: [] }))
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

/** Who may not see requests gets nothing that a client sent or was given. */
function shownRefusals(refusals: SeenRefusal[], level: Level): SeenRefusal[] {
  if (level === 'full') return refusals
  return refusals.map((refusal) => ({
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
  }))
}
