import { type Now, orderLeftMs } from '../clock.ts'
import type { NotedQuote } from '../journal/journal.ts'
import { type Price, type StatedAmount, statedAmountOf } from './amounts.ts'
import { type Entry, lastToEnd, later } from './entries.ts'
import type { Ledger } from './ledger.ts'
import type { Orderer, OrderTerms } from './order-terms.ts'
import type { Candidates } from './terms.ts'

/**
 * What decided about an order, in words: the six rules first (docs/orders.md). With the last three it would have been
 * refused, but a quote that is not known here may be meant.
 */
const how = {
  id: 'The order names a quote.',
  exact: 'The order states the toAmount of a quote.',
  pays: 'A live quote gives at least what the order states.',
  fallen:
    'No live quote gives what the order states, and one that is over gave just that.',
  any: 'The order has the pair and fromAmount of a live quote.',
  none: 'No live quote has the pair and fromAmount of the order.',
  unreadable:
    'The client received a quote that the gateway could not read, and the order may be for that quote.',
  'store-away': 'The shared store is down, and no quote of this replica decides.',
  restored:
    'Only quotes from before the restart match: some may be missing, or the clock may be wrong.',
} as const
export type GuardRule = keyof typeof how
export const guardRules = Object.keys(how) as GuardRule[]

export type Verdict =
  | { state: 'live'; quote: NotedQuote; rule: GuardRule }
  // `expiredForMs` is 0 between the start of the margin and the end itself.
  | { state: 'expired'; quote: NotedQuote; rule: GuardRule; expiredForMs: number }
  | { state: 'unknown'; rule: GuardRule }

interface Asked extends Orderer {
  /** A quote counts as over when it has this much time left, or less. */
  readonly marginMs: number
  /** Whether the ledger holds every quote of any replica that the order may mean. */
  readonly othersKnown: boolean
}

/** What was decided of a float order, and why. `reported-expired`: sent because of ORDER_EXPIRED_QUOTE=report. */
export type FloatOrderDecision =
  | 'forwarded-live'
  | 'forwarded-unknown'
  | 'reported-expired'
  | 'refused-expired'
  | 'refused-unknown'

/** How long a quote that is over refuses an order by its amount alone. */
const recentMs = 900_000
/**
 * So many digits are not equal by chance: in a day of all clients' prices, in a quarter of an hour of one's own, rounded.
 */
const digitsOfOneQuote = 8
const digitsOfOwnQuote = 6
const digitsToRound = 5
/** An order that does not wait for a connection goes out within this time, and mostly within a tenth of it. */
const judgedOnceMs = 20
/** What is known of the provider's quotes changes while an order waits for a connection. */
const maxMs = 1_000

/** A float order with everything that it is judged by, so that it can be judged again without the shared store. */
export class FloatOrder {
  readonly terms: OrderTerms
  readonly asked: Asked
  readonly #ledger: Ledger
  readonly #stated: StatedAmount | undefined
  /** With the quote that is used or was too old, if one was known. */
  verdict!: Verdict
  quoteAgeMs: number | undefined
  #judgedAtMs = 0

  constructor(terms: OrderTerms, asked: Asked, ledger: Ledger) {
    this.terms = terms
    this.asked = asked
    this.#ledger = ledger
    this.#stated = statedAmountOf(terms)
    this.#judge()
  }

  /** Of several quotes the one that lives decides, and of those that ends last. */
  #judge(): void {
    const now = this.#ledger.now()
    this.#judgedAtMs = this.#ledger.timers.steadyMs()
    this.verdict = this.#verdictAt(now)
    this.quoteAgeMs = this.quote && Math.max(0, now.nowMs - this.quote.notedAtMs)
  }

  #verdictAt(now: Now): Verdict {
    const verdict = judge(
      this.terms,
      this.#stated,
      new Sight(this.#ledger, this.asked, now, true),
    )
    if (verdict.state !== 'expired') return verdict
    // Later quotes often have the same terms, and another replica may have relayed one that is still live.
    if (!this.asked.othersKnown && verdict.rule !== 'id')
      return { state: 'unknown', rule: 'store-away' }
    if (!this.#ledger.doubtsRestored) return verdict
    const certain = judge(
      this.terms,
      this.#stated,
      new Sight(this.#ledger, this.asked, now, false),
    )
    return certain.state === 'unknown' ? { state: 'unknown', rule: 'restored' } : certain
  }

  /**
   * An order that waits for a connection is judged when it goes out, not only when it came, and at the instant at which
   * its quote expires. One that does not wait is not judged twice. Returns when to ask again.
   */
  judgeAgain(): number {
    let liveForMs = this.#liveForMs()
    const hasWaited = this.#ledger.timers.steadyMs() - this.#judgedAtMs >= judgedOnceMs
    if (hasWaited || liveForMs <= 0) {
      this.#judge()
      liveForMs = this.#liveForMs()
    }
    // The clock may have been read at the very end of the quote, a moment before the guard reads it.
    return Math.min(maxMs, Math.max(1, Math.ceil(liveForMs)))
  }

  /** For how long a live quote lets it be sent; without end if no live quote does. */
  #liveForMs(): number {
    const { verdict } = this
    if (verdict.state !== 'live') return Number.POSITIVE_INFINITY
    return orderLeftMs(verdict.quote, this.#ledger.now()) - this.asked.marginMs
  }

  /** The quote that the order uses when it is sent. */
  get quote(): NotedQuote | undefined {
    return 'quote' in this.verdict ? this.verdict.quote : undefined
  }

  /** Whether a live quote that is not known here may be meant: such an order is never refused. */
  get isInDoubt(): boolean {
    return (
      !this.asked.othersKnown ||
      ['unreadable', 'restored', 'store-away'].includes(this.verdict.rule)
    )
  }

  /** The verdict in words. */
  get why(): string {
    const { rule, state } = this.verdict
    if (state !== 'unknown') return `${how[rule]} The quote is ${state}.`
    if (rule === 'id') return 'The order names a quote that this gateway has not seen.'
    return how[this.asked.othersKnown ? rule : 'store-away']
  }

  /** The quotes among which the guard decides, as of now: for people who ask why. */
  considered(): {
    readonly quote: NotedQuote
    readonly leftMs: number
    readonly isOwn: boolean
  }[] {
    const now = this.#ledger.now()
    const named = this.terms.quoteIds.flatMap(({ id }) =>
      this.#ledger.named(id, this.asked, now),
    )
    const found = this.#ledger.byTerms.find(this.terms, this.asked, this.#stated, now)
    const matching = [
      found.exact,
      found.ownExact,
      found.own,
      ...found.terms.flatMap(({ shown }) => shown),
    ]
    const quotes = new Set(
      named.length > 0 || namesAnothers(this.terms) ? named : matching,
    )
    return [...quotes]
      .filter((quote) => quote !== undefined)
      .map((quote) => ({
        quote,
        leftMs: orderLeftMs(quote, now),
        isOwn: isOwn(quote, this.asked),
      }))
  }
}

function judge(
  order: OrderTerms,
  stated: StatedAmount | undefined,
  sight: Sight,
): Verdict {
  const { ledger, asked, now } = sight
  // 1. It names a quote.
  const named = order.quoteIds.flatMap(({ id }) => ledger.named(id, asked, now))
  const known = named.filter((quote) => sight.counts(quote, 'certain'))
  if (known.length > 0) return sight.verdict('id', known)
  if (namesAnothers(order))
    return {
      state: 'unknown',
      rule: sight.isOpen(ledger.byTerms.findUnreadable(order, asked))
        ? 'unreadable'
        : 'id',
    }

  const found = ledger.byTerms.find(order, asked, stated, now)
  const { own, terms, unreadable } = found
  // 2. Quotes with exactly its amount.
  const exactOnes = sight.exactOnes(stated, found)
  if (sight.isOpen(unreadable) && !exactOnes.some((quote) => sight.isLive(quote)))
    return { state: 'unknown', rule: 'unreadable' }
  if (exactOnes.length > 0) return sight.verdict('exact', exactOnes)

  // 3. A live quote pays it. An own one that ends last is named before all others, and then nothing more is looked at.
  const pays = (quote: Entry) =>
    stated === undefined || stated.isPaidBy(quote) || isRounded(quote, stated)
  const hasOwnLive = sight.isLive(own)
  const counts = (quote: Entry) => sight.counts(quote, 'doubtful')
  if (own !== undefined && hasOwnLive && pays(own)) return sight.verdict('pays', [own])
  // One look at all prices: the live ones that pay, the past ones that are stated, and of both kinds the last to end.
  const paying: Entry[] = []
  const stating: Entry[] = []
  let live: Entry | undefined
  let past: Entry | undefined
  for (const { shown } of terms)
    for (const quote of shown) {
      if (sight.isLive(quote)) {
        live = later(live, quote, now)
        if (pays(quote)) paying.push(quote)
      } else if (counts(quote)) {
        past = later(past, quote, now)
        if (stated && (stated.isExactly(quote) || isRounded(quote, stated)))
          stating.push(quote)
      }
    }
  if (paying.length > 0)
    return sight.verdict('pays', hasOwnLive ? sight.withOwn(paying, () => true) : paying)
  // 4. The price has fallen since.
  const fallen = stating.filter((quote) => sight.isRecent(quote))
  if (fallen.length > 0) {
    const isCandidate = (quote: Entry) => sight.isRecent(quote) && counts(quote)
    return sight.verdict('fallen', sight.withOwn(fallen, isCandidate))
  }
  // 5. Any quote lives.
  if (own !== undefined && hasOwnLive) return sight.verdict('any', [own])
  if (live !== undefined) return sight.verdict('any', [live])
  // 6. None does.
  if (own !== undefined && counts(own)) return sight.verdict('none', [own])
  if (stated === undefined && past !== undefined) return sight.verdict('none', [past])
  return sight.verdict('none', sight.withOwn(stating, counts))
}

/** Of an order that names no quote known here: another source's quote, unless it may be a number of the client's own. */
function namesAnothers({ quoteIds }: OrderTerms): boolean {
  return quoteIds.some(({ isBare }) => !isBare)
}

function isOwn({ partition }: NotedQuote, orderer: Orderer): boolean {
  return partition !== undefined && partition === orderer.partition
}

function isRounded(price: Price, stated: StatedAmount): boolean {
  return stated.digits >= digitsToRound && stated.isRounded(price)
}

/** The quotes as one order sees them at one instant. */
class Sight {
  readonly ledger: Ledger
  readonly asked: Asked
  readonly now: Now
  /**
   * False after an end that was not clean. A client may hold a newer quote that was not restored, so restored ones refuse
   * an order only where it names one, or states it to eight digits.
   */
  readonly #trustsAll: boolean

  constructor(ledger: Ledger, asked: Asked, now: Now, trustsAll: boolean) {
    this.ledger = ledger
    this.asked = asked
    this.now = now
    this.#trustsAll = trustsAll
  }

  isLive(quote: Entry | undefined): boolean {
    return quote !== undefined && orderLeftMs(quote, this.now) > this.asked.marginMs
  }

  /** Of an answer that could not be read: no order is refused by it, so the margin does not shorten it. */
  isOpen(unreadable: Entry | undefined): boolean {
    return unreadable !== undefined && orderLeftMs(unreadable, this.now) > 0
  }

  isRecent(quote: Entry): boolean {
    return orderLeftMs(quote, this.now) > -recentMs
  }

  /** A quote that is over counts while it is remembered; a restored one may not refuse all that it matches. */
  counts(quote: Entry, evidence: 'certain' | 'doubtful'): boolean {
    if (orderLeftMs(quote, this.now) <= -this.ledger.rememberedMs) return false
    return this.#trustsAll || quote.origin !== 'restored' || evidence === 'certain'
  }

  /** Those with the stated amount that are the orderer's own, or of which there is one alone by all its digits. */
  exactOnes(
    stated: StatedAmount | undefined,
    { exact, ownExact }: Pick<Candidates, 'exact' | 'ownExact'>,
  ): Entry[] {
    const digits = stated?.digits ?? 0
    const found = digits >= digitsOfOneQuote ? [ownExact, exact] : [ownExact]
    return found.filter((quote): quote is Entry => {
      if (quote === undefined) return false
      if (this.isLive(quote)) return true
      if (digits >= digitsOfOneQuote) return this.counts(quote, 'certain')
      const mayRefuse = digits >= digitsOfOwnQuote && this.asked.isAddress
      return mayRefuse && this.isRecent(quote) && this.counts(quote, 'doubtful')
    })
  }

  /** Of each price the quote that ends last, and the orderer's own, if that one is a candidate as well. */
  withOwn(quotes: readonly Entry[], isCandidate: (own: Entry) => boolean): Entry[] {
    return quotes.flatMap((quote) => {
      const own = this.ledger.byTerms.ownOf(quote, this.asked)
      return own !== undefined && isCandidate(own) ? [quote, own] : quote
    })
  }

  /** It names a quote of the orderer's own before another's, and then the one that ends last. */
  verdict(rule: GuardRule, deciders: readonly Entry[]): Verdict {
    const live = deciders.filter((quote) => this.isLive(quote))
    const alike = live.length > 0 ? live : deciders
    const own = alike.filter((quote) => isOwn(quote, this.asked))
    const quote = lastToEnd(own.length > 0 ? own : alike, this.now)
    if (quote === undefined) return { state: 'unknown', rule }
    if (live.length > 0) return { state: 'live', quote, rule }
    return {
      state: 'expired',
      quote,
      rule,
      expiredForMs: Math.max(0, -orderLeftMs(quote, this.now)),
    }
  }
}
