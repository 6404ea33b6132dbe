import fc from 'fast-check'
import { expect, it } from 'vitest'
import { environment } from '../support/machine/environment.ts'
import {
  agrees,
  crowdedHistory,
  history,
  type Judged,
  play,
  type Step,
} from './guard-histories.ts'
import { readingOf, statedBy } from './guard-model.ts'

// 100,000 in `npm run check:long`.
const histories = Number(environment().GUARD_HISTORIES ?? 2_000)
// Fixed, so that a run fails by a change of the code alone. `npm run check:long` takes another one each time.
const seed = Number(environment().GUARD_SEED ?? 20_251_120)
const patienceMs = 3_600_000

type Cause = 'own digits' | 'own rounded' | 'eight digits' | 'wrong'

/** Why an order that names no quote is refused though a quote of its pair and amount lives. Undefined: it is not refused. */
function causeOf({ said, order, at, past }: Judged): Cause | undefined {
  if (said.state !== 'expired' || said.rule === 'id') return undefined
  const candidates = readingOf(order, past, at).quotes.filter(
    ({ isCandidate }) => isCandidate,
  )
  const live = candidates.filter(({ isLive }) => isLive)
  if (live.length === 0) return undefined
  if (live.some(({ isExact }) => isExact)) return 'wrong'
  const { digits } = statedBy(order)
  const recent = candidates.filter((quote) => quote.isRecent && quote.isSameApplication)
  const own = recent.filter(({ isOwn }) => isOwn && order.isAddress)
  if (digits >= 6 && own.some(({ isExact }) => isExact)) return 'own digits'
  if (digits >= 8 && recent.some(({ isExact }) => isExact)) return 'eight digits'
  const isPaid = live.some(({ givesAtLeast, isRounded }) => givesAtLeast || isRounded)
  if (digits >= 5 && !isPaid && own.some((quote) => quote.isExact || quote.isRounded))
    return 'own rounded'
  return 'wrong'
}

it(
  'the guard and its model say the same of every order, and while a quote lives an order is refused only by recent prices: its own user’s by six digits, or by five if no live quote pays, or those of its application by eight',
  () => {
    /** How often each state came by each rule. */
    const seen = new Map<string, number>()
    const causes = { 'own digits': 0, 'own rounded': 0, 'eight digits': 0, wrong: 0 }
    fc.assert(
      fc.property(history, (steps) => {
        play(steps, 10_000, (one) => {
          const { said, expected } = one
          if (!agrees(one)) expect(said).toEqual(expected)
          const what = `${said.state} ${said.rule}`
          seen.set(what, (seen.get(what) ?? 0) + 1)
          const cause = causeOf(one)
          if (cause === undefined) return
          expect(cause, `refused by ${said.rule}`).not.toBe('wrong')
          causes[cause] += 1
        })
      }),
      { numRuns: histories, seed },
    )
    // Each sentence had its say, or this shows little.
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
    for (const cause of ['own digits', 'own rounded', 'eight digits'] as const)
      expect(causes[cause], cause).toBeGreaterThan(histories / 1_000)
  },
  patienceMs,
)

it.each([
  [1_000, 'expired fallen'],
  [1_001, 'live any'],
])(
  'an order that states its user’s past price is judged by %d live prices that do not pay it: %s',
  (count, expected) => {
    const terms = { pair: 'A_B', application: 'wallet', partition: 'a' }
    const history: readonly Step[] = [
      {
        doing: 'quote',
        ...terms,
        id: 'own',
        from: '0.1',
        to: '289.6451',
        lifeMs: 10,
        isAhead: false,
        hasNumbers: false,
      },
      { doing: 'wait', ms: 10 },
      {
        doing: 'crowd',
        ...terms,
        partition: 'b',
        but: 'price',
        lifeMs: 30_000,
        numbers: { from: 1_001, count },
      },
      {
        doing: 'order',
        ...terms,
        isAddress: true,
        from: { text: '0.1', isNumber: false },
        to: { text: '289.65', isNumber: false },
        marginMs: 0,
        othersKnown: true,
      },
    ]
    const verdicts: string[] = []
    play(history, 10_000, (one) => {
      expect(agrees(one), JSON.stringify([one.said, one.expected])).toBe(true)
      verdicts.push(`${one.said.state} ${one.said.rule}`)
    })
    expect(verdicts).toEqual([expected])
  },
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
