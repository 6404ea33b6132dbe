import fc from 'fast-check'
import { expect, it } from 'vitest'
import { environment } from '../support/machine/environment.ts'
import { agrees, crowdedHistory, history, type Judged, play } from './guard-histories.ts'
import { decide, isCandidate, isSame, meant, significantDigits } from './guard-model.ts'

// 100,000 in `npm run check:long`.
const histories = Number(environment().GUARD_HISTORIES ?? 2_000)
// Fixed, so that a run fails by a change of the code alone. `npm run check:long` takes another one each time.
const seed = Number(environment().GUARD_SEED ?? 20_251_120)
const patienceMs = 3_600_000

/** Whether an order is refused that would be sent if its client alone had been given quotes, and if that is by eight digits. */
function isRefusedByOthers({ expected, order, at, past }: Judged): boolean {
  if (expected.state !== 'expired' || expected.rule === 'id') return false
  if (decide(order, past.of(order.partition), at).state !== 'live') return false
  const stated = order.to
  if (typeof stated !== 'object') throw new Error('others refuse what states nothing')
  const isOver = ({ endsAtMs }: { endsAtMs: number }) =>
    endsAtMs - at.nowMs <= at.marginMs
  const isOthers = ({ partition }: { partition: string | undefined }) =>
    order.partition === undefined || partition !== order.partition
  const causes = past.quotes.filter(
    (quote) =>
      isCandidate(order, quote) &&
      isOver(quote) &&
      isOthers(quote) &&
      isSame(stated, quote.to),
  )
  expect(causes, `refused by ${expected.rule}`).not.toEqual([])
  expect(significantDigits(meant(stated))).toBeGreaterThanOrEqual(8)
  return true
}

it(
  'the guard and its model say the same of every order, and what others are given refuses a live one only by eight digits',
  () => {
    /** How often each state came by each rule. */
    const seen = new Map<string, number>()
    let byOthers = 0
    fc.assert(
      fc.property(history, (steps) => {
        play(steps, 10_000, (one) => {
          const { said, expected } = one
          if (!agrees(one)) expect(said).toEqual(expected)
          const what = `${said.state} ${said.rule}`
          seen.set(what, (seen.get(what) ?? 0) + 1)
          if (isRefusedByOthers(one)) byOthers += 1
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
    expect(byOthers).toBeGreaterThan(histories / 1_000)
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
