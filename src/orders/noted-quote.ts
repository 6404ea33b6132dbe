import type { End } from '../quotes/ends.ts'
import type { Span } from '../tracing/observer.ts'
import type { OrderTerms } from './order-terms.ts'

/** A relayed quote, as the ledger keeps it. Amounts are canonical decimals. */
export interface NotedQuote extends Pick<End, 'refusedFromMs' | 'wallAheadMs'> {
  readonly id: string
  readonly pairId: string
  /** App-Name as the upstream receives it. */
  readonly application: string
  /** Who was given it: a digest of the client's partition. Undefined: a client whose address is not known. */
  readonly partition: string | undefined
  readonly fromValue: string
  /** The amount in the quote request. An upstream may round it, and an order may state either amount. */
  readonly requestedAmount: string
  readonly toValue: string
  readonly expiresAtMs: number
  /** The quote's cache key, for dropping it from the cache; empty once it is over. */
  readonly cacheKey: string
  /** When it was first noted, by our clock. Metrics and the console show how old an order's quote is. */
  readonly notedAtMs: number
}

/** The request whose answer looked like a quote and could not be noted. */
export interface UnreadableQuote
  extends Pick<NotedQuote, 'pairId' | 'application' | 'requestedAmount' | 'partition'> {
  /** When the answer was relayed, by our clock. */
  readonly relayedAtMs: number
}

/** Who sends an order. */
export interface Orderer {
  readonly application: string | undefined
  /** Undefined: the client's address is not known, so no quote is its own. */
  readonly partition: string | undefined
  /** Whether the partition is one address, and not a country or all clients, whose quotes are not one client's own. */
  readonly isAddress: boolean
}

/** What all replicas know of the quotes that they gave out. The ledger of each replica judges; this brings it the rest. */
export interface SharedLedger {
  /**
   * Notes a quote here and for all replicas. Settles when every replica can find it, or the store has failed: until
   * then the client must not have the quote, because its order could reach another replica first.
   */
  note(quote: NotedQuote, span?: Span): Promise<void> | void
  /** Notes a quote here that another replica has noted for all. */
  noteHere(quote: NotedQuote): void
  /**
   * Notes here what any replica has noted that the order can mean. False: there may be more, because the store failed
   * just now, or shortly ago and not every replica has written again what it lost.
   */
  recall(order: OrderTerms, orderer: Orderer, span?: Span): Promise<boolean>
}

/** For one replica alone: its own ledger knows everything. */
export function createLoneLedger(ledger: { note(quote: NotedQuote): void }): SharedLedger {
  const note = (quote: NotedQuote) => ledger.note(quote)
  return { note, noteHere: note, recall: async () => true }
}
