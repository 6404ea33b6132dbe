import type { Clock } from '../clock.ts'
import type { Lookup } from '../events.ts'
import type { UpstreamName } from '../http/upstreams.ts'
import type { DiskFacts } from '../journal/disk.ts'
import type { StreamFacts } from '../journal/stream.ts'
import type { FloatOrderDecision } from '../orders/guard.ts'
import type { Notes } from '../orders/notes.ts'
import type { OrderRoutes } from '../orders/route.ts'
import type { QuoteCache } from '../quotes/cache.ts'
import type { ClockDifference } from '../quotes/ends.ts'
import type { ProviderLimit } from '../quotes/provider-limit.ts'
import type { Upstream } from '../upstream/upstream.ts'
import type { AccessOptions } from './access.ts'
import type { AddressNotes } from './address-notes.ts'
import type { History } from './history.ts'
import type { Outages } from './outages.ts'
import type { Recent } from './recent.ts'
import type { Setting } from './schemas.ts'
import type { TimedPage } from './shared-page.ts'

/** All of the gateway that the console may read, and what it may do to it. */
export interface OperationsParts {
  readonly version: string
  readonly config: {
    readonly production: boolean
    readonly admin: Omit<AccessOptions, 'production'>
    readonly client: { readonly ipHeader: string; readonly trustProxy: readonly string[] }
    readonly upstream: { readonly connections: number; readonly queue: number }
    readonly upstreams: Readonly<Record<UpstreamName, { readonly baseUrl: string | undefined }>>
  }
  readonly clock: Clock
  /** What listens to events for the console. */
  readonly history: History
  readonly recent: Recent
  readonly outages: Outages
  readonly addressNotes: AddressNotes
  readonly metrics: {
    readonly contentType: string
    renderTimed(): Promise<TimedPage>
    requestCounts(): Counted<'requests' | 'untrustedHeaders' | 'otherHeaders'>
    quoteCounts(): {
      readonly lookups: Counted<Lookup>
      readonly orders: Counted<FloatOrderDecision>
      readonly ordersWithoutStore: number
    }
  }
  readonly exchanges: { readonly inFlight: number }
  readonly upstreams: Readonly<Record<UpstreamName, Upstream | undefined>>
  readonly clockDifference: Pick<ClockDifference, 'newestMs' | 'leastMs' | 'bounds' | 'saysNoTime'>
  readonly cache: Pick<QuoteCache, 'entries' | 'bytes' | 'list' | 'mostHit'>
  readonly providerLimit: Pick<ProviderLimit, 'list'>
  readonly ledger: { readonly size: number }
  readonly notes: Pick<Notes, 'drop'>
  readonly orders: Pick<OrderRoutes, 'explain'>
  readonly journals: {
    readonly disk: { readonly facts: DiskFacts } | undefined
    readonly stream: { readonly facts: StreamFacts } | undefined
  }
  readonly sharedStore:
    | { readonly up: boolean; readonly outage: { sinceMs: number; reason: string } | undefined }
    | undefined
  readonly sandbox: { faults(next?: object): object } | undefined
}

type Counted<Name extends string> = Readonly<Record<Name, number>>

/** What comes from no part of it. */
export interface OperationsFacts {
  /** The settings in effect, secrets masked. */
  readonly settings: readonly Setting[]
  /** Whether both listeners accept connections; false again from the beginning of the shutdown. */
  isReady(): boolean
  /** Where the traffic listener can be reached from this machine; undefined before it listens. */
  trafficUrl(): string | undefined
}
