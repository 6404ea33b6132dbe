import { expect, it } from 'vitest'
import { statesByRule } from '../../src/metrics/labels.ts'
import { environment } from '../support/machine/environment.ts'
import { agrees, isAddress, play, type Step } from './guard-histories.ts'
import type { Given, Ordered, Spelled } from './guard-model.ts'

/** Every history of some steps out of these, and every order of a list after each of them. */
// Four in `npm run check:long`.
const maxSteps = Number(environment().GUARD_STEPS ?? 3)
const patienceMs = 3_600_000
const seconds = 1_000
const minutes = 60 * seconds
const longMs = 60 * minutes

type Terms = Pick<Given, 'partition' | 'to'> &
  Partial<Pick<Given, 'application' | 'from'>> & { lifeMs?: number }
const given = (terms: Terms): Step => ({
  doing: 'quote',
  id: '',
  pair: 'A_B',
  from: '0.1',
  rounds: '0.1',
  application: 'wallet',
  lifeMs: 30 * seconds,
  isAhead: false,
  hasNumbers: false,
  ...terms,
})
const again = (as: 'later' | 'elsewhere' | 'sooner', lifeMs: number): Step => ({
  doing: 'requote',
  back: 0,
  as,
  partition: 'b',
  lifeMs,
})
const unreadable = (partition: string | undefined, stated: string | undefined): Step => ({
  doing: 'odd',
  pair: 'A_B',
  requested: '0.1',
  application: 'wallet',
  partition,
  stated,
})
const wait = (ms: number): Step => ({ doing: 'wait', ms })

// Cut to six digits it is 289.645, rounded 289.646; a double does not hold all of its digits.
const exact = '289.645623451234567891'
const alphabet: Record<string, Step> = {
  'a is given the price': given({ partition: 'a', to: exact }),
  'a is given six digits of it': given({ partition: 'a', to: '289.645' }),
  'a is given a lower price that lives for an hour': given({
    partition: 'a',
    to: '289.1',
    lifeMs: longMs,
  }),
  'a is given a price for a rounded amount': given({
    partition: 'a',
    to: exact,
    from: '0.1004',
  }),
  'b is given the price': given({ partition: 'b', to: exact }),
  'b is given a price that rounds alike': given({ partition: 'b', to: '289.64487' }),
  'b is given a lower price that lives for an hour': given({
    partition: 'b',
    to: '288',
    lifeMs: longMs,
  }),
  'a country is given six digits of it': given({ partition: 'DE', to: '289.645' }),
  'a user without an address is given the price': given({
    partition: undefined,
    to: exact,
  }),
  'another application of a is given the price': given({
    partition: 'a',
    to: exact,
    application: 'shop',
  }),
  'another application of b is given a lower price that lives for an hour': given({
    partition: 'b',
    to: '288.9',
    application: 'shop',
    lifeMs: longMs,
  }),
  'the last quote comes again with a later expiry': again('later', longMs),
  'the last quote is given to b too': again('elsewhere', longMs),
  'the last quote comes again with a sooner end': again('sooner', 10 * seconds),
  'a gets an unreadable answer': unreadable('a', undefined),
  'a user without an address gets one for another amount': unreadable(undefined, '7'),
  'half a minute passes': wait(31 * seconds),
  'a quarter of an hour passes': wait(15 * minutes),
  'a day passes': wait(24 * 60 * minutes),
}

type Order = Extract<Step, { doing: 'order' }>

const plainly = { marginMs: 0, othersKnown: true }

function order(
  partition: string | undefined,
  to: string | number | undefined,
  changes: Partial<Ordered> = {},
  at = plainly,
): Order {
  const stated = to === undefined ? undefined : spelled(to)
  const terms = { pair: 'A_B', from: spelled(0.1), to: stated, application: 'wallet' }
  return {
    doing: 'order',
    ...terms,
    partition,
    isAddress: isAddress(partition),
    ...changes,
    ...at,
  }
}

function spelled(amount: string | number): Spelled {
  return { text: String(amount), isNumber: typeof amount === 'number' }
}

const amounts = [
  exact,
  Number(exact),
  '289.64500',
  '289.650',
  '289.6',
  '288.5',
  '291',
  undefined,
]
const orders: readonly Order[] = [
  ...['a', 'b', 'DE', undefined].flatMap((client) =>
    amounts.map((to) => order(client, to)),
  ),
  order('a', exact, { header: 'q0' }),
  order('b', '291', { header: 'q1', quoteId: 'q0' }),
  order(undefined, undefined, { quoteId: 'q2', application: 'shop' }),
  order('a', '291', { bareId: 'q0' }),
  order('a', exact, { bareId: 'mine' }),
  order('a', exact, { header: 'not-known' }),
  order('a', String(Number(exact))),
  order('a', exact, { application: 'shop' }),
  order('b', undefined, { application: 'shop' }),
  order('a', exact, { from: spelled('0.1004') }),
  order('a', exact, { from: { text: '0.10000000000000001', isNumber: true } }),
  order('a', exact, { from: spelled('0.10000000000000001') }),
  order(undefined, '1', { from: spelled(7) }),
  order('a', exact, { pair: 'a_b' }),
  order('a', exact, {}, { marginMs: 0, othersKnown: false }),
  order('a', exact, { header: 'q0' }, { marginMs: 0, othersKnown: false }),
  order('a', '289.645', {}, { marginMs: 10 * seconds, othersKnown: true }),
  // Longer than an unreadable answer is taken to live, which the margin does not shorten.
  order('a', exact, {}, { marginMs: 10 * minutes, othersKnown: true }),
]

it(
  'the guard and its model say the same of every order after every short history',
  () => {
    const seen = new Set<string>()

    function playFrom(names: readonly string[]): void {
      const steps = names.map((name, index) => ({
        ...(alphabet[name] as Step),
        id: `q${index}`,
      }))
      play([...steps, ...orders], 100, (one) => {
        const { said, expected, order } = one
        if (!agrees(one))
          expect({ names, order, said }).toEqual({ names, order, said: expected })
        seen.add(`${said.state} ${said.rule}`)
      })
      if (names.length < maxSteps)
        for (const name of Object.keys(alphabet)) playFrom([...names, name])
    }

    playFrom([])
    const labelled = Object.entries(statesByRule).flatMap(([rule, states]) =>
      states.map((state) => `${state} ${rule}`),
    )
    // None of these histories has a restart.
    expect([...seen, 'unknown restored'].sort()).toEqual(labelled.sort())
  },
  patienceMs,
)
