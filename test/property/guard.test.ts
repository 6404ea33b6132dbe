import fc from 'fast-check'
import { expect, it } from 'vitest'
import { environment } from '../support/machine/environment.ts'
import { agrees, crowdedHistory, history, type Judged, play } from './guard-histories.ts'
import { compare, decide, isCandidate, isSame, significantDigits } from './guard-model.ts'

// 100,000 in `npm run check:long`.
const histories = Number(environment().GUARD_HISTORIES ?? 2_000)
// Fixed, so that a run fails by a change of the code alone. `npm run check:long` takes another one each time.
const seed = Number(environment().GUARD_SEED ?? 20_251_120)
const patienceMs = 3_600_000

/** Why an order is refused that would be sent if its client alone had been given quotes; undefined: it would not be. */
function causeByOthers({
  expected,
  order,
  at,
  past,
}: Judged): 'digits' | 'fallen' | 'wrong' | undefined {
  if (expected.state !== 'expired' || expected.rule === 'id') return undefined
  if (decide(order, past.of(order.partition), at).state !== 'live') return undefined
  const stated = order.to
  if (typeof stated !== 'object') return 'wrong'
  const candidates = past.quotes.filter((quote) => isCandidate(order, quote))
  const isOver = ({ endsAtMs }: { endsAtMs: number }) =>
    endsAtMs - at.nowMs <= at.marginMs
  const live = candidates.filter((quote) => !isOver(quote))
  if (expected.rule === 'fallen' && live.every(({ to }) => compare(stated.text, to) > 0))
    return 'fallen'
  const isExact = candidates.some(({ partition, to, ...quote }) => {
    const isOthers = order.partition === undefined || partition !== order.partition
    return isOthers && isOver(quote) && isSame(stated, to)
  })
  return isExact && significantDigits(stated.text) >= 8 ? 'digits' : 'wrong'
}

it(
  'the guard and its model say the same of every order, and what others are given refuses a live one only by eight digits, or where no live quote pays as much',
  () => {
    /** How often each state came by each rule. */
    const seen = new Map<string, number>()
    const causes = { digits: 0, fallen: 0, wrong: 0 }
    fc.assert(
      fc.property(history, (steps) => {
        play(steps, 10_000, (one) => {
          const { said, expected } = one
          if (!agrees(one)) expect(said).toEqual(expected)
          const what = `${said.state} ${said.rule}`
          seen.set(what, (seen.get(what) ?? 0) + 1)
          const cause = causeByOthers(one)
          if (cause === undefined) return
          expect(cause, `refused by ${said.rule}`).not.toBe('wrong')
          causes[cause] += 1
        })
      }),
      { numRuns: histories, seed },
    )
    // Each rule had its say, or this shows little.
    const all = [
      ...['id', 'exact'].flatMap((rule) => [`live ${rule}`, `expired ${rule}`]),
      'live pays',
      'expired fallen',
      'live any',
      'expired none',
      ...['id', 'none', 'store-away', 'unreadable'].map((rule) => `unknown ${rule}`),
    ]
    for (const what of all)
      expect(seen.get(what), what).toBeGreaterThan(histories / 1_000)
    for (const cause of ['digits', 'fallen'] as const)
      expect(causes[cause], cause).toBeGreaterThan(histories / 1_000)
  },
  patienceMs,
)

it(
  'a ledger that is full makes an order unknown, and refuses no live one',
  () => {
    let forgotten = 0
    fc.assert(
      fc.property(crowdedHistory, fc.constantFrom(2, 4, 10_000), (steps, entries) => {
        play(steps, entries, ({ said, expected }) => {
          if (said.state === 'expired') expect(expected.state).toBe('expired')
          if (said.state === 'unknown' && expected.state === 'expired') forgotten += 1
        })
      }),
      { numRuns: histories, seed },
    )
    expect(forgotten).toBeGreaterThan(histories / 1_000)
  },
  patienceMs,
)
