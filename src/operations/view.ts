/** A setting in effect, as it may be shown. */
export interface ShownSetting {
  readonly name: string
  readonly value: string
  readonly source: string
  readonly meaning: string
}

export interface UpstreamState {
  readonly name: string
  readonly sandbox: boolean
  readonly breaker: string
  /** How long until one request may try; 0 while the breaker is closed. */
  readonly retryAfterMs: number
  readonly inFlight: number
  readonly connectionsMost: number
  readonly queueMost: number
}

export interface StoreState {
  readonly kind: 'memory' | 'valkey'
  readonly up: boolean
}

/** The provider's clock less ours; null where nothing is known yet. */
export interface ClockState {
  readonly estimateMs: number
  readonly lowMs: number | null
  readonly highMs: number | null
}

export interface ShownQuote {
  readonly id: string
  readonly pair: string
  readonly amount: string
  readonly toAmount: string
  readonly toAsset: string
  readonly hits: number
  /** How far the price has moved since the quote before it under the same key, as a share of that. */
  readonly drift: number | null
  readonly leftMs: number
  readonly lifeMs: number
}

/** What the gateway would say of an order, and of which quote. */
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
    /** Live ones, those asked for most often first. */
    list(most: number): readonly ShownQuote[]
    /** How many were dropped. */
    drop(quoteId: string): number
    dropAll(): number
  }
  /** Where quotes and the ledger are kept: in this process alone, or also in what replicas share. */
  store(): StoreState
  ledgerEntries(): number
  inFlight(): number
  /** Peers that sent a client-address header which nobody believes. */
  untrustedPeers(): readonly string[]
  /** Has no side effect. */
  explainOrder(body: string, application: string): Promise<Explanation>
  readonly sandbox: SandboxControl | undefined
  readonly traffic: {
    /** Where the traffic listener can be reached from this machine; undefined before it listens. */
    url(): string | undefined
    readonly clientIpHeader: string
    readonly loopbackTrusted: boolean
  }
}
