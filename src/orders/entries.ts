import { type Ending, type Now, orderLeftMs } from '../clock.ts'
import type { NotedQuote } from '../journal/journal.ts'
import type { Price } from './amounts.ts'

export function lastToEnd<Item extends Ending>(
  items: readonly Item[],
  now: Now,
): Item | undefined {
  let last: Item | undefined
  for (const item of items) last = later(last, item, now)
  return last
}

/** Of two that end at once the first. */
export function later<Item extends Ending>(
  one: Item | undefined,
  other: Item,
  now: Now,
): Item {
  if (one === undefined) return other
  return orderLeftMs(other, now) > orderLeftMs(one, now) ? other : one
}

/** Who noted it: this process, another one whose record was delivered, or an earlier process over the same folder. */
export type Origin = 'own' | 'delivered' | 'restored'

export function isUnreadable({ toValue }: Pick<NotedQuote, 'toValue'>): boolean {
  return toValue === ''
}

/**
 * What the ledger keeps: a quote, or an answer that could not be read, which has no id and no toAmount. What its terms
 * have is kept there, because there are many.
 */
export class Entry implements NotedQuote, Price {
  readonly terms: Terms
  readonly id: string
  readonly partition: string | undefined
  readonly toValue: string
  readonly double: number
  readonly expiresAtMs: number
  readonly wallAheadMs: number
  refusedFromMs: number
  notedAtMs: number
  cacheKey: string
  origin: Origin = 'own'
  /** The last generation of the journal that has it (`journal/journal.ts`). */
  generation = 0

  constructor(terms: Terms, quote: NotedQuote) {
    this.terms = terms
    this.id = quote.id
    this.partition = quote.partition
    this.toValue = quote.toValue
    this.double = Number(quote.toValue)
    this.expiresAtMs = quote.expiresAtMs
    this.wallAheadMs = quote.wallAheadMs
    this.refusedFromMs = quote.refusedFromMs
    this.notedAtMs = quote.notedAtMs
    this.cacheKey = quote.cacheKey
  }

  get pairId(): string {
    return this.terms.pairId
  }

  get application(): string {
    return this.terms.application
  }

  get fromValue(): string {
    return this.terms.fromValue
  }

  get requestedAmount(): string {
    return this.terms.requestedAmount
  }

  get isUnreadable(): boolean {
    return isUnreadable(this)
  }

  /** An answer to the same request could not be read either: the later of their two ends counts. */
  renewedAs(quote: NotedQuote): this {
    this.notedAtMs = quote.notedAtMs
    this.refusedFromMs = Math.max(this.refusedFromMs, this.refusedFromOf(quote))
    return this
  }

  /**
   * From when the other one is refused, by the wall clock as it was when this one was noted: it may have been set since.
   * Whole milliseconds, because each look at two clocks is off by part of one.
   */
  refusedFromOf({ refusedFromMs, wallAheadMs }: NotedQuote): number {
    return Math.ceil(refusedFromMs - wallAheadMs + this.wallAheadMs)
  }

  /** Whether it is this quote, given to the same client. Once it is over, its cache key is not known. */
  is(quote: NotedQuote): boolean {
    return (
      this.expiresAtMs === quote.expiresAtMs &&
      this.partition === quote.partition &&
      this.toValue === quote.toValue &&
      (this.cacheKey === quote.cacheKey ||
        this.cacheKey === '' ||
        quote.cacheKey === '') &&
      this.terms.are(quote, fold(quote.pairId))
    )
  }
}

/** Pairs are compared without regard to case. */
export function fold(pair: string): string {
  return pair.toUpperCase()
}

/** FNV-1a over UTF-16 units. Different parts may have one hash, because what is found by it is compared. */
export function hash(seed: number, text: string): number {
  let state = seed ^ 0x811c9dc5
  for (let index = 0; index < text.length; index += 1)
    state = mix(state, text.charCodeAt(index))
  return state
}

export function mix(left: number, right: number): number {
  return Math.imul(left ^ right, 0x01000193)
}

const maxPrices = 1_000

/**
 * What quotes have in common that an order may mean: a pair, an application, and the two from amounts. Shows their last
 * 1,000 prices, and of each the quote that ends last.
 */
export class Terms {
  readonly pairId: string
  readonly application: string
  readonly fromValue: string
  readonly requestedAmount: string
  readonly hash: number
  quotes = 0
  /** What was shown last comes last. A list that is not changed: most have one quote, and room for no more. */
  shown: readonly Entry[] = []

  constructor(
    { pairId, application, fromValue, requestedAmount }: NotedQuote,
    hash: number,
  ) {
    this.pairId = pairId
    this.application = application
    this.fromValue = fromValue
    this.requestedAmount = requestedAmount
    this.hash = hash
  }

  /** Of several, which have one nearest double, no more prices than one may have: each is looked at for an order. */
  static upToMost(all: readonly Terms[]): Terms[] {
    let seen = 0
    return all.filter(({ shown }) => {
      seen += shown.length
      return seen - shown.length < maxPrices
    })
  }

  are(quote: NotedQuote, foldedPair: string): boolean {
    return (
      this.requestedAmount === quote.requestedAmount &&
      this.fromValue === quote.fromValue &&
      this.application === quote.application &&
      fold(this.pairId) === foldedPair
    )
  }

  /**
   * In place of one of the same price that ends before it. Returns the one that is not shown because of it, unless that
   * one would never decide: it is of the same client, ends before the other one and is forgotten before it.
   */
  show(quote: Entry, now: Now): Entry | undefined {
    // Numbers first: a price is looked for among a thousand.
    const isOfPrice = ({ double, toValue }: Entry) =>
      double === quote.double && toValue === quote.toValue
    const known = this.shown.findLast(isOfPrice)
    if (known === undefined) {
      const [first] = this.shown
      const isFull = this.shown.length === maxPrices
      this.shown = isFull ? [...this.shown.slice(1), quote] : [...this.shown, quote]
      return isFull ? first : undefined
    }
    const last = later(quote, known, now)
    this.remove(known)
    this.shown = [...this.shown, last]
    const other = last === quote ? known : quote
    return last === quote && known.partition === quote.partition ? undefined : other
  }

  remove(quote: Entry): void {
    this.shown = this.shown.filter((one) => one !== quote)
  }
}
