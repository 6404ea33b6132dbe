import type { Now, Timers } from '../clock.ts'
import type { Note, QuoteName, Whose } from '../quotes/note.ts'
import type { StatedAmount } from './stated-amount.ts'

/** What orders ask of memory. Orders import nothing of memory: memory implements this. */
export interface OrderMemory {
  readonly known: KnownQuotes
  readonly uses: QuoteUses
  readonly keys: UsedKeys
  readonly holds: OrderHolds
  /** Whether all that any replica has noted is known here now. */
  caughtUp(): Promise<boolean> | boolean
}

/** The quotes that clients were given, which orders are judged by. */
export interface KnownQuotes {
  readonly timers: Timers
  /** Whether clients may hold quotes that an earlier process gave out and that were not restored. */
  readonly doubtsRestored: boolean
  now(): Now
  /** The quote with this id that ends last, even if it is over. */
  findById(id: string): KnownQuote | undefined
  named(quoteIds: readonly { readonly id: string }[]): KnownQuote[]
  /** All quotes that may decide about an order that names none. */
  offersFor(order: WantedSwap): OffersOfSwap[]
  /** An answer for the order's pair and amount that was given to the orderer and that could not be read. */
  unreadableFor(order: WantedSwap, orderer: Whose): KnownQuote | undefined
  /** An unreadable answer for the order's pair, whatever its amount and application. */
  unreadableOfPair(order: WantedSwap, orderer: Whose): KnownQuote | undefined
}

/** What an order swaps. */
export interface WantedSwap {
  /** As memory has pairs: brief, and without regard to case. */
  readonly foldedPair: string | undefined
  readonly fromAmount: AmountClaim | undefined
}

/** An amount that an order states. */
export interface AmountClaim {
  /** As the order spells it, because a double would lose digits. If that is not a decimal, the double it stands for. */
  readonly text: string
  /** A JSON number means its nearest double, of which this is the shortest decimal: 0.1 for 0.10000000000000001. */
  readonly canonical: string
  readonly isNumber: boolean
}

/** What a quote gives: its canonical decimal, and the nearest double, which decides most comparisons at a glance. */
export interface Price {
  readonly toValue: string
  readonly hasNumbers: boolean
  readonly double: number
}

/** Who noted it: this process, another one whose record was delivered, or an earlier process over the same folder. */
export type Origin = 'own' | 'delivered' | 'restored'

/** A quote that was noted, with what the guard asks of it. */
export interface KnownQuote extends Note, Price {
  readonly origin: Origin
}

/** The quotes of one pair and fromAmount. */
export interface OffersOfSwap {
  /**
   * The last to end of all quotes that are not among the last prices. While it lives, it is not known what all live quotes
   * pay.
   */
  readonly unlisted: KnownQuote | undefined
  /**
   * What decides about an order: what the orderer was given (the last to end of each price of the last 15 minutes, and the
   * newest of all), what has just the stated amount, and the last prices.
   */
  meantBy(orderer: Whose, stated: StatedAmount | undefined): KnownQuote[]
}

/** How long past its end a quote counts. */
export const rememberedMs = 86_400_000
/** How long a quote that is over refuses an order by its amount alone. */
export const recentMs = 900_000

/** Which quotes were used by an order. */
export interface QuoteUses {
  /** An order goes out for the quote. Returns whether one of the same client has used it, or is on its way. */
  noteSent(quote: Note, partition: string | undefined): boolean
  /** The provider refused that order, so another one is its first. */
  orderRefused(quote: Note, partition: string | undefined): void
  /** An order used the quote, or may have. */
  use(quote: QuoteName & Pick<Note, 'cacheKey'>): void
}

/** Which keys of orders were used, and what became of these orders. */
export interface UsedKeys {
  /** Returns what is known of the key already. `no-room`: too many orders have no known answer. */
  claim(id: string, digest: string): Promise<KnownKey | 'claimed' | 'no-room'>
  /** What became of the order. Undefined: the key is free again. */
  settle(id: string, outcome: KeyState | undefined): Promise<void>
}

/** What operators hold. */
export interface OrderHolds {
  /** Throws where the order is held. */
  refuse(order: HeldOrder): void
  /** The hold that holds the order longest. */
  covering(order: HeldOrder): HoldOfOrder | undefined
}

export interface HeldOrder {
  readonly what: 'order'
  /** Undefined: it cannot be read, so that the hold of any pair may be meant for it. */
  readonly pair: string | undefined
  readonly application: string
}

export interface HoldOfOrder {
  readonly reason: string
  /** By our wall clock. */
  readonly untilMs: number
}

export interface KnownKey {
  /** A digest of the order's target and bytes. Empty: what was kept could not be read. */
  readonly digest: string
  readonly state: KeyState
}

/**
 * What is known of the order with a key. `sent`: it is on its way. `unknown`: the provider may have it, and its answer is
 * lost. `large`: it was answered with more than is kept. A state only goes forward, from `sent` to one of the others.
 */
export type KeyState = 'sent' | 'unknown' | 'large' | KeptAnswer

/** The answer to an order, as the provider gave it. */
export interface KeptAnswer {
  readonly status: number
  readonly reason: string
  readonly rawHeaders: readonly string[]
  readonly body: Buffer
}
