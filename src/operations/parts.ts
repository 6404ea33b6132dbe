import type { Clock } from '../clock.ts'
import type { Lookup } from '../events.ts'
import type { UpstreamName } from '../http/upstreams.ts'
import type { DiskFacts } from '../memory/disk.ts'
import type { Holds } from '../memory/holds.ts'
import type { Ledger } from '../memory/ledger.ts'
import type { Notes } from '../memory/notes.ts'
import type { StreamFacts } from '../memory/stream.ts'
import type { FloatOrderDecision } from '../orders/guard.ts'
import type { OrderRoutes } from '../orders/route.ts'
import type { QuoteCache } from '../quotes/cache.ts'
import type { ClockDifference } from '../quotes/ends.ts'
import type { ProviderLimit } from '../quotes/provider-limit.ts'
import type { Upstream } from '../upstream/upstream.ts'
import type { AddressNotes } from './address-notes.ts'
import type { History } from './history.ts'
import type { Outages } from './outages.ts'
import type { Recent } from './recent.ts'
import type { Settings } from './schemas.ts'

type Counted<Name extends string> = Readonly<Record<Name, number>>

interface JournalPart<Facts> {
  readonly facts: Facts
  /** Undefined: the journal takes records. */
  readonly trouble: { readonly reason: string | undefined }
}

/** What the console may read and do. */
export interface OperationsParts {
  readonly version: string
  readonly config: {
    readonly production: boolean
    /** ADMIN_TOKEN; and ADMIN_ALLOWED_HOSTS in lower case, without ports. */
    readonly admin: {
      readonly token: string | undefined
      readonly allowedHosts: readonly string[]
    }
    readonly client: { readonly ipHeader: string; readonly trustProxy: readonly string[] }
    readonly upstream: Counted<'connections' | 'queue' | 'totalTimeoutMs'>
    readonly upstreams: Readonly<
      Record<UpstreamName, { readonly baseUrl: string | undefined }>
    >
  }
  readonly clock: Clock
  /** Listeners for the console. */
  readonly history: History
  readonly recent: Recent
  readonly outages: Outages
  readonly addressNotes: AddressNotes
  readonly metrics: {
    readonly contentType: string
    /** `tookMs` leaves out the event loop's other work between the turns. */
    renderTimed(): Promise<{ readonly text: string; readonly tookMs: number }>
    requestCounts(): Counted<
      'requests' | 'untrustedHeaders' | 'otherHeaders' | 'missingHeaders'
    >
    quoteCounts(): {
      readonly lookups: Counted<Lookup>
      readonly orders: Counted<FloatOrderDecision>
      readonly ordersWithoutStore: number
    }
  }
  readonly exchanges: { readonly inFlight: number }
  readonly upstreams: Readonly<Record<UpstreamName, Upstream | undefined>>
  readonly clockDifference: ClockDifference
  readonly cache: QuoteCache
  readonly providerLimit: ProviderLimit
  readonly ledger: Ledger
  readonly notes: Notes
  readonly holds: Holds
  readonly orders: OrderRoutes
  readonly journals: {
    readonly disk: JournalPart<DiskFacts> | undefined
    readonly stream: JournalPart<StreamFacts> | undefined
  }
  readonly sharedStore:
    | {
        readonly up: boolean
        readonly outage: { sinceMs: number; reason: string } | undefined
      }
    | undefined
  readonly secrets: {
    readonly adminToken: string | undefined
    /** Settings, by what became of their files. */
    readAgain(): Readonly<
      Record<'changed' | 'unchanged' | 'failed' | 'notReadAgain', readonly string[]>
    >
  }
  readonly sandbox: { faults(next?: object): object } | undefined
  /** The settings in effect, secrets masked. */
  readonly settings: Readonly<Settings>
  /** Whether both listeners accept connections; false again from the beginning of the shutdown. */
  isReady(): boolean
  /** The traffic listener's URL on this machine; undefined before it listens. */
  trafficUrl(): string | undefined
}
