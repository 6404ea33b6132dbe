import type { NotedQuote } from './ledger.ts'
import type { OrderTerms } from './order-terms.ts'
import type { StatedAmount } from './stated-amount.ts'

/**
 * What decided about an order:
 * - `id`: it names a quote, known here or not.
 * - `exact`, `rounded`: quotes with the toAmount that it states.
 * - `own-live`: a live quote that was given to the orderer's own partition.
 * - `pair-and-amount`: quotes of its pair and from amount, whatever their toAmount.
 * - `nothing`: no quote.
 * - `store-away`, `unreadable`, `restored`: it would have been refused, but a quote that is not known here may be meant, or
 *   it is not known whether a restored quote has expired.
 */
export const matchingRules = [
  'id',
  'exact',
  'rounded',
  'own-live',
  'pair-and-amount',
  'nothing',
  'store-away',
  'unreadable',
  'restored',
] as const
export type MatchingRule = (typeof matchingRules)[number]

export type Verdict =
  | { state: 'live'; quote: NotedQuote; rule: MatchingRule }
  // `expiredForMs` is 0 between the start of the margin and the expiry itself.
  | { state: 'expired'; quote: NotedQuote; rule: MatchingRule; expiredForMs: number }
  | { state: 'unknown'; rule: MatchingRule }

/** Whether the order is unknown only because a quote that is not known here may be meant: such an order is never refused. */
export function isInDoubt({ rule }: Verdict): boolean {
  return rule === 'unreadable' || rule === 'restored'
}

export interface Judgement {
  application: string | undefined
  /** Undefined: the orderer has no partition, so no quote is its own. */
  partition: string | undefined
  /** A quote counts as expired when it has this much time left, or less. */
  marginMs: number
}

/** A quote that an order may mean, at the instant of the judgement. */
export interface Candidate<Quote extends NotedQuote = NotedQuote> {
  readonly quote: Quote
  readonly leftMs: number
  readonly isOwn: boolean
}

/** How long an expired quote of the orderer's own is thought of before its live ones. */
const recentMs = 900_000
/** So many digits are not equal by chance. */
const digitsOfOneQuote = 8
const digitsToRound = 5

/**
 * Judges an order by its terms. The candidates are the quotes of its pair, from amount and application. The first rule
 * that applies decides, and among several candidates the one with the most time left.
 */
export function judgeByTerms(
  { toAmount }: Pick<OrderTerms, 'toAmount'>,
  candidates: readonly Candidate[],
  { stated, marginMs }: { stated: StatedAmount | undefined; marginMs: number },
): Verdict {
  const isLive = ({ leftMs }: Candidate) => leftMs > marginMs
  const decideBy = (deciders: readonly Candidate[], rule: MatchingRule) =>
    verdictOf(deciders, { rule, marginMs })
  const exact = candidates.filter(({ quote }) => stated?.isExactly(quote.toValue))
  const mayRound = stated !== undefined && stated.writtenDigits >= digitsToRound
  const rounded = mayRound ? candidates.filter(({ quote }) => stated.isRounded(quote.toValue)) : []
  // Another client's expired quote may by chance equal an amount from which slippage was taken.
  const isNear = (candidate: Candidate) =>
    isLive(candidate) || (candidate.isOwn && candidate.leftMs > -recentMs)

  const isOneQuotes = stated !== undefined && stated.digits >= digitsOfOneQuote
  const exactAndNear = isOneQuotes ? exact : exact.filter(isNear)
  if (exactAndNear.length > 0) return decideBy(exactAndNear, 'exact')
  const roundedAndNear = rounded.filter(isNear)
  if (roundedAndNear.length > 0) return decideBy(roundedAndNear, 'rounded')
  const ownLive = candidates.filter((candidate) => candidate.isOwn && isLive(candidate))
  if (ownLive.length > 0) return decideBy(ownLive, 'own-live')
  if (exact.length > 0) return decideBy(exact, 'exact')
  if (rounded.length > 0) return decideBy(rounded, 'rounded')
  const isRefusedIfExpired = toAmount === undefined || candidates.some(({ isOwn }) => isOwn)
  if (candidates.some(isLive) || (candidates.length > 0 && isRefusedIfExpired))
    return decideBy(candidates, 'pair-and-amount')
  return { state: 'unknown', rule: 'nothing' }
}

/** The verdict names a quote of the order's own client before another client's. There is at least one decider. */
export function verdictOf(
  deciders: readonly Candidate[],
  { rule, marginMs }: { rule: MatchingRule; marginMs: number },
): Verdict {
  const [first] = deciders
  if (first === undefined) return { state: 'unknown', rule }
  const last = deciders.reduce(lastToEnd, first)
  const isLive = last.leftMs > marginMs
  const named = deciders
    .filter(({ leftMs, isOwn }) => isOwn && leftMs > marginMs === isLive)
    .reduce<Candidate | undefined>((best, own) => (best ? lastToEnd(best, own) : own), undefined)
  const { quote, leftMs } = named ?? last
  if (isLive) return { state: 'live', quote, rule }
  return { state: 'expired', quote, rule, expiredForMs: Math.max(0, -leftMs) }
}

/** Returns `first` if both end at the same instant. */
function lastToEnd(first: Candidate, second: Candidate): Candidate {
  return second.leftMs > first.leftMs ? second : first
}
