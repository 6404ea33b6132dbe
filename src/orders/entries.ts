import type { Now } from '../clock.ts'
import type { NotedQuote } from '../journal/journal.ts'
import { doubleText, type Price } from './amounts.ts'
import { later } from './last-to-end.ts'

/** What an order can mean. Of quotes that are alike, the one that ends last stands for all. */
export interface Candidates {
  /** With the stated toAmount: of any client, and the orderer's own. */
  readonly exact: Entry | undefined
  readonly ownExact: Entry | undefined
  /** The orderer's own, whatever it gives. */
  readonly own: Entry | undefined
  /** Of all that it may mean, those whose prices are looked at. */
  readonly terms: readonly Terms[]
  /** The orderer's own of the same price. */
  ownOf(alike: Entry): Entry | undefined
  /** An answer for these terms that was given to the orderer and that could not be read. */
  readonly unreadable: Entry | undefined
}

const noLongerCached = ''

/** Who noted it: this process, another one whose record was delivered, or an earlier process over the same folder. */
export type Origin = 'own' | 'delivered' | 'restored'

export function isUnreadable({ toValue }: Pick<NotedQuote, 'toValue'>): boolean {
  return toValue === ''
}

/**
 * What the ledger keeps: a quote, or an answer that could not be read, which has no id and no toAmount. It has what its
 * terms do not have, and small numbers in place of instants, because there are many.
 */
export class Entry implements NotedQuote, Price {
  readonly terms: Terms
  readonly id: string
  readonly partition: string | undefined
  readonly toValue: string
  readonly double: number
  readonly expiresAtMs: number
  readonly wallAheadMs: number
  cacheKey: string
  origin: Origin = 'own'
  /** The last generation of the journal that has it (`journal/journal.ts`). */
  generation = 0
  #lifeMs: number
  #refusedLateMs: number

  constructor(terms: Terms, quote: NotedQuote) {
    this.terms = terms
    this.id = quote.id
    this.partition = quote.partition
    this.toValue = quote.toValue
    this.double = Number(quote.toValue)
    this.expiresAtMs = quote.expiresAtMs
    this.wallAheadMs = quote.wallAheadMs
    this.cacheKey = quote.cacheKey
    this.#lifeMs = quote.expiresAtMs - quote.notedAtMs
    this.#refusedLateMs = quote.refusedFromMs - quote.expiresAtMs
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

  get hash(): number {
    return hash(this.terms.hash, doubleText(this.toValue))
  }

  get decimal(): string {
    return this.toValue
  }

  get notedAtMs(): number {
    return this.expiresAtMs - this.#lifeMs
  }

  get refusedFromMs(): number {
    return this.expiresAtMs + this.#refusedLateMs
  }

  set refusedFromMs(instantMs: number) {
    this.#refusedLateMs = instantMs - this.expiresAtMs
  }

  get isUnreadable(): boolean {
    return isUnreadable(this)
  }

  /** An answer to the same request could not be read either: the later of their two ends counts. */
  renewedAs(quote: NotedQuote): this {
    this.#lifeMs = this.expiresAtMs - quote.notedAtMs
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

  /** Whether the pair of its request was this one, and it was given to this partition. */
  isFor(foldedPair: string, partition: string | undefined): boolean {
    return this.partition === partition && fold(this.pairId) === foldedPair
  }

  /** Cache keys take a good part of the memory. */
  forgetCacheKey(): void {
    this.cacheKey = noLongerCached
  }

  /** Whether it is this quote, given to the same client. */
  is(quote: NotedQuote): boolean {
    return (
      this.expiresAtMs === quote.expiresAtMs &&
      this.partition === quote.partition &&
      this.toValue === quote.toValue &&
      (this.cacheKey === quote.cacheKey || this.cacheKey === noLongerCached || quote.cacheKey === '') &&
      this.requestedAmount === quote.requestedAmount &&
      this.fromValue === quote.fromValue &&
      this.application === quote.application &&
      fold(this.pairId) === fold(quote.pairId)
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
  for (let index = 0; index < text.length; index += 1) state = mix(state, text.charCodeAt(index))
  return state
}

export function mix(left: number, right: number): number {
  return Math.imul(left ^ right, 0x01000193)
}

const maxPrices = 1_000

/**
 * What quotes have in common that an order may mean: a pair, an application, and the two from amounts. Shows their last
 * 1,000 prices, and of each the quote that ends last. Most terms have one, which takes no Map.
 */
export class Terms {
  readonly pairId: string
  readonly application: string
  readonly fromValue: string
  readonly requestedAmount: string
  readonly hash: number
  quotes = 0
  #only: Entry | undefined
  #all: Map<string, Entry> | undefined

  constructor({ pairId, application, fromValue, requestedAmount }: NotedQuote, hash: number) {
    this.pairId = pairId
    this.application = application
    this.fromValue = fromValue
    this.requestedAmount = requestedAmount
    this.hash = hash
  }

  /** Of several, which have one nearest double, no more prices than one may have: each is looked at for an order. */
  static upToMost(all: readonly Terms[]): Terms[] {
    let seen = 0
    return all.filter(({ size }) => {
      seen += size
      return seen - size < maxPrices
    })
  }

  get size(): number {
    return this.#all?.size ?? (this.#only === undefined ? 0 : 1)
  }

  #get(price: string): Entry | undefined {
    if (this.#all !== undefined) return this.#all.get(price)
    return this.#only?.toValue === price ? this.#only : undefined
  }

  /**
   * In place of one of the same price that ends before it. What was shown last comes last. Returns the one that is not
   * shown because of it, unless that one would never decide.
   */
  show(quote: Entry, now: Now): Entry | undefined {
    const known = this.#get(quote.toValue)
    const last = later(quote, known, now) ?? quote
    const oldest = this.#set(last)
    if (known === undefined) return oldest
    const other = last === quote ? known : quote
    return other.partition === last.partition ? undefined : other
  }

  /** Returns the oldest, if it had to make room. */
  #set(quote: Entry): Entry | undefined {
    const only = this.#only
    if (this.#all === undefined && (only === undefined || only.toValue === quote.toValue)) {
      this.#only = quote
      return undefined
    }
    this.#all ??= new Map(only && [[only.toValue, only]])
    this.#only = undefined
    this.#all.delete(quote.toValue)
    this.#all.set(quote.toValue, quote)
    if (this.#all.size <= maxPrices) return undefined
    const [oldest] = this.#all.values()
    if (oldest !== undefined) this.#all.delete(oldest.toValue)
    return oldest
  }

  remove(quote: Entry): void {
    if (this.#only === quote) this.#only = undefined
    if (this.#all?.get(quote.toValue) === quote) this.#all.delete(quote.toValue)
  }

  get shown(): Iterable<Entry> {
    return this.#all?.values() ?? (this.#only === undefined ? [] : [this.#only])
  }
}

/** How long an answer that cannot be read is taken to live where no quote was read that tells. */
const defaultLifeMs = 300_000
const livesRemembered = 100

/** How long the quotes lived that were noted last. */
export class Lives {
  readonly #livesMs: number[] = []
  #noted = 0

  get longestMs(): number {
    return this.#noted === 0 ? defaultLifeMs : Math.max(...this.#livesMs)
  }

  note({ refusedFromMs, notedAtMs }: NotedQuote): void {
    const lifeMs = refusedFromMs - notedAtMs
    // A quote that was over when it came says nothing of how long quotes live.
    if (lifeMs > 0) this.#livesMs[this.#noted++ % livesRemembered] = lifeMs
  }
}
