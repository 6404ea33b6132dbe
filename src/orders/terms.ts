import { randomInt } from 'node:crypto'
import { type Now, orderLeftMs } from '../clock.ts'
import { parseDecimal } from '../http/decimal.ts'
import type { NotedQuote } from '../journal/journal.ts'
import { createAmountMatcher, doubleText, type StatedAmount } from './amounts.ts'
import { type Entry, fold, hash, later, mix, Terms } from './entries.ts'
import type { Orderer, OrderTerms } from './order-terms.ts'

/** With the same key: honest clients have one. */
const maxFew = 64
/** As many as the prices that the terms of one have. */
const maxOfOneAmount = 1_000
const parts = 16
const none: readonly never[] = []

/**
 * The few items of each key; nearly always it is one, which is kept without an array around it. Sixteen maps in place of
 * one: one of a million entries holds the event loop for a tenth of a second each time that it doubles.
 */
export class Few<Key extends string | number, Item> {
  readonly #parts = Array.from({ length: parts }, () => new Map<Key, Item | Item[]>())

  of(key: Key): readonly Item[] {
    const found = this.#partOf(key).get(key)
    if (found === undefined) return none
    return Array.isArray(found) ? found : [found]
  }

  /** The first goes to make room, of those that may go if there is one. */
  add(key: Key, item: Item, most = maxFew, mayGo?: (item: Item) => boolean): void {
    const part = this.#partOf(key)
    const found = part.get(key)
    if (found === undefined) part.set(key, item)
    else if (!Array.isArray(found)) part.set(key, [found, item])
    else if (found.push(item) > most)
      found.splice(mayGo ? Math.max(0, found.findIndex(mayGo)) : 0, 1)
  }

  /** In its place: a Map looks through all that was deleted under a key until it is built again. */
  replace(key: Key, old: Item, item: Item): void {
    const part = this.#partOf(key)
    const found = part.get(key)
    if (Array.isArray(found)) found[found.indexOf(old)] = item
    else part.set(key, item)
  }

  remove(key: Key, item: Item): void {
    const part = this.#partOf(key)
    const found = part.get(key)
    if (found === item) part.delete(key)
    if (!Array.isArray(found)) return
    const at = found.indexOf(item)
    if (at !== -1) found.splice(at, 1)
    if (found.length === 0) part.delete(key)
  }

  #partOf(key: Key): Map<Key, Item | Item[]> {
    const at =
      typeof key === 'number'
        ? key
        : key.charCodeAt(key.length - 1) + key.charCodeAt(key.length >> 1)
    return this.#parts[(at || 0) & (parts - 1)] as Map<Key, Item | Item[]>
  }
}

/** What an order can mean. Of quotes that are alike, the one that ends last stands for all. */
export interface Candidates {
  /** With the stated toAmount: of any client, and the orderer's own. */
  exact: Entry | undefined
  ownExact: Entry | undefined
  /** The orderer's own, whatever it gives. */
  own: Entry | undefined
  /** An answer for these terms that was given to the orderer and that could not be read. */
  unreadable: Entry | undefined
  /** Of all that it may mean, those whose prices are looked at. */
  readonly terms: readonly Terms[]
}

/** Where the last of those that are alike is found. */
interface Place {
  readonly at: number
  isAlike(other: Entry): boolean
}

/**
 * The terms of all noted quotes, by pair, application, and each of their two from amounts. An amount is found by its
 * nearest double, and then compared exactly: a JSON number means each decimal that has it. A quote is one of the prices
 * that its terms show, or, if others are shown in its place, the last to end of its price, its client and of both.
 */
export class AllTerms {
  readonly #byFrom = new Few<number, Terms>()
  readonly #hidden = new Few<number, Entry>()
  // Random, or a client could choose amounts whose places in a map are those of other clients.
  readonly #seed = randomInt(2 ** 31)

  of(quote: NotedQuote): Terms {
    const { pairId, application, fromValue, requestedAmount } = quote
    const folded = fold(pairId)
    const fromHash = this.#hashOf(folded, application, fromValue)
    const alike = this.#byFrom.of(fromHash)
    const known = alike.find((terms) => terms.are(quote, folded))
    if (known !== undefined && known === alike.at(-1) && fromValue === requestedAmount)
      return known
    const terms =
      known ?? new Terms(quote, hash(hash(fromHash, fromValue), requestedAmount))
    // What is noted comes last, and again where it had to go.
    for (const [at, amount] of this.#hashesOf(terms)) {
      // Or a client that asks for many amounts with the nearest double of another client's would hide that one's quotes.
      const mayGo = (known: Terms) =>
        known.requestedAmount !== parseDecimal(String(Number(amount)))
      this.#byFrom.remove(at, terms)
      this.#byFrom.add(at, terms, maxOfOneAmount, mayGo)
    }
    return terms
  }

  drop(terms: Terms): void {
    for (const at of this.#hashesOf(terms).keys()) this.#byFrom.remove(at, terms)
  }

  /** Of its two amounts; nearly always the client asked for the amount that the quote takes. */
  #hashesOf({
    pairId,
    application,
    fromValue,
    requestedAmount,
  }: Terms): Map<number, string> {
    const amounts = [...new Set([fromValue, requestedAmount])]
    return new Map(
      amounts.map((amount) => [this.#hashOf(fold(pairId), application, amount), amount]),
    )
  }

  #hashOf(folded: string, application: string, amount: string): number {
    return hash(hash(hash(this.#seed, folded), application), doubleText(amount))
  }

  file(entry: Entry, now: Now): void {
    const hidden = entry.isUnreadable ? entry : entry.terms.show(entry, now)
    if (hidden === undefined) return
    for (const place of this.placesOf(hidden)) {
      const alike = this.#hiddenAt(place)
      if (alike === undefined) this.#hidden.add(place.at, hidden)
      else if (orderLeftMs(alike, now) <= orderLeftMs(hidden, now))
        this.#hidden.replace(place.at, alike, hidden)
    }
  }

  #hiddenAt({ at, isAlike }: Place): Entry | undefined {
    return this.#hidden.of(at).find(isAlike)
  }

  unfile(entry: Entry): void {
    for (const { at } of this.placesOf(entry)) this.#hidden.remove(at, entry)
    entry.terms.remove(entry)
  }

  /** Where an entry is found that its terms do not show. Hashes may be equal by chance: what is alike is compared. */
  placesOf(entry: Entry): readonly Place[] {
    const { terms, partition, toValue, isUnreadable } = entry
    const ofBoth = this.#placeOfBoth(terms, toValue, partition)
    if (isUnreadable) return [ofBoth, this.#placeOfPair(fold(terms.pairId), partition)]
    const isOfPrice = (other: Entry) => other.terms === terms && other.toValue === toValue
    const byPrice = { at: hash(terms.hash, doubleText(toValue)), isAlike: isOfPrice }
    if (partition === undefined) return [byPrice]
    const isOfClient = (other: Entry) =>
      other.terms === terms && other.partition === partition && !other.isUnreadable
    return [
      byPrice,
      ofBoth,
      { at: mix(terms.hash, this.#hashOfClient(partition)), isAlike: isOfClient },
    ]
  }

  /** Of a price and a client; of answers that could not be read, which have no price, of their terms and a client. */
  #placeOfBoth(terms: Terms, toValue: string, partition: string | undefined): Place {
    const isAlike = (other: Entry) =>
      other.terms === terms && other.toValue === toValue && other.partition === partition
    return {
      at: mix(hash(terms.hash, doubleText(toValue)), this.#hashOfClient(partition)),
      isAlike,
    }
  }

  /** Of answers that could not be read, whatever amount they were for. */
  #placeOfPair(folded: string, partition: string | undefined): Place {
    const isAlike = (other: Entry) =>
      other.isUnreadable && other.partition === partition && fold(other.pairId) === folded
    return { at: mix(hash(this.#seed, folded), this.#hashOfClient(partition)), isAlike }
  }

  #hashOfClient(partition = ''): number {
    return hash(this.#seed, partition)
  }

  find(
    order: OrderTerms,
    { application, partition }: Orderer,
    stated: StatedAmount | undefined,
    now: Now,
  ): Candidates {
    const all = this.#meantBy(order, application)
    const none = {
      exact: undefined,
      ownExact: undefined,
      own: undefined,
      unreadable: undefined,
    }
    const found: Candidates = { ...none, terms: Terms.upToMost(all) }
    const consider = (entry: Entry) => {
      const isOfClient = entry.partition === partition
      if (entry.isUnreadable) {
        if (isOfClient) found.unreadable = later(found.unreadable, entry, now)
        return
      }
      const isOwn = isOfClient && partition !== undefined
      if (isOwn) found.own = later(found.own, entry, now)
      if (stated?.isExactly(entry) !== true) return
      found.exact = later(found.exact, entry, now)
      if (isOwn) found.ownExact = later(found.ownExact, entry, now)
    }
    const who = this.#hashOfClient(partition)
    for (const terms of all) {
      for (const entry of terms.shown) consider(entry)
      const exactAt = hash(terms.hash, stated?.double ?? '')
      const ofClient = [exactAt, terms.hash, hash(terms.hash, '')].map((at) =>
        mix(at, who),
      )
      for (const at of new Set([exactAt, ...ofClient]))
        for (const entry of this.#hidden.of(at))
          if (entry.terms === terms) consider(entry)
    }
    return found
  }

  /** Those of just its amount first, since the others only have the same nearest double; of each kind the last noted. */
  #meantBy(
    { foldedPair: folded, fromAmount }: OrderTerms,
    application: string,
  ): readonly Terms[] {
    if (folded === undefined || fromAmount === undefined) return []
    const isFrom = createAmountMatcher(fromAmount)
    const { canonical } = fromAmount
    const meant = this.#byFrom
      .of(this.#hashOf(folded, application, canonical))
      .filter(
        (terms) =>
          fold(terms.pairId) === folded &&
          terms.application === application &&
          (isFrom(terms.fromValue) || isFrom(terms.requestedAmount)),
      )
    const isJust = ({ fromValue, requestedAmount }: Terms) =>
      fromValue === canonical || requestedAmount === canonical
    return meant
      .reverse()
      .sort((left, right) => Number(isJust(right)) - Number(isJust(left)))
  }

  /** The orderer's own of the same price. */
  ownOf(same: Entry, { partition }: Orderer): Entry | undefined {
    if (partition === undefined || same.partition === partition) return same
    return this.#hiddenAt(this.#placeOfBoth(same.terms, same.toValue, partition))
  }

  /** An answer for the order's pair that was given to the orderer and that could not be read. */
  findUnreadable({ foldedPair }: OrderTerms, { partition }: Orderer): Entry | undefined {
    if (foldedPair === undefined) return undefined
    return this.#hiddenAt(this.#placeOfPair(foldedPair, partition))
  }

  /** The answer to the same request of the same client that could not be read either. */
  unreadableLike(quote: NotedQuote): Entry | undefined {
    return this.#hiddenAt(this.#placeOfBoth(this.of(quote), '', quote.partition))
  }
}
