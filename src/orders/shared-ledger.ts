import type { ProviderClock } from '../quotes/provider-clock.ts'
import type { NotedQuote, QuoteLedger } from './ledger.ts'
import type { OrderTerms } from './order-terms.ts'

/** What all replicas know of the quotes that they gave out. The ledger of each replica judges; this brings it the rest. */
export interface SharedLedger {
  /**
   * Notes a quote here and for all replicas. Settles when every replica can find it, or the store has failed: until
   * then the client must not have the quote, because its order could reach another replica first.
   */
  note(quote: NotedQuote): Promise<void> | void
  /** Notes a quote here that another replica has noted for all. */
  noteHere(quote: NotedQuote): void
  /**
   * Notes here what any replica has noted that the order can mean. False: there may be more, because the store failed
   * just now, or shortly ago and not every replica has written again what it lost.
   */
  recall(order: OrderTerms, application: string | undefined): Promise<boolean>
}

/** For one replica alone: its own ledger knows everything. */
export function createLoneLedger(
  ledger: Pick<QuoteLedger, 'note'>,
  providerClock: Pick<ProviderClock, 'earliestMs'>,
): SharedLedger {
  const note = (quote: NotedQuote) => ledger.note(quote, providerClock.earliestMs())
  return { note, noteHere: note, recall: async () => true }
}
