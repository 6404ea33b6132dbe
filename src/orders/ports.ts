import type { Now, Timers } from '../clock.ts'
import type { Note, QuoteName, Whose } from '../quotes/note.ts'
import type { StatedAmount } from './stated-amount.ts'

/** Memory implements this, so that orders import nothing of it. */
export interface OrderMemory {
  readonly known: KnownQuotes
  readonly uses: QuoteUses
  readonly keys: UsedKeys
  readonly holds: OrderHolds
  /** Reads what other replicas have noted. False if that failed. */
  caughtUp(): Promise<boolean> | boolean
}

/** Served quotes, for judging orders. */
export interface KnownQuotes {
  readonly timers: Timers
  /** Whether users may hold quotes that a crash has lost. */
  readonly doubtsRestored: boolean
  now(): Now
  /** The quote with this id that ends last, even if it is over. */
  findById(id: string): KnownQuote | undefined
  named(quoteIds: readonly { readonly id: string }[]): KnownQuote[]
  /** All quotes that may decide about an order that names no quote. */
  offersFor(order: WantedSwap): OffersOfSwap[]
  /** The unreadable answer that the orderer was given for the order's pair and amount. */
  unreadableFor(order: WantedSwap, orderer: Whose): KnownQuote | undefined
  /** An unreadable answer for the order's pair, whatever its amount and application. */
  unreadableOfPair(order: WantedSwap, orderer: Whose): KnownQuote | undefined
}

export interface WantedSwap {
  /** Brief and in upper case, as memory keeps pairs. */
  readonly foldedPair: string | undefined
  readonly fromAmount: AmountClaim | undefined
}

export interface AmountClaim {
  /** As the order spells it, because a double would lose digits; its double if the text is not a plain decimal. */
  readonly text: string
  /** A JSON number means its nearest double, and this is its shortest decimal: 0.1 for 0.10000000000000001. */
  readonly canonical: string
  readonly isNumber: boolean
}

/** What a quote pays. Comparing the doubles is enough in most cases. */
export interface Price {
  readonly toValue: string
  readonly hasNumbers: boolean
  readonly double: number
}

/** Noted by this process, by another replica, or by an earlier process with the same folder. */
export type Origin = 'own' | 'delivered' | 'restored'

export interface KnownQuote extends Note, Price {
  readonly origin: Origin
}

/** The quotes of one pair and fromAmount. */
export interface OffersOfSwap {
  /** The last to end of the quotes that are not looked through. While it lives, some live prices are unknown. */
  readonly unlisted: KnownQuote | undefined
  /**
   * The last prices, the quotes with exactly the stated amount, and the orderer's own: its newest, and for each price
   * of the last 15 minutes the last to end.
   */
  meantBy(orderer: Whose, stated: StatedAmount | undefined): KnownQuote[]
}

/** A quote counts for this long past its end. */
export const rememberedMs = 86_400_000
/** A past quote refuses orders by its amount alone for this long. */
export const recentMs = 900_000

export interface QuoteUses {
  /** An order is sent for the quote. Returns whether an order of the same partition has used it, or is on its way. */
  noteSent(quote: Note, partition: string | undefined): boolean
  /** The provider refused that order, so a further one is not a repetition. */
  notAccepted(quote: Note, partition: string | undefined): void
  /** An order used the quote, or may have. */
  use(quote: QuoteName & Pick<Note, 'cacheKey'>): void
}

/** The keys of orders, and what became of the orders. */
export interface UsedKeys {
  /** Returns what is known of a used key. `no-room`: too many orders have no known answer. */
  claim(id: string, digest: string): Promise<KnownKey | 'claimed' | 'no-room'>
  /** Keeps what became of the order. Undefined: the key is free again. */
  settle(id: string, outcome: KeyState | undefined): Promise<void>
}

export interface OrderHolds {
  /** Throws if the order is held. */
  refuse(order: HoldableOrder): void
  /** The hold that ends last among those on the order. */
  covering(order: HoldableOrder): HoldOfOrder | undefined
}

export interface HoldableOrder {
  readonly what: 'order'
  /** Undefined: the pair cannot be read, so a hold on any pair counts. */
  readonly pair: string | undefined
  readonly application: string
}

export interface HoldOfOrder {
  readonly reason: string
  /** By our wall clock. */
  readonly untilMs: number
}

export interface KnownKey {
  /** A digest of the order's target and body. Empty: the kept text is unreadable. */
  readonly digest: string
  readonly state: KeyState
}

/**
 * What is known of the order with a key. `sent`: it is on its way. `unknown`: the provider may have it, but its answer
 * is lost. `large`: its answer is larger than what is kept. A state changes only once, from `sent` to another.
 */
export type KeyState = 'sent' | 'unknown' | 'large' | KeptAnswer

export interface KeptAnswer {
  readonly status: number
  readonly reason: string
  readonly rawHeaders: readonly string[]
  readonly body: Buffer
}
