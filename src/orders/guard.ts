import { type Now, orderLeftMs } from '../clock.ts'
import type { NotedQuote } from '../journal/journal.ts'
import { type Price, type StatedAmount, statedAmountOf } from './amounts.ts'
import { type Entry, lastToEnd, later } from './entries.ts'
import type { Ledger } from './ledger.ts'
import type { Orderer, OrderTerms } from './order-terms.ts'
import type { Candidates } from './terms.ts'

/**
 * What decided about an order, the six rules first (docs/orders.md):
 * - `id`: it names a quote, known here or not.
 * - `exact`: quotes with the toAmount that it states.
 * - `pays`: a live quote that gives at least what it states.
 * - `fallen`: no live quote does, and one that is over shortly gave just that.
 * - `any`: some live quote. `none`: no live quote.
 * - `unreadable`: its client was given an answer that could not be read.
 * - `store-away`, `restored`: it would have been refused, but a quote that is not known here may be meant: one of another
 *   replica, or one that was lost with an earlier process.
 */
export const guardRules = [
  'id',
  'exact',
  'pays',
  'fallen',
  'any',
  'none',
  'unreadable',
  'store-away',
  'restored',
] as const
export type GuardRule = (typeof guardRules)[number]

export type Verdict =
  | { state: 'live'; quote: NotedQuote; rule: GuardRule }
  // `expiredForMs` is 0 between the start of the margin and the end itself.
  | { state: 'expired'; quote: NotedQuote; rule: GuardRule; expiredForMs: number }
  | { state: 'unknown'; rule: GuardRule }

export interface Asked extends Orderer {
  /** A quote counts as over when it has this much time left, or less. */
  readonly marginMs: number
  /** Whether the ledger holds every quote of any replica that the order may mean. */
  readonly othersKnown: boolean
}

/** How long a quote that is over refuses an order by its amount alone. */
const recentMs = 900_000
/**
 * So many digits are not equal by chance: in a day of all clients' prices, in a quarter of an hour of one's own, rounded.
 */
const digitsOfOneQuote = 8
const digitsOfOwnQuote = 6
const digitsToRound = 5

/** Judges an order as of now. Of several quotes the one that lives decides, and of those that ends last. */
export function decide(ledger: Ledger, order: OrderTerms, asked: Asked, now: Now): Verdict {
  const verdict = judge(order, new Sight(ledger, asked, now, { trustsAll: true }))
  if (verdict.state !== 'expired') return verdict
  // Later quotes often have the same terms, and another replica may have relayed one that is still live.
  if (!asked.othersKnown && verdict.rule !== 'id') return { state: 'unknown', rule: 'store-away' }
  if (!ledger.doubtsRestored) return verdict
  const certain = judge(order, new Sight(ledger, asked, now, { trustsAll: false }))
  return certain.state === 'unknown' ? { state: 'unknown', rule: 'restored' } : certain
}

function judge(order: OrderTerms, sight: Sight): Verdict {
  const { ledger, asked, now } = sight
  // 1. It names a quote.
  const named = order.quoteIds.flatMap(({ id }) => ledger.named(id, asked, now))
  const known = named.filter((quote) => sight.counts(quote, 'certain'))
  if (known.length > 0) return sight.verdict('id', known)
  if (namesAnothers(order))
    return {
      state: 'unknown',
      rule: sight.isOpen(ledger.byTerms.findUnreadable(order, asked)) ? 'unreadable' : 'id',
    }

  const stated = statedAmountOf(order)
  const { exact, ownExact, own, terms, unreadable } = ledger.byTerms.find(order, asked, stated, now)
  // 2. Quotes with exactly its amount.
  const exactOnes = sight.exactOnes(stated, { exact, ownExact })
  if (sight.isOpen(unreadable) && !exactOnes.some((quote) => sight.isLive(quote)))
    return { state: 'unknown', rule: 'unreadable' }
  if (exactOnes.length > 0) return sight.verdict('exact', exactOnes)

  // 3. A live quote pays it. An own one that ends last is named before all others, and then nothing more is looked at.
  const pays = (quote: Entry) => stated === undefined || paysOrRounds(quote, stated)
  const hasOwnLive = sight.isLive(own)
  const counts = (quote: Entry) => sight.counts(quote, 'doubtful')
  if (own !== undefined && hasOwnLive && pays(own)) return sight.verdict('pays', [own])
  const { live, paying, past, stating } = survey(terms, { sight, pays, stated })
  if (paying.length > 0) return sight.verdict('pays', hasOwnLive ? sight.withOwn(paying, () => true) : paying)
  // 4. The price has fallen since.
  const fallen = stating.filter((quote) => sight.isRecent(quote))
  if (fallen.length > 0)
    return sight.verdict(
      'fallen',
      sight.withOwn(fallen, (quote) => sight.isRecent(quote) && counts(quote)),
    )
  // 5. Any quote lives.
  if (own !== undefined && hasOwnLive) return sight.verdict('any', [own])
  if (live !== undefined) return sight.verdict('any', [live])
  // 6. None does.
  if (own !== undefined && counts(own)) return sight.verdict('none', [own])
  if (stated === undefined && past !== undefined) return sight.verdict('none', [past])
  if (stating.length > 0) return sight.verdict('none', sight.withOwn(stating, counts))
  return { state: 'unknown', rule: 'none' }
}

/** Of an order that names no quote known here: another source's quote, unless it may be a number of the client's own. */
export function namesAnothers({ quoteIds }: OrderTerms): boolean {
  return quoteIds.some(({ isBare }) => !isBare)
}

/** One look at all prices: the live ones that pay, the past ones that are stated, and of both kinds the last to end. */
function survey(
  terms: Candidates['terms'],
  { sight, pays, stated }: { sight: Sight; pays(quote: Entry): boolean; stated: StatedAmount | undefined },
) {
  const paying: Entry[] = []
  const stating: Entry[] = []
  let live: Entry | undefined
  let past: Entry | undefined
  for (const { shown } of terms) {
    for (const quote of shown) {
      if (sight.isLive(quote)) {
        live = later(live, quote, sight.now)
        if (pays(quote)) paying.push(quote)
      } else if (sight.counts(quote, 'doubtful')) {
        past = later(past, quote, sight.now)
        if (stated !== undefined && isStated(quote, stated)) stating.push(quote)
      }
    }
  }
  return { live, paying, past, stating }
}

function paysOrRounds(price: Price, stated: StatedAmount): boolean {
  return stated.isPaidBy(price) || isRounded(price, stated)
}

function isStated(price: Price, stated: StatedAmount): boolean {
  return stated.isExactly(price) || isRounded(price, stated)
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

  constructor(ledger: Ledger, asked: Asked, now: Now, { trustsAll }: { trustsAll: boolean }) {
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
    if (this.isLive(quote)) return true
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
    const own = alike.filter(({ partition }) => partition !== undefined && partition === this.asked.partition)
    const quote = lastToEnd(own.length > 0 ? own : alike, this.now)
    if (quote === undefined) return { state: 'unknown', rule }
    if (live.length > 0) return { state: 'live', quote, rule }
    return { state: 'expired', quote, rule, expiredForMs: Math.max(0, -orderLeftMs(quote, this.now)) }
  }
}
