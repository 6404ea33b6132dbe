import type { Decision, Guard } from './guard-histories.ts'
import {
  decide,
  type Given,
  type Ordered,
  Past,
  type Spelled,
  type Unreadable,
  type Verdict,
} from './guard-model.ts'

/** Every history of some steps out of these, and every order of a list after each of them. */
const seconds = 1_000
const minutes = 60 * seconds
const shortMs = 30 * seconds
const longMs = 60 * minutes

type Terms = Pick<Given, 'partition' | 'to'> &
  Partial<Pick<Given, 'application' | 'from'>> & { lifeMs?: number }

class World {
  readonly past = new Past()
  readonly guard: Guard
  #given = 0

  constructor(guard: Guard) {
    this.guard = guard
  }

  async give({ lifeMs = shortMs, ...terms }: Terms): Promise<void> {
    const id = `q${this.#given}`
    this.#given += 1
    const givenAtMs = this.guard.clock.nowMs()
    const endsAtMs = givenAtMs + lifeMs
    const times = { givenAtMs, endsAtMs, expiresAtMs: endsAtMs }
    await this.note({
      id,
      pair: 'A_B',
      from: '0.1',
      requested: '0.1',
      application: 'wallet',
      ...terms,
      ...times,
    })
  }

  /** The last quote once more; nothing where there is none. */
  async giveAgain(change: (quote: Given, nowMs: number) => Partial<Given>): Promise<void> {
    const quote = this.past.quotes.at(-1)
    const nowMs = this.guard.clock.nowMs()
    if (quote !== undefined) await this.note({ ...quote, givenAtMs: nowMs, ...change(quote, nowMs) })
  }

  async note(quote: Given): Promise<void> {
    this.past.note(quote)
    await this.guard.quote(quote)
  }

  async relay(terms: Pick<Unreadable, 'partition' | 'stated'>): Promise<void> {
    const givenAtMs = this.guard.clock.nowMs()
    const answer = { pair: 'A_B', requested: '0.1', application: 'wallet', ...terms, givenAtMs }
    this.past.noteUnreadable(answer)
    await this.guard.odd(answer)
  }

  async use(): Promise<void> {
    const header = this.past.quotes.at(-1)?.id
    const order = orderOf('a', '1', { header })
    await this.guard.order(order, { marginMs: 0, othersKnown: true, isUsed: true })
  }
}

const wait = (ms: number) => async (world: World) => world.guard.clock.advance(ms)
const give = (terms: Terms) => (world: World) => world.give(terms)

// Cut to six digits it is 289.645, rounded 289.646; a double does not hold all of its digits.
const exact = '289.645623451234567891'
const alphabet: Record<string, (world: World) => Promise<void>> = {
  'a is given the price': give({ partition: 'a', to: exact }),
  'a is given six digits of it': give({ partition: 'a', to: '289.645' }),
  'a is given a lower price that lives for an hour': give({ partition: 'a', to: '289.1', lifeMs: longMs }),
  'a is given a price for a rounded amount': give({ partition: 'a', to: exact, from: '0.1004' }),
  'b is given the price': give({ partition: 'b', to: exact }),
  'b is given a price that rounds alike': give({ partition: 'b', to: '289.64487' }),
  'b is given a lower price that lives for an hour': give({ partition: 'b', to: '288', lifeMs: longMs }),
  'a country is given six digits of it': give({ partition: 'DE', to: '289.645' }),
  'a client without an address is given the price': give({ partition: undefined, to: exact }),
  'another application of a is given the price': give({ partition: 'a', to: exact, application: 'shop' }),
  'the last quote comes again with a later expiry': (world) =>
    world.giveAgain((_, nowMs) => ({ endsAtMs: nowMs + longMs, expiresAtMs: nowMs + longMs })),
  'the last quote is given to b too': (world) => world.giveAgain(() => ({ partition: 'b' })),
  'the last quote comes again with a sooner end': (world) =>
    world.giveAgain(({ endsAtMs }, nowMs) => ({ endsAtMs: Math.min(endsAtMs, nowMs + 10 * seconds) })),
  'the last quote is used': (world) => world.use(),
  'a gets an unreadable answer': (world) => world.relay({ partition: 'a', stated: undefined }),
  'a client without an address gets one for another amount': (world) =>
    world.relay({ partition: undefined, stated: '7' }),
  'half a minute passes': wait(31 * seconds),
  'a quarter of an hour passes': wait(15 * minutes),
  'a day passes': wait(24 * 60 * minutes),
}

function orderOf(
  partition: string | undefined,
  to: string | number | undefined,
  changes: Partial<Ordered> = {},
): Ordered {
  const isAddress = partition === 'a' || partition === 'b'
  const stated = to === undefined ? undefined : spelled(to)
  const terms = { pair: 'A_B', from: spelled(0.1), to: stated, application: 'wallet' }
  return { ...terms, partition, isAddress, ...changes }
}

function spelled(amount: string | number): Spelled {
  return { text: String(amount), isNumber: typeof amount === 'number' }
}

const plainly = { marginMs: 0, othersKnown: true }
const clients = ['a', 'b', 'DE', undefined]
const amounts = [exact, Number(exact), '289.64500', '289.650', '289.6', '288.5', '291', undefined]
export const orders: readonly { order: Ordered; at: { marginMs: number; othersKnown: boolean } }[] = [
  ...clients.flatMap((client) => amounts.map((to) => ({ order: orderOf(client, to), at: plainly }))),
  ...[
    orderOf('a', exact, { header: 'q0' }),
    orderOf('b', '291', { header: 'q1', quoteId: 'q0' }),
    orderOf(undefined, undefined, { quoteId: 'q2', application: 'shop' }),
    orderOf('a', '291', { bareId: 'q0' }),
    orderOf('a', exact, { bareId: 'mine' }),
    orderOf('a', exact, { header: 'not-known' }),
    orderOf('a', String(Number(exact))),
    orderOf('a', exact, { application: 'shop' }),
    orderOf('b', undefined, { application: 'shop' }),
    orderOf('a', exact, { from: spelled('0.1004') }),
    orderOf(undefined, '1', { from: spelled(7) }),
    orderOf('a', exact, { pair: 'a_b' }),
  ].map((order) => ({ order, at: plainly })),
  { order: orderOf('a', exact), at: { marginMs: 0, othersKnown: false } },
  { order: orderOf('a', exact, { header: 'q0' }), at: { marginMs: 0, othersKnown: false } },
  { order: orderOf('a', '289.645'), at: { marginMs: 10 * seconds, othersKnown: true } },
  // Longer than an unreadable answer is taken to live, which the margin does not shorten.
  { order: orderOf('a', exact), at: { marginMs: 10 * minutes, othersKnown: true } },
]

/** `judged` is called for each order after each history of up to `steps` steps, each on a guard of its own. */
export async function playAll(
  steps: number,
  createGuard: () => Guard,
  judged: (said: Decision, expected: Verdict, of: () => { history: string[]; order: Ordered }) => void,
): Promise<void> {
  const names = Object.keys(alphabet)

  async function judge(history: string[]): Promise<void> {
    const world = new World(createGuard())
    const { guard, past } = world
    for (const name of history) {
      guard.clock.advance(1)
      await alphabet[name]?.(world)
    }
    for (const { order, at } of orders) {
      const said = await guard.order(order, { ...at, isUsed: false })
      judged(said, decide(order, past, { ...at, nowMs: guard.clock.nowMs() }), () => ({ history, order }))
    }
  }

  async function judgeFrom(history: string[]): Promise<void> {
    await judge(history)
    if (history.length < steps) for (const name of names) await judgeFrom([...history, name])
  }

  await judgeFrom([])
}
