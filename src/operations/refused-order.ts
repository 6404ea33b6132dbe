/** A quote that a refused or reported order may have meant. */
export interface ConsideredQuote {
  readonly id: string
  readonly amount: string
  readonly toAmount: string
  /** How long it had expired when the order was judged; negative: it was live for so long still. */
  readonly lateMs: number
  /** It was given to the client that orders. */
  readonly isOwn: boolean
  /** The order was refused because of this one. */
  readonly decided: boolean
}

export interface RefusedOrder {
  readonly at: number
  readonly reason: 'expired' | 'unknown'
  /** Because of ORDER_EXPIRED_QUOTE=report; it would have been refused. */
  readonly sent: boolean
  /** Which of the rules of docs/orders.md decided. */
  readonly rule: string
  /** The same in words. */
  readonly why: string
  readonly pair: string
  readonly amount: string
  /** As the order states it; null: it states none. */
  readonly toAmount: string | null
  /** The quotes that the order names. */
  readonly quoteIds: readonly string[]
  readonly application: string
  /** The client's address, masked. */
  readonly client: string
  /** The quote that was too old. */
  readonly quoteId: string | null
  readonly quoteAgeMs: number | null
  readonly expiredForMs: number | null
  /** Some of the quotes that were considered: the one that decided, then those that expired last. */
  readonly quotes: readonly ConsideredQuote[]
  readonly quotesConsidered: number
  readonly requestId: string
}

/** What a person without full rights may see of it: nothing that a client sent or was given. */
export function withoutClientData(order: RefusedOrder): RefusedOrder {
  return {
    ...order,
    pair: '',
    amount: '',
    toAmount: null,
    quoteIds: [],
    application: '',
    client: '',
    quoteId: null,
    quotes: [],
    requestId: '',
  }
}
