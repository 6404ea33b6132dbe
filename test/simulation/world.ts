import { createHash } from 'node:crypto'
import { VirtualTime } from '../support/machine/virtual-time.ts'
import { MemoryStore } from '../support/stores/memory-store.ts'
import { SimulatedStream } from '../support/stores/simulated-stream.ts'
import { Chance } from './chance.ts'
import { type Made, Provider } from './provider.ts'
import { inVirtualTime, type Wait } from './real-world.ts'
import { Replica } from './replica.ts'
import type { StoreInMemory } from './store-line.ts'
import { User } from './user.ts'

const epochMs = Date.UTC(2025, 10, 20, 15, 17, 21)
/** One for all worlds of the process, because undici keeps one timer for all of its clients. */
const time = new VirtualTime()
const users = 20
/** Of a clock that is set wrong. By less, no `Date` shows it, and quotes are judged by that clock (docs/limits.md). */
const clockSteps = [-3_600_000, -40_000, -5_000, 5_000, 40_000, 3_600_000] as const
/** Each of two replicas may be cautious for so long after the store was away, and pass late orders. */
const afterStoreMs = 5_000
/** An `expiry` that is known by a `Date`, which is cut and lags, ends so much later. */
const maxDateLagMs = 1_250

interface History {
  readonly wrong: readonly string[]
  /** What it did, so that one in which nothing happened does not pass for a good one. */
  readonly facts: World['facts']
  /** Of all that users and the provider saw, and when. */
  readonly digest: string
}

/** Two replicas, their users, the provider and the store, for some minutes of which all is drawn from one seed. */
export class World {
  readonly timers = time
  readonly untilThen: Wait
  readonly provider: Provider
  readonly store: StoreInMemory
  readonly replicas: Replica[] = []
  readonly facts = { quotes: 0, hits: 0, orders: 0, refused: 0, replayed: 0, troubles: 0 }
  readonly #wrong: string[] = []
  readonly #seen = createHash('sha256')
  readonly #chance: Chance
  readonly #endsAtMs: number
  #orders = 0
  #clocksWrongAtMs = Number.NEGATIVE_INFINITY
  #storeWrongAtMs = Number.NEGATIVE_INFINITY

  static async play(seed: number, minutes: number): Promise<History> {
    time.begin()
    const chance = new Chance(seed)
    return inVirtualTime(
      { time, epochMs, random: chance.fork().next },
      async (pass, untilThen) => {
        const world = new World(chance, minutes, untilThen)
        await world.#play(pass)
        return {
          wrong: world.#wrong,
          facts: world.facts,
          digest: world.#seen.digest('hex'),
        }
      },
    )
  }

  private constructor(chance: Chance, minutes: number, untilThen: Wait) {
    this.untilThen = untilThen
    this.#chance = chance
    this.#endsAtMs = this.nowMs() + minutes * 60_000
    this.provider = new Provider(this, chance.fork())
    const trip = chance.fork()
    this.store = {
      stream: new SimulatedStream(),
      scripts: new MemoryStore(() => Math.floor(this.nowMs())),
      isAway: false,
      timesAway: 0,
      slowMs: 0,
      tripMs: () => this.store.slowMs + (trip.happens(0.2) ? trip.between(1, 4) : 0),
    }
  }

  /** The true time, which is also the provider's and the store's. */
  nowMs(): number {
    return epochMs + time.steadyMs()
  }

  get isOver(): boolean {
    return this.nowMs() >= this.#endsAtMs
  }

  get areClocksRight(): boolean {
    return this.replicas.every(({ clockAheadMs }) => clockAheadMs === 0)
  }

  get isStoreWell(): boolean {
    const { isAway, slowMs } = this.store
    return !isAway && slowMs === 0 && this.nowMs() > this.#storeWrongAtMs + afterStoreMs
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => time.setTimeout(resolve, ms))
  }

  nextOrder(): number {
    this.#orders += 1
    return this.#orders
  }

  saw(what: string): void {
    this.#seen.update(`${time.steadyMs()} ${what}\n`)
  }

  wrong(what: string): void {
    if (this.#wrong.length < 20) this.#wrong.push(`${time.steadyMs()} ${what}`)
  }

  /** The provider has an order for a quote that is over, though all clocks were right and the store was there. */
  orderArrived(quoteId: string): void {
    this.saw(`order for ${quoteId}`)
    const made = this.provider.made.get(quoteId)
    if (made === undefined || !this.#isKnownToAll(made)) return
    const lateMs = this.nowMs() - made.endsAtMs
    if (lateMs > made.tookMs + maxDateLagMs)
      this.wrong(`an order for ${quoteId} was sent ${lateMs} ms late`)
  }

  #isKnownToAll({ madeAtMs, isTimeKnown }: Made): boolean {
    const sinceMs = Math.max(this.#clocksWrongAtMs, this.#storeWrongAtMs + afterStoreMs)
    return isTimeKnown && this.areClocksRight && this.isStoreWell && madeAtMs > sinceMs
  }

  async #play(pass: (ms: number) => Promise<void>): Promise<void> {
    for (const number of [0, 1]) this.replicas.push(new Replica(this, number))
    const begin = async () => {
      for (const replica of this.replicas) await replica.start()
      for (let number = 0; number < users; number += 1)
        void new User(this, `203.0.113.${number % 4}`, this.#chance.fork()).live()
      void this.#trouble((chance) => [() => this.#ofProvider(chance)])
      void this.#trouble((chance) => [
        () => this.#ofDates(chance),
        () => this.#ofClock(chance),
        () => this.#ofStore(chance),
        () => this.#restart(chance),
        () => this.#restart(chance),
      ])
    }
    void begin().catch((error) => this.wrong(String(error.stack)))
    await pass(this.#endsAtMs - this.nowMs())
    // Retries, deadlines and what is read to its end for callers that have left.
    await pass(90_000)
    for (const replica of this.replicas) {
      for (const what of replica.held())
        this.wrong(`replica ${replica.number} holds ${what}`)
      void replica.close().catch((error) => this.wrong(String(error.stack)))
    }
    await pass(60_000)
    for (const { number, timers } of this.replicas)
      if (timers.set.size > 0)
        this.wrong(`replica ${number} has ${timers.set.size} timers after its end`)
  }

  /**
   * One trouble of these at a time, and time between them. The provider may fail in whatever else happens; what two of
   * the others may do at once is in docs/limits.md.
   */
  async #trouble(
    of: (chance: Chance) => [() => Promise<void>, ...(() => Promise<void>)[]],
  ): Promise<void> {
    const chance = this.#chance.fork()
    const troubles = of(chance)
    for (;;) {
      await this.sleep(chance.between(4_000, 20_000))
      if (this.isOver) return
      this.facts.troubles += 1
      await chance.of(troubles)()
    }
  }

  async #ofProvider(chance: Chance): Promise<void> {
    this.provider.trouble = chance.of([
      'slow',
      'hangs',
      'resets',
      'fails',
      'cuts',
      'limits',
      'refuses',
    ])
    await this.sleep(chance.between(2_000, 20_000))
    this.provider.trouble = 'none'
  }

  async #ofDates(chance: Chance): Promise<void> {
    this.provider.dates = chance.of(['wrong', 'absent'])
    await this.sleep(chance.between(2_000, 20_000))
    this.provider.dates = 'right'
  }

  async #ofClock(chance: Chance): Promise<void> {
    const replica = chance.of(this.replicas as [Replica, Replica])
    replica.clockAheadMs = chance.of(clockSteps)
    await this.sleep(chance.between(2_000, 90_000))
    replica.clockAheadMs = 0
    this.#clocksWrongAtMs = this.nowMs()
  }

  async #ofStore(chance: Chance): Promise<void> {
    const { store } = this
    if (chance.happens(0.5)) store.slowMs = chance.of([30, 60, 300])
    else {
      store.isAway = true
      store.timesAway += 1
    }
    await this.sleep(chance.between(1_000, 15_000))
    store.isAway = false
    store.slowMs = 0
    this.#storeWrongAtMs = this.nowMs()
  }

  async #restart(chance: Chance): Promise<void> {
    const number = chance.between(0, 1)
    const before = this.replicas[number] as Replica
    if (chance.happens(0.5)) before.kill()
    else await before.close()
    await this.sleep(chance.between(50, 4_000))
    const after = new Replica(this, number)
    this.replicas[number] = after
    await after.start()
  }
}
