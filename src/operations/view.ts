import type { UpstreamName } from '../http/upstreams.ts'
import type { Counts } from './history.ts'
import type { Subject } from './outages.ts'

/** A setting in effect; its value has no secret in it. */
export interface ShownSetting {
  readonly name: string
  readonly value: string
  readonly source: string
  readonly meaning: string
}

export interface ShownBreaker {
  /** What it stops: connections, and with them everything; or requests of one kind. */
  readonly name: string
  readonly state: string
  /** Time until the breaker lets a request through; 0 while it is closed. */
  readonly retryAfterMs: number
}

export interface UpstreamState {
  readonly name: UpstreamName
  readonly sandbox: boolean
  readonly breakers: readonly ShownBreaker[]
  /** Pairs whose quotes keep failing, so that only a try is sent now and then. */
  readonly openPairs: number
  readonly inFlight: number
  /** Connections in use and idle, and requests that wait for one. */
  readonly connections: { readonly busy: number; readonly idle: number; readonly waiting: number }
  readonly connectionsMost: number
  readonly queueMost: number
}

export interface StoreState {
  readonly kind: 'memory' | 'valkey'
  readonly up: boolean
}

/** What is appended to the journal and read from it, on disk or in the shared store. */
export interface JournalState {
  /** Records since the start. */
  readonly appended: number
  /** Records that are not in it yet. */
  readonly waiting: number
  /** What was read and is not a record, or is damaged. */
  readonly skipped: number
  /** Since when it fails or hangs; null: it does not. */
  readonly awaySinceMs: number | null
}

/** What survives the process. */
export interface DiskState extends JournalState {
  readonly bytes: number
  readonly syncedAtMs: number
  /** Records that were read at the start. */
  readonly restored: number
  /** Files that were set aside. */
  readonly setAside: number
  readonly failures: Readonly<Record<'open' | 'write' | 'sync', number>>
}

/** What the replicas share. */
export interface StreamState extends JournalState {
  /** Records of other replicas that are not read yet. */
  readonly behind: number
}

/** The provider's clock minus ours, and the bounds of that difference; null: not known yet. */
export interface ClockState {
  readonly estimateMs: number
  readonly lowMs: number | null
  readonly highMs: number | null
  /** Answers came, and none told the provider's time. */
  readonly unknown: boolean
}

/** The provider answered 429 to quotes, and is not asked for more of them for a while. */
export interface ShownCoolDown {
  readonly application: string
  /** Masked. */
  readonly address: string
  readonly leftMs: number
}

export interface ShownQuote {
  readonly id: string
  readonly pair: string
  readonly amount: string
  readonly toAmount: string
  readonly toAsset: string
  readonly hits: number
  /** The price change from the previous quote of the same key, as a share of the previous price. */
  readonly drift: number | null
  readonly leftMs: number
  readonly lifeMs: number
}

/** What the gateway would do with an order, and the quote that the order matches. */
export interface Explanation {
  readonly decision: string
  readonly detail: string
  readonly matchedBy?: string
  readonly order?: Readonly<Record<string, unknown>>
  readonly quote?: Readonly<Record<string, unknown>>
}

export interface SandboxControl {
  faults(): object
  /** Throws an error whose message says what is wrong with a value. */
  set(next: object): object
}

/** Trusted proxies that sent another client-address header than CLIENT_IP_HEADER, and what they sent. */
export interface OtherHeaderPeers {
  readonly peers: readonly string[]
  readonly headers: readonly string[]
}

/**
 * All that the status page and the console know of the rest of the gateway. The composition root supplies it, so
 * that nothing here imports a route or a store.
 */
export interface OperationsView {
  readonly version: string
  readonly mode: 'SANDBOX' | 'LIVE'
  readonly settings: readonly ShownSetting[]
  uptimeMs(): number
  upstreams(): readonly UpstreamState[]
  clock(): ClockState
  readonly cache: {
    readonly entries: number
    readonly bytes: number
    /** Live quotes, those with the most hits first. */
    list(maxQuotes: number): readonly ShownQuote[]
    /** Returns how many quotes were dropped. */
    drop(quoteId: string): number
    dropAll(): number
  }
  /** Whether quotes and the ledger are kept in this process only, or also in a store that replicas share. */
  store(): StoreState
  ledgerEntries(): number
  /** null: STATE_DIRECTORY is not set. */
  journal(): { readonly disk: DiskState | null; readonly stream: StreamState | null }
  inFlight(): number
  /** All that was counted since the start; read once a second. */
  counts(): Counts
  /** The parts that may be in trouble. */
  readonly subjects: readonly Subject[]
  coolDowns(): readonly ShownCoolDown[]
  /** Peers that sent a client-address header but are not trusted proxies. */
  untrustedPeers(): readonly string[]
  otherHeaderPeers(): OtherHeaderPeers
  /** Without side effects. */
  explainOrder(body: string, application: string): Promise<Explanation>
  readonly sandbox: SandboxControl | undefined
  readonly traffic: {
    /** Where the traffic listener can be reached from this machine; undefined before it listens. */
    url(): string | undefined
    readonly clientIpHeader: string
    readonly loopbackTrusted: boolean
  }
}
