import type { Difference, Ending, Now } from '../clock.ts'
import type { Events } from '../events.ts'
import { cutMs, type DatedAnswer, differenceOf, lagMs, readDate } from './clock-difference.ts'

/** When a quote is over. Computed once, when its answer arrives, and compared with our two clocks from then on. */
export interface End extends Ending {
  /** The quote is served until this instant of our wall clock, and an order for it is refused from `refusedFromMs` on. */
  readonly servedUntilMs: number
}

/**
 * How long the quote may still be served: until either of our clocks is past its end. A step of one serves nothing late.
 */
export function serveLeftMs(end: Omit<End, 'refusedFromMs'>, { nowMs, steadyMs }: Now): number {
  return end.servedUntilMs - Math.max(nowMs, steadyMs + end.wallAheadMs)
}

/** No provider gives quotes that are over or that live longer: who says so is wrong about the time. */
const maxLifeMs = 86_400_000
/** A slower answer cannot show that the two clocks agree. */
const promptMs = 1_000
/** How long an answer whose `Date` contradicts our clock is remembered, at least: this long, and so many answers. */
const contradictedForMs = 60_000
const contradictedForAnswers = 50
/**
 * A witness that has said for so long that a quote is over is enough to refuse, or a frozen `Date` would end all
 * refusals.
 */
const alonePastMs = 60_000

/**
 * Two witnesses say when a quote is over: our wall clock against its `expiry`, and the life that its answer states,
 * `expiry` less its own `Date`, counted on our steady clock. It is served while both say that it lives, and refused when
 * both say that it is over. While no `Date` contradicts our clock, that decides alone, to the millisecond.
 */
export class Ends {
  readonly #events: Events
  #contradictedSteadyMs = Number.NEGATIVE_INFINITY
  #answersSince = contradictedForAnswers

  constructor(events: Events) {
    this.#events = events
  }

  /** Undefined: no witness is left. By each of them the quote was over when it came, or lives for more than a day. */
  endOf(answer: DatedAnswer, expiryMs: number): End | undefined {
    const { receivedAtMs, sentSteadyMs } = answer
    const wallAheadMs = receivedAtMs - answer.receivedSteadyMs
    const dateMs = readDate(answer)
    const isOursRight = this.#agrees(answer, dateMs === undefined ? undefined : differenceOf(dateMs, answer))
    const end = (servedUntilMs: number, refusedFromMs: number) => ({
      servedUntilMs: Math.floor(servedUntilMs),
      refusedFromMs: Math.ceil(refusedFromMs),
      wallAheadMs,
    })

    const lifeMs = dateMs === undefined ? 0 : expiryMs - dateMs
    const byWall = isLife(expiryMs - receivedAtMs)
    const byDate = isLife(lifeMs)
    if (!byWall && !byDate) return undefined
    if (isOursRight || !byDate) return end(expiryMs, expiryMs)
    const dateServesMs = sentSteadyMs + wallAheadMs + lifeMs - cutMs - lagMs
    const dateRefusesMs = receivedAtMs + lifeMs
    if (!byWall) return end(dateServesMs, dateRefusesMs)
    const firstMs = Math.min(expiryMs, dateRefusesMs)
    const lastMs = Math.max(expiryMs, dateRefusesMs)
    return end(Math.min(expiryMs, dateServesMs), Math.min(lastMs, firstMs + alonePastMs))
  }

  /** Whether the `Date` agrees with our clock, and every one has for a while. */
  #agrees(
    { receivedAtMs, sentSteadyMs, receivedSteadyMs }: DatedAnswer,
    difference: Difference | undefined,
  ): boolean {
    this.#events.providerDated(difference, { nowMs: receivedAtMs, steadyMs: receivedSteadyMs })
    const contradicts = difference !== undefined && (difference.lowMs > 0 || difference.highMs < 0)
    this.#answersSince = contradicts ? 0 : this.#answersSince + 1
    if (contradicts) this.#contradictedSteadyMs = receivedSteadyMs
    if (difference === undefined || receivedSteadyMs - sentSteadyMs > promptMs) return false
    const isLongAgo = receivedSteadyMs - this.#contradictedSteadyMs > contradictedForMs
    return isLongAgo && this.#answersSince > contradictedForAnswers
  }
}

function isLife(ms: number): boolean {
  return ms > 0 && ms <= maxLifeMs
}
