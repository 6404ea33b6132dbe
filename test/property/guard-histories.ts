import fc from 'fast-check'
import {
  decide,
  type Given,
  type Ordered,
  Past,
  plain,
  type Spelled,
  type Unreadable,
  type Verdict,
} from './guard-model.ts'

export interface Decision {
  state: Verdict['state']
  rule: string
  quoteId?: string | undefined
}

/** The guard, at some layer of the gateway. Its answers are awaited one after the other. */
export interface Guard {
  clock: { nowMs(): number; advance(ms: number): void }
  quote(quote: Given): void | Promise<void>
  odd(odd: Unreadable): void | Promise<void>
  order(order: Ordered, at: { marginMs: number; othersKnown: boolean; isUsed: boolean }): Promise<Decision>
}

/** How far the clock of one of the provider's two edges is ahead. */
export const edgeAheadMs = 5_000

// Few of each, so that they meet.
const from = fc.constantFrom('0.1', '0.1000000000000000055', '123456789.123456789', '123456789.12345679')
const fromOrRounded = fc.oneof(
  { weight: 7, arbitrary: from },
  { weight: 1, arbitrary: fc.constant('0.1004') },
)
const price = fc.constantFrom(
  ...[
    '0.034512345678901234',
    '0.0345123',
    '0.034511',
    '0.0345',
    '289.645',
    '289.6451',
    '289.64512',
    '289.64512345',
  ],
  ...[
    '289.35',
    '283.85',
    '290',
    '0.99991',
    '0.99999',
    '1',
    '1.00004',
    '99999.6',
    '12345600',
    '123456789.123456789',
  ],
)
const application = fc.constantFrom('wallet', 'wallet', 'shop')
// Two addresses, a country, and clients without an address.
const partition = fc.constantFrom('a', 'a', 'b', 'DE', undefined)
const isAddress = (partition: string | undefined) => partition === 'a' || partition === 'b'
const pair = fc.constantFrom('A_B', 'A_B', 'A_B', 'B_A', 'a_b')
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
  lifeMs: fc.oneof(fc.integer({ min: 1, max: 50 }), fc.constant(30_000)),
  isAhead: fc.boolean(),
})
/** One of the last quotes again: with a later expiry, to another client, or with the same expiry and another end. */
const requoted = fc.record({
  doing: fc.constant('requote' as const),
  back: fc.nat(2),
  as: fc.constantFrom('later', 'later', 'elsewhere', 'sooner'),
  partition,
  lifeMs: fc.oneof(fc.integer({ min: 1, max: 50 }), fc.constant(30_000)),
})
const odd = fc.record({
  doing: fc.constant('odd' as const),
  requested: from,
  stated: seldom(from),
  pair,
  application,
  partition,
})
const waited = fc.record({
  doing: fc.constant('wait' as const),
  ms: fc.oneof(fc.integer({ min: 0, max: 60 }), fc.constantFrom(30_000, 900_000, 899_990, 86_400_000)),
})

/** What clients make of a price that they were given, or of a number of their own. */
const amountOf = (price: fc.Arbitrary<string>): fc.Arbitrary<Spelled> =>
  fc
    .record({
      of: price,
      decimals: fc.integer({ min: 0, max: 12 }),
      way: fc.constantFrom(
        ...['exact', 'exact', 'zeros', 'double', 'fixed', 'up', 'down', 'slippage', 'exponent'],
      ),
      slippage: fc.constantFrom(0.001, 0.002, 0.005, 0.01, 0.02),
      isNumber: fc.boolean(),
    })
    .map(({ isNumber, ...how }) => ({ text: spell(how), isNumber }))

interface Spelling {
  of: string
  decimals: number
  way: string
  slippage: number
}

function spell({ of, decimals, way, slippage }: Spelling): string {
  const step = 10 ** -decimals
  switch (way) {
    case 'zeros':
      return of.includes('.') ? `${of}00` : `${of}.00`
    case 'double':
      return plain(String(Number(of)))
    case 'fixed':
      return Number(of).toFixed(decimals)
    case 'up':
      return (Math.ceil(Number(of) / step) * step).toFixed(decimals)
    case 'down':
      return (Math.floor(Number(of) / step) * step).toFixed(decimals)
    case 'slippage':
      return (Number(of) * (1 - slippage)).toFixed(decimals)
    case 'exponent':
      return Number(of).toExponential(Math.max(1, decimals))
    default:
      return of
  }
}

const ordered = fc
  .record({
    doing: fc.constant('order' as const),
    header: fc.oneof({ weight: 20, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: id }),
    quoteId: seldom(id),
    bareId: seldom(fc.constantFrom('q0', 'q1', 'my-own')),
    pair,
    from: fc.record({ text: fromOrRounded, isNumber: fc.boolean() }),
    to: fc.oneof(
      { weight: 8, arbitrary: amountOf(price) },
      { weight: 1, arbitrary: fc.constant('odd' as const) },
      { weight: 2, arbitrary: fc.constant(undefined) },
    ),
    application,
    partition,
    marginMs: fc.constantFrom<number>(0, 0, 0, 10),
    othersKnown: fc.constantFrom<boolean>(true, true, true, false),
    isUsed: fc.boolean(),
  })
  .map((order) => ({ ...order, isAddress: isAddress(order.partition) }))

export const step = fc.oneof(
  { weight: 5, arbitrary: quoted },
  { weight: 1, arbitrary: requoted },
  { weight: 1, arbitrary: odd },
  { weight: 2, arbitrary: waited },
  { weight: 4, arbitrary: ordered },
)

/** Most histories at the socket are about one pair and application, because there are fewer of them. */
const plainTerms = { pair: 'A_B', application: 'wallet' } as const
const mostly = fc.constantFrom(true, true, true, true, false)
const plainly = <Value>(value: fc.Arbitrary<Value>, amounts: object) =>
  fc.tuple(value, mostly).map(([one, isPlain]) => ({ ...one, ...(isPlain && { ...plainTerms, ...amounts }) }))
const roughLifeMs = fc.constantFrom(30_000, 30_000, 70_000)

/**
 * The same, where a real provider's clock is read: a `Date` is cut to whole seconds, so each end is at least 10 s away
 * from each order, less the few milliseconds that the steps take. A quote that is over when it comes is unreadable.
 */
export const roughStep = fc.oneof(
  {
    weight: 5,
    arbitrary: fc
      .tuple(plainly(quoted, { from: '0.1' }), roughLifeMs)
      .map(([quote, lifeMs]) => ({ ...quote, lifeMs })),
  },
  {
    weight: 1,
    arbitrary: fc
      .tuple(requoted, roughLifeMs, fc.constantFrom('later' as const, 'elsewhere' as const))
      .map(([quote, lifeMs, as]) => ({ ...quote, lifeMs, as })),
  },
  { weight: 1, arbitrary: plainly(odd, { requested: '0.1' }) },
  {
    weight: 2,
    arbitrary: fc
      .constantFrom(20_000, 20_000, 40_000, 900_000, 86_400_000)
      .map((ms) => ({ doing: 'wait' as const, ms })),
  },
  {
    weight: 5,
    arbitrary: plainly(ordered, { from: { text: '0.1', isNumber: true } }).map((order) => ({
      ...order,
      marginMs: 0,
      othersKnown: true,
    })),
  },
)

/** The same, at few prices that lie close together: what several clients are given of one market. */
const market = fc.constantFrom('289.64512345', '289.645', '289.35', '289.1234')
export const marketStep = fc.tuple(roughStep, market, amountOf(market)).map(([one, price, stated]) => {
  if (one.doing === 'quote') return { ...one, to: price }
  return one.doing === 'order' ? { ...one, to: stated } : one
})

/** Quotes of many other clients, at prices that begin alike. */
const crowd = fc.record({
  doing: fc.constant('crowd' as const),
  from,
  start: fc.constantFrom('0.034512', '289.64', '0.99991'),
})
const crowdSize = 70
/**
 * For a ledger that is full: what was noted first is dropped first, so that also ends first. Every history begins with
 * a quote, or its first unreadable answers would count for longer than what follows.
 */
export const crowdedHistory = fc
  .array(
    fc.oneof(
      { weight: 5, arbitrary: quoted.map((quote) => ({ ...quote, lifeMs: 30_000, isAhead: false })) },
      { weight: 1, arbitrary: requoted.map((quote) => ({ ...quote, lifeMs: 30_000, as: 'later' as const })) },
      { weight: 1, arbitrary: odd },
      {
        weight: 2,
        arbitrary: fc
          .constantFrom(1, 10_000, 20_000, 29_990, 900_000, 86_400_000)
          .map((ms) => ({ doing: 'wait' as const, ms })),
      },
      { weight: 4, arbitrary: ordered },
      { weight: 1, arbitrary: crowd },
    ),
    { minLength: 6, maxLength: 24, size: 'max' },
  )
  .chain((steps) => quoted.map((first) => [{ ...first, lifeMs: 30_000, isAhead: false }, ...steps]))

export type Step =
  | ({ doing: 'quote'; rounds?: string | undefined; lifeMs: number; isAhead: boolean } & Omit<
      Given,
      'requested' | 'givenAtMs' | 'endsAtMs' | 'expiresAtMs'
    >)
  | { doing: 'requote'; back: number; as: string; partition: string | undefined; lifeMs: number }
  | ({ doing: 'odd' } & Omit<Unreadable, 'givenAtMs'>)
  | { doing: 'wait'; ms: number }
  | ({ doing: 'order'; marginMs: number; othersKnown: boolean; isUsed: boolean } & Ordered)
  | { doing: 'crowd'; from: string; start: string }

/** Plays a history to the guard and its model; `judged` is called with what each says of an order. */
export async function play(
  steps: readonly Step[],
  guard: Guard,
  judged: (said: Decision, expected: Verdict, order: Ordered) => void,
): Promise<Past> {
  const { clock } = guard
  const past = new Past()

  async function give(quote: Given): Promise<void> {
    past.note(quote)
    await guard.quote(quote)
  }

  function withTimes<Terms>(terms: Terms, lifeMs: number, aheadMs = 0) {
    const givenAtMs = clock.nowMs()
    const endsAtMs = givenAtMs + lifeMs
    return { ...terms, givenAtMs, endsAtMs, expiresAtMs: endsAtMs + aheadMs }
  }

  for (const current of steps) {
    clock.advance(1)
    switch (current.doing) {
      case 'wait':
        clock.advance(current.ms)
        break
      case 'odd': {
        const one = { ...current, givenAtMs: clock.nowMs() }
        past.noteUnreadable(one)
        await guard.odd(one)
        break
      }
      case 'quote': {
        const quote = { ...current, requested: requestedFor(current) }
        await give(withTimes(quote, current.lifeMs, current.isAhead ? edgeAheadMs : 0))
        break
      }
      case 'requote': {
        const quote = past.quotes.at(-1 - current.back)
        if (quote !== undefined) await give(again(quote, current))
        break
      }
      case 'crowd':
        for (let index = 0; index < crowdSize; index += 1) {
          const one = { partition: `crowd ${index}`, to: `${current.start}${index}1` }
          const common = { pair: 'A_B', application: 'wallet', from: current.from, requested: current.from }
          await give(withTimes({ id: `crowd ${past.quotes.length}`, ...one, ...common }, 30_000))
        }
        break
      case 'order': {
        const { marginMs, othersKnown } = current
        const said = await guard.order(current, current)
        judged(said, decide(current, past, { nowMs: clock.nowMs(), marginMs, othersKnown }), current)
      }
    }
  }
  return past

  function again(quote: Given, { as, partition, lifeMs }: Extract<Step, { doing: 'requote' }>): Given {
    const isOver = quote.endsAtMs <= clock.nowMs()
    if (as === 'later' || isOver) return withTimes(quote, lifeMs, quote.expiresAtMs - quote.endsAtMs)
    const now = { ...quote, givenAtMs: clock.nowMs() }
    if (as === 'elsewhere') return { ...now, partition }
    return { ...now, endsAtMs: Math.min(quote.endsAtMs, clock.nowMs() + lifeMs) }
  }
}

/** Whether the guard says what the model says, and names a quote that it may name, or none. */
export function agrees(said: Decision, expected: Verdict): boolean {
  if (said.state !== expected.state || said.rule !== expected.rule) return false
  return said.quoteId === undefined || expected.quoteIds.includes(said.quoteId)
}
