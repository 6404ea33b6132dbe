import fc from 'fast-check'
import { expect, it } from 'vitest'
import { environment } from '../support/machine/environment.ts'
import { guardAtLedger } from './guard-at-ledger.ts'
import { guardAtSocket } from './guard-at-socket.ts'
import {
  agrees,
  crowdedHistory,
  type Decision,
  marketStep,
  play,
  roughStep,
  type Step,
  step,
} from './guard-histories.ts'
import {
  compare,
  type Given,
  isCandidate,
  isSame,
  type Ordered,
  type Past,
  significantDigits,
} from './guard-model.ts'

// 100,000 in `npm run check:long`.
const histories = Number(environment().GUARD_HISTORIES ?? 2_000)
// Fixed, so that a run fails by a change of the code alone. `npm run check:long` takes another one each time.
const seed = Number(environment().GUARD_SEED ?? 20_251_120)
const patienceMs = 3_600_000
const history = (one: fc.Arbitrary<Step>): fc.Arbitrary<Step[]> =>
  fc.array(one, { minLength: 6, maxLength: 24, size: 'max' })

/** How often each state came by each rule. */
function tally() {
  const seen = new Map<string, number>()
  const add = ({ state, rule }: Decision) =>
    seen.set(`${state} ${rule}`, (seen.get(`${state} ${rule}`) ?? 0) + 1)
  return { seen, add }
}

it(
  'the guard and its model say the same of every order',
  async () => {
    const { seen, add } = tally()
    await fc.assert(
      fc.asyncProperty(history(step), async (steps) => {
        await play(steps, guardAtLedger({ entries: 10_000 }), (said, expected) => {
          if (!agrees(said, expected)) expect(said).toEqual(expected)
          add(said)
        })
      }),
      { numRuns: histories, seed },
    )
    // Each rule had its say, or this shows little.
    const all = [
      ...['id', 'exact'].flatMap((rule) => [`live ${rule}`, `expired ${rule}`]),
      ...['live pays', 'expired fallen', 'live any', 'expired none'],
      ...['id', 'none', 'store-away', 'unreadable'].map((rule) => `unknown ${rule}`),
    ]
    for (const what of all) expect(seen.get(what), what).toBeGreaterThan(histories / 1_000)
  },
  patienceMs,
)

it(
  'a ledger that is full makes an order unknown, and refuses no live one',
  async () => {
    let forgotten = 0
    await fc.assert(
      fc.asyncProperty(crowdedHistory, fc.constantFrom(4, 20, 10_000), async (steps, entries) => {
        await play(steps, guardAtLedger({ entries }), (said, expected) => {
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

/** Without what other clients were given, and without quotes that come again; all orders are of one client. */
function ofOneClient(steps: readonly Step[], partition: string | undefined, isAlone: boolean): Step[] {
  const isAddress = partition === 'a' || partition === 'b'
  const nothing: Step = { doing: 'wait', ms: 0 }
  return steps.map((one, index) => {
    if (one.doing === 'order') return { ...one, bareId: undefined, partition, isAddress }
    if (one.doing === 'wait') return one
    if (one.doing === 'crowd' || one.doing === 'requote') return nothing
    const isOther = partition === undefined || one.partition !== partition
    if (isAlone && isOther) return nothing
    return one.doing === 'quote' ? { ...one, id: `quote ${index}` } : one
  })
}

interface Played {
  said: Decision
  order: Ordered
  nowMs: number
}

it(
  'what others are given makes a live order refused only by eight digits, or where no live quote pays as much',
  async () => {
    const { seen, add } = tally()
    const excuses = { byDigits: 0, fallen: 0 }

    async function played(steps: Step[]) {
      const guard = guardAtLedger({ entries: 10_000 })
      const orders: Played[] = []
      const past = await play(steps, guard, (said, _, order) => {
        orders.push({ said, order, nowMs: guard.clock.nowMs() })
      })
      return { orders, past }
    }

    function judge({ said, order, nowMs }: Played, past: Past, partition: string | undefined): void {
      const stated = order.to
      if (typeof stated !== 'object') throw new Error(`it states no amount, and was refused by ${said.rule}`)
      const candidates = past.quotes.filter((quote) => quote.givenAtMs <= nowMs && isCandidate(order, quote))
      const live = candidates.filter(({ endsAtMs }) => endsAtMs > nowMs)
      const ofOthers = candidates.filter((quote) => partition === undefined || quote.partition !== partition)
      const isExpired = ({ endsAtMs }: Given) => endsAtMs <= nowMs
      const isByDigits =
        significantDigits(stated.text) >= 8 &&
        ofOthers.some((quote) => isExpired(quote) && isSame(stated, quote.to))
      const hasFallen = said.rule === 'fallen' && live.every(({ to }) => compare(stated.text, to) > 0)
      expect(isByDigits || hasFallen, `refused by ${said.rule}`).toBe(true)
      excuses[hasFallen ? 'fallen' : 'byDigits'] += 1
    }

    await fc.assert(
      fc.asyncProperty(
        history(marketStep),
        fc.constantFrom('a', 'DE', undefined),
        async (steps, partition) => {
          const alone = await played(ofOneClient(steps, partition, true))
          const { orders, past } = await played(ofOneClient(steps, partition, false))
          for (const [index, one] of orders.entries()) {
            if (alone.orders[index]?.said.state !== 'live') continue
            add(one.said)
            if (one.said.state === 'expired') judge(one, past, partition)
          }
        },
      ),
      { numRuns: histories, seed },
    )
    for (const what of ['live exact', 'live pays', 'live any']) {
      expect(seen.get(what), what).toBeGreaterThan(histories / 1_000)
    }
    expect(Math.min(excuses.byDigits, excuses.fallen)).toBeGreaterThan(histories / 1_000)
  },
  patienceMs,
)

it(
  'a whole gateway and the model say the same of every order',
  async () => {
    const { seen, add } = tally()
    await fc.assert(
      fc.asyncProperty(history(roughStep), async (steps) => {
        const guard = await guardAtSocket()
        try {
          await play(steps, guard, (said, expected) => {
            // Which of its candidates ends last is a matter of milliseconds here.
            const { state, rule } = expected
            expect(said).toMatchObject({ state, rule })
            add(said)
          })
        } finally {
          await guard.close()
        }
      }),
      { numRuns: Math.ceil(histories / 20), seed },
    )
    const rulesSeen = new Set([...seen.keys()].map((what) => what.split(' ')[1]))
    for (const rule of ['id', 'exact', 'pays', 'fallen', 'any', 'none', 'unreadable']) {
      expect(rulesSeen, rule).toContain(rule)
    }
  },
  patienceMs,
)
