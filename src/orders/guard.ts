import type { Now } from '../clock.ts'
import { lastToEnd, orderLeftMs } from '../quotes/ends.ts'
import type { Note } from '../quotes/note.ts'
import type { Orderer, OrderTerms } from './order-terms.ts'
import { type KnownQuote, type KnownQuotes, recentMs, rememberedMs } from './ports.ts'
import { type StatedAmount, statedAmountOf } from './stated-amount.ts'

/**
 * The rules in words: the five of docs/orders.md (`any` is part of the fourth), then three doubts. An unreadable quote
 * decides within rules 1 and 2, before a live quote of another amount may. The other two keep an expired quote from
 * refusing.
 */
const how = {
  id: 'The order names a quote.',
  exact: 'The order states the toAmount of a quote.',
  pays: 'A live quote gives at least what the order states.',
  fallen:
    'No live quote gives what the order states, and one of the same user that is over gave just that.',
  any: 'The order has the pair and fromAmount of a live quote.',
  none: 'No live quote has the pair and fromAmount of the order.',
  unreadable:
    'The caller received a quote that the gateway could not read, and the order may be for that quote.',
  'store-away': 'The shared store is down, and no quote of this replica decides.',
  restored:
    'Only quotes from before the restart match: some may be missing, or the clock may be wrong.',
} as const
export type GuardRule = keyof typeof how
type Doubt = Extract<GuardRule, 'unreadable' | 'store-away' | 'restored'>
export const guardRules = Object.keys(how) as GuardRule[]

export type Verdict =
  | { state: 'live'; quote: Note; rule: GuardRule }
  // 0 within the margin, before the end itself.
  | { state: 'expired'; quote: Note; rule: GuardRule; expiredForMs: number }
  | { state: 'unknown'; rule: GuardRule }

/** What an order is judged by, beside its terms. */
interface Judging extends Orderer {
  /** A quote with this much time left, or less, counts as past. */
  readonly marginMs: number
  /** Whether the ledger holds every quote of any replica that the order may mean. */
  readonly othersKnown: boolean
}

/** `reported-expired`: sent because of ORDER_EXPIRED_QUOTE=report. */
export type FloatOrderDecision =
  | 'forwarded-live'
  | 'forwarded-unknown'
  | 'reported-expired'
  | 'refused-expired'
  | 'refused-unknown'

/** Two prices of one day do not agree in eight digits by chance. */
const digitsOfOneQuote = 8
/** Two prices of one address within 15 minutes do not agree in six digits by chance. */
const digitsOfOwnQuote = 6
/** Two prices that are rounded to five digits hardly agree by chance. */
const digitsToRound = 5
/** An order that gets a connection at once is sent within this time, mostly within a tenth of it. */
const judgedOnceMs = 20
/** A waiting order is judged at least this often: other replicas note quotes meanwhile. */
const maxMs = 1_000

/** A verdict and its time, by the wall clock and by the ledger's timers. */
interface Judged {
  readonly verdict: Verdict
  readonly nowMs: number
  readonly judgedAtMs: number
}

/** All that a float order is judged by, so that it can be judged again without the shared store. */
export class FloatOrder {
  readonly terms: OrderTerms
  readonly judging: Judging
  readonly #known: KnownQuotes
  readonly #stated: StatedAmount | undefined
  #judged: Judged

  constructor(terms: OrderTerms, judging: Judging, known: KnownQuotes) {
    this.terms = terms
    this.judging = judging
    this.#known = known
    this.#stated = statedAmountOf(terms.toAmount)
    this.#judged = this.#judge()
  }

  #judge(): Judged {
    const now = this.#known.now()
    const judgedAtMs = this.#known.timers.steadyMs()
    return { verdict: this.#verdictAt(now), nowMs: now.nowMs, judgedAtMs }
  }

  /** `quote`: the quote that the order uses, or that is too old for it. */
  get verdict(): Verdict {
    return this.#judged.verdict
  }

  /** How old the quote was when the order was judged. */
  get quoteAgeMs(): number | undefined {
    return this.quote && Math.max(0, this.#judged.nowMs - this.quote.notedAtMs)
  }

  #verdictAt(now: Now): Verdict {
    const inputs = { known: this.#known, order: this.terms, stated: this.#stated, now }
    const verdict = new Judgement({
      ...inputs,
      judging: this.judging,
      restoredMayRefuse: true,
    }).verdict
    if (verdict.state !== 'expired') return verdict
    // A later quote of another replica may have the same terms and still be live.
    if (!this.judging.othersKnown && verdict.rule !== 'id')
      return { state: 'unknown', rule: 'store-away' }
    if (!this.#known.doubtsRestored) return verdict
    const certain = new Judgement({
      ...inputs,
      judging: this.judging,
      restoredMayRefuse: false,
    }).verdict
    return certain.state === 'unknown' ? { state: 'unknown', rule: 'restored' } : certain
  }

  /**
   * An order that waits for a connection is judged again when its quote ends and when it is sent. Returns the ms until
   * the next call.
   */
  judgeAgain(): number {
    let liveForMs = this.#liveForMs()
    const hasWaited =
      this.#known.timers.steadyMs() - this.#judged.judgedAtMs >= judgedOnceMs
    if (hasWaited || liveForMs <= 0) {
      this.#judged = this.#judge()
      liveForMs = this.#liveForMs()
    }
    // The quote may end between the two looks at the clock.
    return Math.min(maxMs, Math.max(1, Math.ceil(liveForMs)))
  }

  /** How long the live quote still allows sending the order. Infinity: no live quote decided. */
  #liveForMs(): number {
    const { verdict } = this
    if (verdict.state !== 'live') return Number.POSITIVE_INFINITY
    return orderLeftMs(verdict.quote, this.#known.now()) - this.judging.marginMs
  }

  /** The quote that the order uses when it is sent. */
  get quote(): Note | undefined {
    return 'quote' in this.verdict ? this.verdict.quote : undefined
  }

  /** Why the order may mean a live quote that is not known here: it is sent even with ORDER_UNKNOWN_QUOTE=refuse. */
  get doubt(): Doubt | undefined {
    if (!this.judging.othersKnown) return 'store-away'
    const { rule } = this.verdict
    return rule === 'unreadable' || rule === 'restored' || rule === 'store-away'
      ? rule
      : undefined
  }

  get why(): string {
    const { rule, state } = this.verdict
    if (state !== 'unknown') return `${how[rule]} The quote is ${state}.`
    if (rule === 'id') return 'The order names a quote that this gateway has not seen.'
    return how[this.doubt ?? rule]
  }

  /** The quotes that the guard decides among now, for operators who ask why. */
  considered(): {
    readonly quote: Note
    readonly leftMs: number
    readonly isOwn: boolean
  }[] {
    const now = this.#known.now()
    const named = this.#known.named(this.terms.quoteIds)
    const isNamed = named.length > 0 || namesAnothers(this.terms)
    const meant = isNamed
      ? named
      : this.#known
          .offersFor(this.terms)
          .flatMap((offers) => offers.meantBy(this.judging, this.#stated))
    return [...new Set(meant)].map((quote) => ({
      quote,
      leftMs: orderLeftMs(quote, now),
      isOwn: isOwn(quote, this.judging),
    }))
  }
}

/**
 * Whether the order names a quote of another source, if the quote is not known here. A bare `id` may be a number of the
 * caller's own.
 */
function namesAnothers({ quoteIds }: OrderTerms): boolean {
  return quoteIds.some(({ isBare }) => !isBare)
}

function isOwn({ partition }: Note, orderer: Orderer): boolean {
  return partition !== undefined && partition === orderer.partition
}

interface JudgementInputs {
  readonly known: KnownQuotes
  readonly order: OrderTerms
  readonly stated: StatedAmount | undefined
  readonly judging: Judging
  readonly now: Now
  /**
   * False: a crash may have lost newer quotes. A restored quote then refuses only an order that names it, or states its
   * amount to eight digits.
   */
  readonly restoredMayRefuse: boolean
}

/** One order and the quotes that it may mean, at one instant. */
class Judgement {
  readonly #inputs: JudgementInputs
  readonly #digits: number
  /** The live quotes of the order's pair and amount, of any application. */
  readonly #live: KnownQuote[] = []
  /** The past quotes of the order's application that may refuse it. */
  readonly #past: KnownQuote[] = []
  /** Whether live quotes exist beyond those that are looked through. */
  #hasMore = false

  constructor(inputs: JudgementInputs) {
    this.#inputs = inputs
    this.#digits = inputs.stated?.digits ?? 0
  }

  /** The first rule that applies decides. */
  get verdict(): Verdict {
    const named = this.#named()
    if (named !== undefined) return named
    this.#find()
    return this.#exact() ?? this.#pays() ?? this.#fallen() ?? this.#none()
  }

  /** 1. The order names a quote, which decides. */
  #named(): Verdict | undefined {
    const { judging, known, order } = this.#inputs
    const named = known.named(order.quoteIds).filter((quote) => this.#isRemembered(quote))
    if (named.length > 0) return this.#by('id', named)
    if (!namesAnothers(order)) return undefined
    const unreadable = known.unreadableOfPair(order, judging)
    return { state: 'unknown', rule: this.#isOpen(unreadable) ? 'unreadable' : 'id' }
  }

  #find(): void {
    const { judging, known, order, stated } = this.#inputs
    for (const offers of known.offersFor(order)) {
      const { unlisted } = offers
      for (const quote of offers.meantBy(judging, stated))
        if (this.#isLive(quote)) this.#live.push(quote)
        else if (this.#mayRefuse(quote)) this.#past.push(quote)
      if (unlisted === undefined || !this.#isLive(unlisted)) continue
      this.#live.push(unlisted)
      this.#hasMore = true
    }
  }

  /**
   * 2. A live quote has exactly the stated amount. Otherwise nothing is known if the orderer was given an answer that
   * could not be read. Otherwise a quote that ended within 15 minutes had the amount: with six digits a quote of the
   * orderer's own address, with eight any quote.
   */
  #exact(): Verdict | undefined {
    const { judging, known, order } = this.#inputs
    const live = this.#live.filter((quote) => this.#isExactly(quote))
    if (live.length > 0) return this.#by('exact', live)
    if (this.#isOpen(known.unreadableFor(order, judging)))
      return { state: 'unknown', rule: 'unreadable' }

    const refuses = (quote: KnownQuote) =>
      this.#digits >= digitsOfOneQuote ||
      (this.#digits >= digitsOfOwnQuote && this.#isOfAddress(quote))
    const past = this.#past.filter(
      (quote) => this.#isExactly(quote) && this.#isRecent(quote) && refuses(quote),
    )
    return this.#by('exact', past)
  }

  /** 3. A live quote pays what the order states. */
  #pays(): Verdict | undefined {
    const { stated } = this.#inputs
    const paying = this.#live.filter(
      (quote) => stated === undefined || stated.isPaidBy(quote) || this.#isRounded(quote),
    )
    return this.#by('pays', paying)
  }

  /** 4. The orderer was given the stated price, which has fallen since. Otherwise the order may mean any live quote. */
  #fallen(): Verdict | undefined {
    const fallen = this.#past.filter(
      (quote) =>
        this.#isStated(quote) && this.#isRecent(quote) && this.#isOfAddress(quote),
    )
    if (fallen.length > 0 && !this.#hasMore) return this.#by('fallen', fallen)
    return this.#by('any', this.#live)
  }

  /**
   * 5. No quote is live. A past one refuses if it is the orderer's own, has the stated amount, or if no amount is
   * stated.
   */
  #none(): Verdict {
    const { judging, stated } = this.#inputs
    const refusing = this.#past.filter(
      (quote) => stated === undefined || isOwn(quote, judging) || this.#isStated(quote),
    )
    return this.#by('none', refusing) ?? { state: 'unknown', rule: 'none' }
  }

  #isExactly(quote: KnownQuote): boolean {
    return this.#inputs.stated?.isExactly(quote) === true
  }

  #isRounded(quote: KnownQuote): boolean {
    const { stated } = this.#inputs
    return this.#digits >= digitsToRound && stated?.isRounded(quote) === true
  }

  /** Exactly or rounded, in enough digits to rule out chance. */
  #isStated(quote: KnownQuote): boolean {
    if (this.#digits < digitsToRound) return false
    return this.#isExactly(quote) || this.#isRounded(quote)
  }

  #isLive(quote: KnownQuote): boolean {
    const { judging, now } = this.#inputs
    return orderLeftMs(quote, now) > judging.marginMs
  }

  #mayRefuse(quote: KnownQuote): boolean {
    if (quote.application !== this.#inputs.judging.application) return false
    return this.#isRemembered(quote) && this.#isTrusted(quote)
  }

  #isRemembered(quote: KnownQuote): boolean {
    return orderLeftMs(quote, this.#inputs.now) > -rememberedMs
  }

  #isRecent(quote: KnownQuote): boolean {
    return orderLeftMs(quote, this.#inputs.now) > -recentMs
  }

  /** Without the margin, because an unreadable answer refuses no order. */
  #isOpen(unreadable: KnownQuote | undefined): boolean {
    return unreadable !== undefined && orderLeftMs(unreadable, this.#inputs.now) > 0
  }

  #isTrusted(quote: KnownQuote): boolean {
    if (this.#inputs.restoredMayRefuse || quote.origin !== 'restored') return true
    return this.#digits >= digitsOfOneQuote && this.#isExactly(quote)
  }

  /** Whether the quote was given to the orderer's own address: a place has many users. */
  #isOfAddress(quote: KnownQuote): boolean {
    const { judging } = this.#inputs
    return judging.isAddress && isOwn(quote, judging)
  }

  /**
   * Among the quotes that decide by this rule, a live one goes before a past one. The orderer's own goes
   * before another of the same kind, then a quote of the same application, then the last to end.
   */
  #by(rule: GuardRule, deciders: readonly KnownQuote[]): Verdict | undefined {
    const { judging, now } = this.#inputs
    const live = deciders.filter((quote) => this.#isLive(quote))
    const alike = live.length > 0 ? live : deciders
    const own = preferred(alike, (quote) => isOwn(quote, judging))
    const best = preferred(own, ({ application }) => application === judging.application)
    const quote = lastToEnd(best, now)
    if (quote === undefined) return undefined
    if (live.length > 0) return { state: 'live', quote, rule }
    const expiredForMs = Math.max(0, -orderLeftMs(quote, now))
    return { state: 'expired', quote, rule, expiredForMs }
  }
}

function preferred(
  quotes: readonly KnownQuote[],
  isPreferred: (quote: KnownQuote) => boolean,
): readonly KnownQuote[] {
  const passing = quotes.filter(isPreferred)
  return passing.length > 0 ? passing : quotes
}
