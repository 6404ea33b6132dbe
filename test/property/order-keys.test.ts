import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { completeClock } from '../../src/clock.ts'
import { Events } from '../../src/events.ts'
import { UpstreamFailure } from '../../src/http/failure.ts'
import { Problem } from '../../src/http/problem.ts'
import { type KeyKeeper, OrderKeys } from '../../src/memory/keys.ts'
import { KeyedOrders } from '../../src/orders/keyed-orders.ts'
import type { WholeAnswer } from '../../src/upstream/fetch.ts'
import { deferred } from '../support/clients/quotes.ts'
import { environment } from '../support/machine/environment.ts'

/** `npm run check:long` asks for more. */
const runs = Number(environment().ORDER_KEY_HISTORIES ?? 300)
const orderMs = 15_000
const dayMs = 86_400_000

type Clock = { ms: number; nowMs(): number; steadyMs(): number }

/** What two replicas share, or what a folder has: a claim is atomic there, and a settled key stays settled. */
class Kept implements KeyKeeper {
  readonly #clock: Clock
  readonly lines = new Map<string, { text: string; atMs: number; by: unknown }>()
  /** A folder knows only what its own process has told it. */
  readonly #isShared: boolean
  readonly #owner: unknown

  constructor(clock: Clock, isShared: boolean, owner: unknown, lines?: Kept['lines']) {
    this.#clock = clock
    this.#isShared = isShared
    this.#owner = owner
    if (lines !== undefined) this.lines = lines
  }

  read(keys: OrderKeys): void {
    for (const [id, { text, atMs }] of this.lines)
      keys.restore(id, text, this.#clock.ms - atMs)
  }

  async find(id: string) {
    const found = this.lines.get(id)
    const isOver = found === undefined || this.#clock.ms - found.atMs >= dayMs
    return this.#isShared && !isOver
      ? { text: found.text, ageMs: this.#clock.ms - found.atMs }
      : undefined
  }

  async claim(id: string, text: string) {
    const found = await this.find(id)
    if (found !== undefined) return found
    this.lines.set(id, { text, atMs: this.#clock.ms, by: this.#owner })
    return undefined
  }

  async settle(id: string, text: string | undefined, ageMs: number) {
    const found = this.lines.get(id)
    if (this.#isShared && found !== undefined && found.by !== this.#owner) return
    if (text === undefined) this.lines.delete(id)
    else this.lines.set(id, { text, atMs: this.#clock.ms - ageMs, by: this.#owner })
  }
}

interface Replica {
  keyed: KeyedOrders
  folder: Kept
  isAlive: boolean
}

interface Sending {
  key: string
  replica: Replica
  end: ReturnType<typeof deferred<WholeAnswer>>
}

const often = <const What>(times: number, what: What): What[] =>
  Array<What>(times).fill(what)
const step = fc.record({
  doing: fc.constantFrom(
    ...often(6, 'click'),
    ...often(4, 'end'),
    ...often(1, 'kill'),
    ...often(1, 'wait'),
  ),
  at: fc.nat(1),
  key: fc.nat(2),
  body: fc.nat(1),
  which: fc.nat(5),
  how: fc.constantFrom('answered', 'failed status', 'lost', 'refused', 'limited'),
  ms: fc.constantFrom(1_000, orderMs + 6_000, 0.8 * dayMs, dayMs + 1),
})

const answerOf = (status: number, text: string): WholeAnswer =>
  ({
    status,
    reason: '',
    rawHeaders: ['X-For', text],
    body: Buffer.from(text),
  }) as WholeAnswer

const timedOut = () =>
  new UpstreamFailure('swap', { fault: 'http_response_timeout', maybeSeen: true })

/** Lets all that is settled go on. */
const settle = () => new Promise<void>((resolve) => setImmediate(resolve))

type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never

async function play(where: string, steps: readonly Step[]): Promise<void> {
  const isFleet = where.startsWith('two')
  const hasFolder = where.includes('folder')
  const clock: Clock = { ms: dayMs, nowMs: () => clock.ms, steadyMs: () => clock.ms }
  const shared: Kept['lines'] = new Map()
  const start = async (before?: Replica): Promise<Replica> => {
    const owner = {}
    const folder = new Kept(clock, false, owner, before?.folder.lines)
    const store = new Kept(clock, true, owner, shared)
    const keepers = [...(hasFolder ? [folder] : []), ...(isFleet ? [store] : [])]
    const events = new Events()
    const keys = new OrderKeys({ keepers, orderMs, clock: completeClock(clock), events })
    if (hasFolder) folder.read(keys)
    return { keyed: new KeyedOrders({ salt: '', keys, events }), folder, isAlive: true }
  }
  const replicas = [await start(), await start()]
  const sendings: Sending[] = []
  /** Of each key whose order the provider may have, since when, and what it answered. */
  const seen = new Map<string, { claimedMs: number; answer?: string }>()
  let made = 0

  const click = async (replica: Replica, key: string, body: string): Promise<void> => {
    const exchange = { target: '/v3/orders/float', endsAs() {} }
    const claimedMs = clock.ms
    let isNew = false
    const send = (): Promise<WholeAnswer> => {
      isNew = true
      const before = seen.get(key)
      const isFree = before === undefined || claimedMs - before.claimedMs >= dayMs
      expect(isFree, `${key} is sent twice`).toBe(true)
      seen.set(key, { claimedMs })
      const end = deferred<WholeAnswer>()
      sendings.push({ key, replica, end })
      return end.promise
    }
    try {
      const order = { key, headers: [], bytes: Buffer.from(body), terms: undefined }
      const { body: bytes } = await replica.keyed.once(exchange, order, send)
      if (!isNew && replica.isAlive) expect(bytes.toString()).toBe(seen.get(key)?.answer)
    } catch (error) {
      if (!(error instanceof Problem || error instanceof UpstreamFailure)) throw error
      if (!(error instanceof Problem)) return
      if (error.slug === 'order-in-progress' || error.slug === 'order-outcome-unknown')
        expect(seen.get(key)?.answer, `${key} was answered`).toBeUndefined()
      // It is said to be on its way while it is, or may be at a replica that died.
      if (error.slug !== 'order-in-progress') return
      const forMs = clock.ms - (seen.get(key)?.claimedMs ?? clock.ms)
      const isOnItsWay =
        sendings.some((one) => one.key === key && one.replica.isAlive) ||
        (isFleet && forMs <= orderMs + 5_000)
      expect(isOnItsWay, `${key} is on its way without end`).toBe(true)
    }
  }

  const clicks: Promise<void>[] = []
  for (const one of steps) {
    const alive = sendings.filter(({ replica }) => replica.isAlive)
    const at = isFleet ? one.at : 0
    const replica = replicas[at] as Replica
    if (one.doing === 'click') clicks.push(click(replica, `k${one.key}`, `b${one.body}`))
    else if (one.doing === 'wait') {
      // No order lasts for so long: it is given up after its time.
      for (const sending of one.ms > orderMs + 6_000 ? alive : []) {
        sendings.splice(sendings.indexOf(sending), 1)
        sending.end.reject(timedOut())
      }
      await settle()
      clock.ms += one.ms
    } else if (one.doing === 'kill') {
      replica.isAlive = false
      replicas[at] = await start(replica)
    } else {
      const sending = alive[one.which % Math.max(1, alive.length)]
      if (sending === undefined) continue
      sendings.splice(sendings.indexOf(sending), 1)
      const { key, end } = sending
      const mine = seen.get(key)
      made += 1
      const answer = `${key} ${made}`
      if (one.how === 'refused' || one.how === 'limited') seen.delete(key)
      else if (one.how !== 'lost' && mine !== undefined) mine.answer = answer
      if (one.how === 'lost') end.reject(timedOut())
      else if (one.how === 'refused')
        end.reject(new Problem('quote-expired', { detail: '' }))
      else
        end.resolve(
          answerOf(
            one.how === 'limited' ? 429 : one.how === 'answered' ? 201 : 500,
            answer,
          ),
        )
    }
    await settle()
  }
  for (const { end } of sendings) end.reject(timedOut())
  await Promise.all(clicks)
}

const kept =
  '{"digest":"d","status":201,"reason":"","rawHeaders":["A","b"],"body":"eA==",'
test.each([
  '{',
  'null',
  '{"state":"large"}',
  '{"digest":"d"}',
  '{"digest":"d","state":"toString"}',
  `${kept}"digest":1}`,
  `${kept}"status":201.5}`,
  `${kept}"reason":1}`,
  `${kept}"body":[1]}`,
  `${kept}"rawHeaders":"A"}`,
  `${kept}"rawHeaders":[1]}`,
])(
  'an order of which a keeper says %s has an outcome that is not known',
  async (text) => {
    const keeper: KeyKeeper = {
      claim: async () => ({ text, ageMs: 0 }),
      settle: async () => {},
    }
    const parts = { clock: completeClock({ nowMs: () => 0 }), events: new Events() }
    const keys = new OrderKeys({ keepers: [keeper], orderMs, ...parts })
    const keyed = new KeyedOrders({ salt: '', keys, events: parts.events })
    const order = { key: 'k', headers: [], bytes: Buffer.from('b'), terms: undefined }
    const sent = keyed.once(
      { target: '/v3/orders/float', endsAs() {} },
      order,
      expect.unreachable,
    )
    await expect(sent).rejects.toMatchObject({ slug: 'order-outcome-unknown' })
  },
)

describe('the provider sees the order of each key once, and what was answered once is answered alike, at', () => {
  test.each([
    'two replicas and a store',
    'two replicas, each with a folder, and a store',
    'one process and its folder',
  ])('%s', async (where) => {
    const history = fc.array(step, { maxLength: 40, size: 'max' })
    await fc.assert(
      fc.asyncProperty(history, (steps) => play(where, steps)),
      { numRuns: runs },
    )
  })
})
