import { type Now, orderLeftMs } from '../clock.ts'
import type { NotedQuote } from '../journal/journal.ts'
import { statedAmountOf } from './amounts.ts'
import { type Asked, decide, type GuardRule, namesAnothers, type Verdict } from './guard.ts'
import type { Ledger } from './ledger.ts'
import type { OrderTerms } from './order-terms.ts'

/** What was decided of a float order, and why. `reported-expired`: sent because of ORDER_EXPIRED_QUOTE=report. */
export type FloatOrderDecision =
  | 'forwarded-live'
  | 'forwarded-unknown'
  | 'reported-expired'
  | 'refused-expired'
  | 'refused-unknown'

/** A quote that an order may mean, as of now. */
interface Considered {
  readonly quote: NotedQuote
  readonly leftMs: number
  readonly isOwn: boolean
}

/** An order that does not wait for a connection goes out within this time, and mostly within a tenth of it. */
const judgedOnceMs = 20
/** What is known of the provider's quotes changes while an order waits for a connection. */
const maxMs = 1_000
/** The clock may be read at the very end of a quote, a moment before the guard reads it. */
const atTheEndMs = 1

/** A float order with everything that it is judged by, so that it can be judged again without the shared store. */
export class FloatOrder {
  readonly terms: OrderTerms
  readonly #asked: Asked
  readonly #ledger: Ledger
  /** With the quote that is used or was too old, if one was known. */
  verdict!: Verdict
  /** Of that quote. */
  quoteAgeMs: number | undefined
  #judgedAtMs = 0

  constructor(terms: OrderTerms, asked: Asked, ledger: Ledger) {
    this.terms = terms
    this.#asked = asked
    this.#ledger = ledger
    this.#judge(ledger.now())
  }

  #judge(now: Now): void {
    this.#judgedAtMs = this.#ledger.timers.steadyMs()
    this.verdict = decide(this.#ledger, this.terms, this.#asked, now)
    this.quoteAgeMs = this.quote && Math.max(0, now.nowMs - this.quote.notedAtMs)
  }

  /**
   * An order that waits for a connection is judged when it goes out, not only when it came, and at the instant at which
   * its quote expires. One that does not wait is not judged twice. Returns when to ask again.
   */
  judgeAgain(): number {
    const now = this.#ledger.now()
    const hasWaited = this.#ledger.timers.steadyMs() - this.#judgedAtMs >= judgedOnceMs
    if (hasWaited || this.#liveForMs(now) <= 0) this.#judge(now)
    return Math.min(maxMs, Math.max(atTheEndMs, Math.ceil(this.#liveForMs(now))))
  }

  /** For how long a live quote lets it be sent; without end if no live quote does. */
  #liveForMs(now: Now): number {
    const { verdict } = this
    if (verdict.state !== 'live') return Number.POSITIVE_INFINITY
    return orderLeftMs(verdict.quote, now) - this.#asked.marginMs
  }

  /** The quote that the order uses when it is sent. */
  get quote(): NotedQuote | undefined {
    return 'quote' in this.verdict ? this.verdict.quote : undefined
  }

  /** Whether a live quote that is not known here may be meant: such an order is never refused. */
  get isInDoubt(): boolean {
    const { rule } = this.verdict
    return !this.#asked.othersKnown || rule === 'unreadable' || rule === 'restored' || rule === 'store-away'
  }

  /** App-Name as the provider sees it. */
  get application(): string {
    return this.#asked.application ?? ''
  }

  /** The digest of the client's partition. */
  get partition(): string | undefined {
    return this.#asked.partition
  }

  /** The verdict in words. */
  get why(): string {
    const { rule, state } = this.verdict
    if (state !== 'unknown') return `${how[rule]} The quote is ${state}.`
    if (rule === 'id') return 'The order names a quote that this gateway has not seen.'
    return how[this.#asked.othersKnown ? rule : 'store-away']
  }

  /** The quotes among which the guard decides: for people who ask why. */
  considered(): Considered[] {
    const now = this.#ledger.now()
    const named = this.terms.quoteIds.flatMap(({ id }) => this.#ledger.named(id, this.#asked, now))
    const found = this.#ledger.byTerms.find(this.terms, this.#asked, statedAmountOf(this.terms), now)
    const { exact, ownExact, own, terms } = found
    const matching = [exact, ownExact, own, ...terms.flatMap(({ shown }) => [...shown])].filter(
      (quote) => quote !== undefined,
    )
    const quotes = new Set(named.length > 0 || namesAnothers(this.terms) ? named : matching)
    const { partition } = this.#asked
    return [...quotes].map((quote) => ({
      quote,
      leftMs: orderLeftMs(quote, now),
      isOwn: partition !== undefined && quote.partition === partition,
    }))
  }
}

const how: Readonly<Record<GuardRule, string>> = {
  id: 'The order names a quote.',
  exact: 'The order states the toAmount of a quote.',
  pays: 'A live quote gives at least what the order states.',
  fallen: 'No live quote gives what the order states, and one that is over gave just that.',
  any: 'The order has the pair and fromAmount of a live quote.',
  none: 'No live quote has the pair and fromAmount of the order.',
  'store-away': 'The shared store is down, and no quote of this replica decides.',
  unreadable:
    'The client received a quote that the gateway could not read, and the order may be for that quote.',
  restored: 'Only quotes from before the restart match: some may be missing, or the clock may be wrong.',
}
