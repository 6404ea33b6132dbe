import fc from 'fast-check'
import { Ledger } from '../../src/memory/ledger.ts'
import { FloatOrder } from '../../src/orders/guard.ts'
import { readOrder } from '../../src/orders/order-terms.ts'
import { createTestClock } from '../support/clients/quotes.ts'
import {
  type At,
  decide,
  type Given,
  type Ordered,
  Past,
  plain,
  type Spelled,
  type Unreadable,
  type Verdict,
} from './guard-model.ts'

/** An order as its caller writes it. */
function bodyOf({
  quoteId,
  bareId,
  pair: pairId,
  from: fromAmount,
  to,
}: Ordered): Buffer {
  const spelled = ({ text, isNumber }: Spelled) => (isNumber ? text : `"${text}"`)
  const members = [`"pairId":"${pairId}"`, `"fromAmount":${spelled(fromAmount)}`]
  if (to !== undefined)
    members.push(`"toAmount":${to === 'odd' ? '"about 7"' : spelled(to)}`)
  if (quoteId !== undefined) members.push(`"quoteId":"${quoteId}"`)
  if (bareId !== undefined) members.push(`"id":"${bareId}"`)
  return Buffer.from(`{${members.join(',')}}`)
}

type Untimed<One> = Omit<One, 'givenAtMs' | 'endsAtMs' | 'expiresAtMs'>

export type Step =
  /** `rounds`: the provider's amount, where that is near the one that was asked for. */
  | ({
      doing: 'quote'
      rounds?: string | undefined
      lifeMs: number
      isAhead: boolean
    } & Untimed<Omit<Given, 'requested'>>)
  /** One of the last quotes again: with a later expiry, to another user, or with the same expiry and another end. */
  | {
      doing: 'requote'
      back: number
      as: 'later' | 'elsewhere' | 'sooner'
      partition?: string
      lifeMs: number
    }
  /** More than lists of honest users have room for, alike but for one thing. */
  | ({
      doing: 'crowd'
      but: keyof typeof crowds
      lifeMs: number
      numbers?: { from: number; count: number }
    } & Pick<Given, keyof typeof whose>)
  | ({ doing: 'odd' } & Untimed<Unreadable>)
  | { doing: 'wait'; ms: number }
  | ({ doing: 'order'; marginMs: number; othersKnown: boolean } & Ordered)

/** How far the clock of one of the provider's two edges is ahead. */
const edgeAheadMs = 5_000

// Few of each, so that they meet.
const from = fc.constantFrom(
  '0.1',
  '0.1000000000000000055',
  '123456789.123456789',
  '123456789.12345679',
)
const price = fc.constantFrom(
  ...[
    '0.034512345678901234',
    '0.0345123',
    '0.034511',
    '0.0345',
    '0.99991',
    '0.99999',
    '1',
    '1.00004',
  ],
  ...['289.645', '289.6451', '289.64512', '289.64512345', '289.35', '283.85', '290'],
  // Two that have one nearest double.
  ...['99999.6', '12345600', '123456789.123456789', '123456789.12345679'],
)
const application = fc.constantFrom('wallet', 'wallet', 'shop')
// Two addresses, a country, and users without an address.
const partition = fc.constantFrom('a', 'a', 'b', 'DE', undefined)
const pair = fc.constantFrom('A_B', 'A_B', 'A_B', 'B_A', 'a_b')
const id = fc.constantFrom('q0', 'q1', 'q2', 'q3')
const lifeMs = fc.oneof(fc.integer({ min: 1, max: 50 }), fc.constant(30_000))
const whose = { pair, application, partition }

const seldom = <Value>(value: fc.Arbitrary<Value>, weight = 7) =>
  fc.oneof({ weight, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: value })
const doing = <What extends string>(what: What) => fc.constant(what)

const quoted = fc.record({
  doing: doing('quote'),
  id: fc.oneof({ weight: 3, arbitrary: fc.uuid() }, { weight: 1, arbitrary: id }),
  from,
  rounds: seldom(
    fc.constantFrom('0.1', '0.1004', '123456789.123456789', '123456789.12345679'),
  ),
  to: price,
  hasNumbers: fc.constantFrom<boolean>(false, false, false, true),
  ...whose,
  lifeMs,
  isAhead: fc.boolean(),
})
const requoted = fc.record({
  doing: doing('requote'),
  back: fc.nat(2),
  as: fc.constantFrom('later', 'later', 'elsewhere', 'sooner'),
  partition,
  lifeMs,
})
const crowds = {
  price: (at: number) => ({ to: `289.3${at}` }),
  taken: (at: number) => ({ from: `0.1000${at}` }),
  asked: (at: number) => ({
    from: `0.1000000000000000${at}`,
    requested: `0.1000000000000000${at}`,
  }),
  client: (at: number) => ({ partition: `c${at}` }),
}
const but = fc.constantFrom('price', 'taken', 'asked', 'client')
const crowd = fc.record({ doing: doing('crowd'), but, ...whose, lifeMs })
const odd = fc.record({
  doing: doing('odd'),
  requested: from,
  stated: seldom(from),
  ...whose,
})
const waited = fc.record({
  doing: doing('wait'),
  ms: fc.oneof(
    fc.integer({ min: 0, max: 60 }),
    fc.constantFrom(30_000, 900_000, 899_990, 86_400_000),
  ),
})

/** What callers make of a price that they were given, or of a number of their own. */
const amountOf = (
  price: fc.Arbitrary<string>,
  decimals = fc.integer({ min: 0, max: 12 }),
): fc.Arbitrary<Spelled> =>
  fc
    .record({
      price,
      decimals,
      spell: fc.constantFrom<((price: string, decimals: number) => string)[]>(
        (price) => price,
        (price) => price,
        (price) => (price.includes('.') ? `${price}00` : `${price}.00`),
        (price) => plain(String(Number(price))),
        // As Swift and `%.17g` write a double.
        (price) => Number(price).toPrecision(17),
        (price, decimals) => Number(price).toFixed(decimals),
        (price, decimals) =>
          (Math.ceil(Number(price) * 10 ** decimals) / 10 ** decimals).toFixed(decimals),
        (price, decimals) =>
          (Math.floor(Number(price) * 10 ** decimals) / 10 ** decimals).toFixed(decimals),
        (price, decimals) => (Number(price) * 0.998).toFixed(decimals),
        (price, decimals) => Number(price).toExponential(Math.max(1, decimals)),
      ),
      isNumber: fc.boolean(),
    })
    .map(({ price, decimals, spell, isNumber }) => ({
      text: spell(price, decimals),
      isNumber,
    }))

const ordered = fc
  .record({
    doing: doing('order'),
    header: seldom(id, 20),
    quoteId: seldom(id),
    bareId: seldom(fc.constantFrom('q0', 'q1', 'my-own')),
    from: fc.record({
      text: fc.oneof(
        { weight: 7, arbitrary: from },
        { weight: 1, arbitrary: fc.constantFrom('0.1004', '0.10000000000000001') },
      ),
      isNumber: fc.boolean(),
    }),
    to: fc.oneof(
      { weight: 8, arbitrary: amountOf(price) },
      { weight: 1, arbitrary: fc.constant('odd' as const) },
      { weight: 2, arbitrary: fc.constant(undefined) },
    ),
    ...whose,
    marginMs: fc.constantFrom<number>(0, 0, 0, 10),
    othersKnown: fc.constantFrom<boolean>(true, true, true, false),
  })
  .map((order) => ({ ...order, isAddress: isAddress(order.partition) }))

export const isAddress = (partition: string | undefined) =>
  partition === 'a' || partition === 'b'

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 5, arbitrary: quoted },
  { weight: 1, arbitrary: requoted as fc.Arbitrary<Step> },
  { weight: 1, arbitrary: odd },
  { weight: 1, arbitrary: crowd as fc.Arbitrary<Step> },
  { weight: 2, arbitrary: waited },
  { weight: 4, arbitrary: ordered },
)

/**
 * What a few users of two applications are given in one market. The lowest price lives long, so that many orders come when
 * the price has fallen. The orders are those of one application, and state such prices, or what a page shows of them.
 */
const lowest = '289.13'
const higher = ['289.64512345', '289.64512', '289.645', '289.35']
const market = fc.constantFrom(...higher, lowest, lowest)
const shown = fc.oneof(
  amountOf(market, fc.integer({ min: 2, max: 4 })),
  market.map((text) => ({ text, isNumber: false })),
)
const marketStep = fc
  .tuple(step, market, shown, fc.constantFrom('a', 'a', 'b'))
  .map(([one, price, stated, partition]): Step => {
    const terms = { pair: 'A_B', partition }
    const lifeMs = price === lowest ? 30_000 : 20
    if (one.doing === 'quote') return { ...one, ...terms, from: '0.1', to: price, lifeMs }
    if (one.doing !== 'order') return one
    const order = { ...one, ...terms, application: 'wallet', isAddress: true }
    return { ...order, from: { text: '0.1', isNumber: true }, to: stated }
  })

const length = { minLength: 6, maxLength: 24, size: 'max' } as const
export const history = fc.oneof(fc.array(step, length), fc.array(marketStep, length))

/**
 * For a ledger that is full: what was noted first is dropped first, so that also ends first. Every history begins with a
 * quote, or its first unreadable answers would count for longer than what follows.
 */
export const crowdedHistory = fc.tuple(quoted, history).map(([first, others]) =>
  [first, ...others].map((one): Step => {
    if (one.doing === 'quote') return { ...one, lifeMs: 30_000, isAhead: false }
    if (one.doing === 'crowd') return { ...one, lifeMs: 30_000 }
    return one.doing === 'requote' ? { ...one, lifeMs: 30_000, as: 'later' } : one
  }),
)

/** What the guard says of an order, and what the model says. */
export interface Judged {
  said: { state: string; rule: string; quoteId: string | undefined }
  expected: Verdict
  order: Ordered
  at: At
  past: Past
}

/** Plays a history to the guard and its model; `judged` is called for each order. */
export function play(
  steps: readonly Step[],
  entries: number,
  judged: (one: Judged) => void,
): void {
  const clock = createTestClock()
  const ledger = new Ledger({ entries, clock })
  const past = new Past()

  function give(given: Given): void {
    const quote = given.hasNumbers ? withNumbers(given) : given
    past.note(quote)
    const {
      id,
      pair,
      application,
      partition,
      from,
      requested,
      to,
      hasNumbers,
      endsAtMs,
      expiresAtMs,
      givenAtMs,
    } = quote
    ledger.note({
      id,
      pairId: pair,
      application,
      partition,
      cacheKey: 'key',
      notedAtMs: givenAtMs,
      fromValue: plain(from),
      requestedAmount: plain(requested),
      toValue: plain(to),
      hasNumbers,
      expiresAtMs,
      refusedFromMs: endsAtMs,
      wallAheadMs: 0,
    })
  }

  function relay(answer: Unreadable): void {
    past.noteUnreadable(answer)
    const { pair, requested, stated = requested, application, partition } = answer
    for (const requestedAmount of new Set([requested, stated].map(plain)))
      ledger.note(
        ledger.unreadable({ pairId: pair, application, partition, requestedAmount }),
      )
  }

  function judge(order: Ordered, at: At): Judged {
    const { header, application, partition, isAddress } = order
    const reading = readOrder(bodyOf(order), {
      quoteIdFields: ['quoteId', 'quote.id', 'id'],
      header,
    })
    if (reading.order === undefined) throw new Error(reading.problem)
    const asked = { application, partition, isAddress, ...at }
    const { verdict } = new FloatOrder(reading.order, asked, ledger)
    const { state, rule } = verdict
    const said = {
      state,
      rule,
      quoteId: 'quote' in verdict ? verdict.quote.id : undefined,
    }
    return { said, expected: decide(order, past, at), order, at, past }
  }

  function withTimes<Terms>(terms: Terms, lifeMs: number, aheadMs = 0) {
    const givenAtMs = clock.nowMs()
    const endsAtMs = givenAtMs + lifeMs
    return { ...terms, givenAtMs, endsAtMs, expiresAtMs: endsAtMs + aheadMs }
  }

  function again(
    quote: Given,
    { as, partition, lifeMs }: Extract<Step, { doing: 'requote' }>,
  ): Given {
    const isOver = quote.endsAtMs <= clock.nowMs()
    if (as === 'later' || isOver)
      return withTimes(quote, lifeMs, quote.expiresAtMs - quote.endsAtMs)
    const now = { ...quote, givenAtMs: clock.nowMs() }
    if (as === 'elsewhere') return { ...now, partition }
    return { ...now, endsAtMs: Math.min(quote.endsAtMs, clock.nowMs() + lifeMs) }
  }

  for (const one of steps) {
    clock.advance(1)
    if (one.doing === 'wait') clock.advance(one.ms)
    else if (one.doing === 'crowd') {
      const { but, lifeMs, numbers = { from: 10, count: 70 }, ...others } = one
      const amounts = { from: '0.1', requested: '0.1', to: '289.35', hasNumbers: false }
      const alike = { ...others, ...amounts }
      for (let at = numbers.from; at < numbers.from + numbers.count; at += 1)
        give(withTimes({ ...alike, id: `${but}${at}`, ...crowds[but](at) }, lifeMs))
    } else if (one.doing === 'odd') relay({ ...one, givenAtMs: clock.nowMs() })
    else if (one.doing === 'quote') {
      const quote = { ...one, requested: requestedFor(one) }
      give(withTimes(quote, one.lifeMs, one.isAhead ? edgeAheadMs : 0))
    } else if (one.doing === 'requote') {
      const quote = past.quotes.at(-1 - one.back)
      if (quote !== undefined) give(again(quote, one))
    } else {
      const { marginMs, othersKnown } = one
      judged(judge(one, { nowMs: clock.nowMs(), marginMs, othersKnown }))
    }
  }
}

/** What is left of its amounts in JSON. */
function withNumbers(quote: Given): Given {
  const { from, to } = quote
  return { ...quote, from: String(Number(from)), to: String(Number(to)) }
}

/** A quote for quite another amount than was asked for would count as unreadable. */
function requestedFor({
  from,
  rounds = from,
}: {
  from: string
  rounds?: string | undefined
}): string {
  return Math.abs(Number(from) - Number(rounds)) < Number(rounds) / 100 ? rounds : from
}

/** Whether the guard says what the model says, and names a quote that it may name, or none. */
export function agrees({ said, expected }: Judged): boolean {
  const { state, rule, quoteIds } = expected
  if (said.state !== state || said.rule !== rule) return false
  return said.quoteId === undefined || quoteIds.includes(said.quoteId)
}
