import type { FloatOrderDecision } from '../orders/float-order.ts'
import type { GuardRule, Verdict } from '../orders/guard.ts'
import { createTallies, type Tally } from './series.ts'

/** What each rule of orders/guard.ts can say of an order. */
const ruledStates: readonly [state: Verdict['state'], rules: readonly GuardRule[]][] = [
  ['live', ['id', 'exact', 'pays', 'any']],
  ['expired', ['id', 'exact', 'fallen', 'none']],
  ['unknown', ['id', 'none', 'store-away', 'unreadable', 'restored']],
]

export function createMatches(
  metric: Parameters<typeof createTallies>[0],
): Readonly<Record<string, Tally | undefined>> {
  const labels = ruledStates.flatMap(([decision, rules]) => rules.map((rule) => ({ decision, rule })))
  const tallies = createTallies(metric, labels)
  return Object.fromEntries(
    labels.map(({ decision, rule }, index) => [`${decision} ${rule}`, tallies[index]]),
  )
}

export function createFloatOrders(
  metric: Parameters<typeof createTallies>[0],
): Readonly<Record<FloatOrderDecision, Tally>> {
  const [live, unknown, expired, unknownRefused, reported] = createTallies(metric, [
    { decision: 'forwarded', reason: 'live' },
    { decision: 'forwarded', reason: 'unknown' },
    { decision: 'refused', reason: 'expired' },
    { decision: 'refused', reason: 'unknown' },
    { decision: 'reported', reason: 'expired' },
  ]) as [Tally, Tally, Tally, Tally, Tally]
  return {
    'forwarded-live': live,
    'forwarded-unknown': unknown,
    'reported-expired': reported,
    'refused-expired': expired,
    'refused-unknown': unknownRefused,
  }
}
