import fc from 'fast-check'
import { parseDecimal } from '../../src/quotes/decimal.ts'
import { decide } from './guard-model.ts'

export interface Given {
  id: string
  pair: string
  from: string
  requested: string
  to: string
  application: string
  partition: string | undefined
  /** When it ends, whatever its edge's clock shows then. */
  endsAtMs: number
  givenAtMs: number
}

/** An answer that its client may take for a quote. */
export type Odd = Pick<Given, 'pair' | 'requested' | 'application' | 'partition' | 'givenAtMs'>

/** An amount as its order spells it. */
export interface Spelled {
  text: string
  isNumber: boolean
}

export interface Ordered {
  quoteId?: string | undefined
  bareId?: string | undefined
  pair: string
  from: Spelled
  /** `odd`: something that is not an amount. */
  to: Spelled | 'odd' | undefined
  application: string
  partition: string | undefined
}

export interface Decision {
  state: 'live' | 'expired' | 'unknown'
  rule: string
}

/** The guard, at some layer of the gateway. Its answers are awaited one after the other. */
export interface Guard {
  clock: { nowMs(): number; advance(ms: number): void }
  quote(quote: Given, isAhead: boolean): void | Promise<void>
  odd(odd: Odd): void | Promise<void>
  order(order: Ordered, at: { marginMs: number; othersKnown: boolean }): Promise<Decision>
}

// Few of each, so that they meet.
const from = fc.constantFrom('0.1', '0.1000000000000000055', '123456789.123456789', '123456789.12345679')
const fromOrRounded = fc.oneof(
  { weight: 7, arbitrary: from },
  { weight: 1, arbitrary: fc.constant('0.1004') },
)
const price = fc.constantFrom(
  ...['0.034512345678901234', '0.0345123', '0.034511', '0.0345', '289.645', '289.64512345', '283.85', '290'],
  ...['0.99991', '0.99999', '1', '1.00004', '99999.6', '123456789.123456789'],
)
const application = fc.constantFrom('wallet', 'wallet', 'shop')
const partition = fc.constantFrom('a', 'a', 'b', undefined)
const pair = fc.constantFrom('A_B', 'A_B', 'B_A')
const id = fc.constantFrom('q0', 'q1', 'q2', 'q3')

const seldom = <Value>(value: fc.Arbitrary<Value>) =>
  fc.oneof({ weight: 7, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: value })

/** The provider rounds a little. A quote for quite another amount than was asked for would count as unreadable. */
function requestedFor({ from, rounds = from }: { from: string; rounds?: string | undefined }): string {
  return Math.abs(Number(from) - Number(rounds)) < Number(rounds) / 100 ? rounds : from
}

const quoted = fc.record({
  doing: fc.constant('quote' as const),
  id: fc.oneof({ weight: 3, arbitrary: fc.uuid() }, { weight: 1, arbitrary: id }),
  from,
  rounds: seldom(fc.constantFrom('0.1', '0.1004', '123456789.123456789', '123456789.12345679')),
  to: price,
  pair,
  application,
  partition,
  lifeMs: fc.oneof(fc.integer({ min: -5, max: 50 }), fc.constant(30_000)),
  isAhead: fc.boolean(),
})
const odd = fc.record({ doing: fc.constant('odd' as const), requested: from, pair, application, partition })
const waited = fc.record({
  doing: fc.constant('wait' as const),
  ms: fc.oneof(fc.integer({ min: 0, max: 60 }), fc.constantFrom(30_000, 900_000, 899_990, 86_400_000)),
})

/** What clients make of a price that they were given, or of a number of their own. */
const amount: fc.Arbitrary<Spelled> = fc
  .record({
    of: price,
    decimals: fc.integer({ min: 0, max: 12 }),
    way: fc.constantFrom('exact', 'exact', 'double', 'fixed', 'up', 'down', 'slippage', 'exponent'),
    isNumber: fc.boolean(),
  })
  .map(({ of, decimals, way, isNumber }) => ({ text: spell(of, decimals, way), isNumber }))

function spell(of: string, decimals: number, way: string): string {
  const step = 10 ** -decimals
  switch (way) {
    case 'double':
      return parseDecimal(String(Number(of))) ?? of
    case 'fixed':
      return Number(of).toFixed(decimals)
    case 'up':
      return (Math.ceil(Number(of) / step) * step).toFixed(decimals)
    case 'down':
      return (Math.floor(Number(of) / step) * step).toFixed(decimals)
    case 'slippage':
      return (Number(of) * 0.98).toFixed(decimals)
    case 'exponent':
      return Number(of).toExponential(Math.max(1, decimals))
    default:
      return of
  }
}

const ordered = fc.record({
  doing: fc.constant('order' as const),
  quoteId: seldom(id),
  bareId: seldom(fc.constantFrom('q0', 'q1', 'my-own')),
  pair,
  from: fc.record({ text: fromOrRounded, isNumber: fc.boolean() }),
  to: fc.oneof(
    { weight: 8, arbitrary: amount },
    { weight: 1, arbitrary: fc.constant('odd' as const) },
    { weight: 2, arbitrary: fc.constant(undefined) },
  ),
  application,
  partition,
  marginMs: fc.constantFrom<number>(0, 0, 0, 10),
  othersKnown: fc.constantFrom<boolean>(true, true, true, false),
})

export const step = fc.oneof(
  { weight: 5, arbitrary: quoted },
  { weight: 1, arbitrary: odd },
  { weight: 2, arbitrary: waited },
  { weight: 4, arbitrary: ordered },
)

/** Most histories at the socket are about one pair and application, because there are fewer of them. */
const plain = { pair: 'A_B', application: 'wallet' } as const
const mostly = fc.constantFrom(true, true, true, true, false)

/**
 * The same, where a real provider's clock is read: a `Date` is cut to whole seconds, so each end is at least 10 s away
 * from each order, less the few milliseconds that the steps take.
 */
export const roughStep = fc.oneof(
  {
    weight: 5,
    arbitrary: fc
      .tuple(quoted, fc.constantFrom(-10_000, 30_000, 30_000, 70_000), mostly)
      .map(([quote, lifeMs, isPlain]) => ({
        ...quote,
        lifeMs,
        ...(isPlain && { ...plain, from: '0.1' as const }),
      })),
  },
  {
    weight: 1,
    arbitrary: fc
      .tuple(odd, mostly)
      .map(([one, isPlain]) => ({ ...one, ...(isPlain && { ...plain, requested: '0.1' as const }) })),
  },
  {
    weight: 2,
    arbitrary: fc
      .constantFrom(20_000, 20_000, 40_000, 900_000, 86_400_000)
      .map((ms) => ({ doing: 'wait' as const, ms })),
  },
  {
    weight: 5,
    arbitrary: fc.tuple(ordered, mostly).map(([order, isPlain]) => ({
      ...order,
      marginMs: 0,
      othersKnown: true,
      ...(isPlain && { ...plain, from: { text: '0.1' as const, isNumber: true } }),
    })),
  },
)

/** More quotes than a bucket keeps, of as many other clients, at prices that begin alike. */
const crowd = fc.record({
  doing: fc.constant('crowd' as const),
  from,
  start: fc.constantFrom('0.034512', '289.64', '0.99991'),
  lifeMs: fc.oneof(fc.integer({ min: 1, max: 50 }), fc.constant(30_000)),
})
const crowdSize = 70
export const crowdedStep = fc.oneof({ weight: 12, arbitrary: step }, { weight: 1, arbitrary: crowd })
type Step = typeof crowdedStep extends fc.Arbitrary<infer Value> ? Value : never

/** Plays a history to the guard and its model; `judged` is called with what each says of an order. */
export async function play(
  steps: readonly Step[],
  guard: Guard,
  judged: (said: Decision, expected: Decision) => void,
): Promise<void> {
  const { clock } = guard
  const given: Given[] = []
  const oddAnswers: Odd[] = []

  async function give(
    quote: Omit<Given, 'endsAtMs' | 'givenAtMs'>,
    { lifeMs = 0, isAhead = false },
  ): Promise<void> {
    const givenAtMs = clock.nowMs()
    const whole = { ...quote, endsAtMs: givenAtMs + lifeMs, givenAtMs }
    given.push(whole)
    await guard.quote(whole, isAhead)
  }

  for (const current of steps) {
    clock.advance(1)
    switch (current.doing) {
      case 'wait':
        clock.advance(current.ms)
        break
      case 'odd': {
        const one = { ...current, givenAtMs: clock.nowMs() }
        oddAnswers.push(one)
        await guard.odd(one)
        break
      }
      case 'quote':
        await give({ ...current, requested: requestedFor(current) }, current)
        break
      case 'crowd':
        for (let index = 0; index < crowdSize; index += 1) {
          const one = {
            id: `crowd ${given.length}`,
            partition: `crowd ${index}`,
            to: `${current.start}${index}1`,
          }
          const common = { pair: 'A_B', application: 'wallet', from: current.from, requested: current.from }
          await give({ ...one, ...common }, current)
        }
        break
      case 'order': {
        const { marginMs, othersKnown } = current
        const said = await guard.order(current, { marginMs, othersKnown })
        const expected = decide(current, { given, odd: oddAnswers, nowMs: clock.nowMs(), marginMs })
        const isAway = !othersKnown && expected.state === 'expired' && expected.rule !== 'id'
        judged(said, isAway ? { state: 'unknown', rule: 'store-away' } : expected)
      }
    }
  }
}
