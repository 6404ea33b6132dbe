import { randomInt } from 'node:crypto'
import { parseDecimal } from '../http/decimal.ts'
import type { NotedQuote } from '../journal/journal.ts'
import { briefText } from '../process/text.ts'
import { createAmountMatcher, doubleText } from './amounts.ts'
import { fold, hash, Terms } from './entries.ts'
import { Few, maxFew } from './last-to-end.ts'
import type { OrderTerms } from './order-terms.ts'

/**
 * The terms of all noted quotes, by pair, application, and each of their two from amounts. An amount is found by its
 * nearest double, and then compared exactly: a JSON number means each decimal that has it.
 */
export class AllTerms {
  readonly #byFrom = new Few<number, Terms>()
  // Random, or a client could choose amounts whose places in a map are those of other clients.
  readonly #seed = randomInt(2 ** 31)

  hash(text: string): number {
    return hash(this.#seed, text)
  }

  of(quote: NotedQuote): Terms {
    const { pairId, application, fromValue, requestedAmount } = quote
    const folded = fold(pairId)
    const fromHash = this.#hashOf(folded, application, fromValue)
    const known = this.#byFrom
      .of(fromHash)
      .find(
        (terms) =>
          terms.requestedAmount === requestedAmount &&
          terms.fromValue === fromValue &&
          terms.application === application &&
          fold(terms.pairId) === folded,
      )
    if (known !== undefined) return known
    const terms = new Terms(quote, hash(hash(fromHash, fromValue), requestedAmount))
    this.#file(fromHash, fromValue, terms)
    const requestedHash = this.#requestedHashOf(terms, fromHash)
    if (requestedHash !== fromHash) this.#file(requestedHash, requestedAmount, terms)
    return terms
  }

  #file(at: number, amount: string, terms: Terms): void {
    // Or a client that asks for many amounts with the nearest double of another client's would hide that one's quotes.
    const mayGo = (known: Terms) => known.requestedAmount !== parseDecimal(String(Number(amount)))
    this.#byFrom.add(at, terms, maxFew, mayGo)
  }

  /** Those of just its amount first: the others only have the same nearest double. */
  meantBy({ pair, fromAmount }: OrderTerms, application: string | undefined): readonly Terms[] {
    if (pair === undefined || application === undefined || fromAmount === undefined) return []
    const folded = fold(briefText(pair))
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
    if (meant.length < 2) return meant
    const isJust = ({ fromValue, requestedAmount }: Terms) =>
      fromValue === canonical || requestedAmount === canonical
    return [...meant.filter(isJust), ...meant.filter((terms) => !isJust(terms))]
  }

  drop(terms: Terms): void {
    const fromHash = this.#hashOf(fold(terms.pairId), terms.application, terms.fromValue)
    this.#byFrom.remove(fromHash, terms)
    const requestedHash = this.#requestedHashOf(terms, fromHash)
    if (requestedHash !== fromHash) this.#byFrom.remove(requestedHash, terms)
  }

  /** Nearly always the client asked for the amount that the quote takes. */
  #requestedHashOf({ pairId, application, fromValue, requestedAmount }: Terms, fromHash: number): number {
    if (requestedAmount === fromValue) return fromHash
    return this.#hashOf(fold(pairId), application, requestedAmount)
  }

  #hashOf(folded: string, application: string, amount: string): number {
    return hash(hash(this.hash(folded), application), doubleText(amount))
  }
}
