import fc from 'fast-check'
import { expect, it } from 'vitest'
import { type Clock, systemClock, type Timer, type Timers } from '../../src/clock.ts'
import { Events } from '../../src/events.ts'
import { UpstreamFailure } from '../../src/http/failure.ts'
import type { JournalRecord } from '../../src/memory/journal.ts'
import { Ledger } from '../../src/memory/ledger.ts'
import { Notes } from '../../src/memory/notes.ts'
import { QuotesOfAll } from '../../src/memory/shared-quotes.ts'
import { ProviderLimit } from '../../src/quotes/provider-limit.ts'
import { QuoteStage, type StagedCall } from '../support/clients/quote-stage.ts'
import { quoteBody } from '../support/clients/quotes.ts'
import { environment } from '../support/machine/environment.ts'
import { MemoryStore } from '../support/stores/memory-store.ts'

// Two replicas with one store: the scheduler of fast-check says what comes next of all that is under way. Time goes on
// when a pause is over, and no sooner. Of the parts of a replica, those of the store's connection and the journal are
// played: a command or a record may be answered, lost or late, but not damaged.

const schedules = Number(environment().QUOTE_RACES ?? 10_000)
const startMs = Date.UTC(2025, 10, 20, 15, 17, 21)
/** So short that some quotes are over before their turn, since each look for one takes up to 50 ms. */
const lifeMs = 120
/** For another replica's call. After it each replica makes its own. */
const lockWaitMs = 100
/** Timers past this are deadlines, of which these tests have none. */
const maxPauseMs = 60

const client = fc.record({
  replica: fc.nat({ max: 1 }),
  amount: fc.constantFrom('1', '1', '1', '2'),
  /** Its partition. Undefined: it shares with no other. */
  address: fc.constantFrom('a', 'a', 'a', 'b', undefined),
  /** What it does after it has asked, as soon as its turn comes; it orders only with a quote. */
  does: fc.constantFrom('waits', 'waits', 'leaves', 'orders'),
  ordersAt: fc.nat({ max: 1 }),
})
const history = fc.record({
  clients: fc.array(client, { minLength: 2, maxLength: 5 }),
  /** One for each call of the provider. */
  answers: fc.array(fc.constantFrom('quote', 'quote', 'quote', 'same', 'fails', 'late'), {
    maxLength: 6,
  }),
  /** By default, to its end, or never: then each quote in memory or in the store is for when a call fails. */
  minValidityMs: fc.constantFrom(undefined, 0, 0, lifeMs + 1),
  /** One for each command to the store. `held`: it is run, and its answer is lost. */
  commands: fc.array(fc.constantFrom('runs', 'runs', 'runs', 'runs', 'held', 'lost'), {
    maxLength: 6,
  }),
})
type History = typeof history extends fc.Arbitrary<infer Value> ? Value : never

// One of each for all races: without a listener, and the provider answers no 429.
const events = new Events()
const providerLimit = new ProviderLimit({ clock: systemClock, events })

class Race {
  readonly wrong: string[] = []
  readonly calls: { call: StagedCall; asker: string; isOver: boolean }[] = []
  readonly replicas: Replica[] = []
  readonly store = new MemoryStore(() => Math.floor(this.clock.nowMs()))
  readonly clock: Clock
  readonly #history: History
  readonly #scheduler: fc.Scheduler
  #steadyMs = 1_000
  #commands = 0
  #lastId = ''
  /** The most calls for one amount at one time. */
  maxCallsAtOnce = 0

  constructor(played: History, scheduler: fc.Scheduler) {
    this.#history = played
    this.#scheduler = scheduler
    const steadyMs = () => this.#steadyMs
    const timers: Timers = {
      steadyMs,
      setTimeout: (onTime, ms) => this.#pause(onTime, ms),
      setInterval: () => noTimer,
      clear() {},
    }
    this.clock = { nowMs: () => startMs + this.#steadyMs, steadyMs, timers }
    this.replicas = [new Replica(this, 0), new Replica(this, 1)]
  }

  get minValidityMs(): number | undefined {
    return this.#history.minValidityMs
  }

  turn(label: string): Promise<void> {
    return this.#scheduler.schedule(Promise.resolve(), label)
  }

  #pause(onTime: () => void, ms: number): Timer {
    const endsAtMs = this.#steadyMs + ms
    if (ms <= maxPauseMs)
      void this.turn('a pause ends').then(() => {
        this.#steadyMs = Math.max(this.#steadyMs, endsAtMs)
        onTime()
      })
    return noTimer
  }

  /** A command and its answer, each in its turn. Undefined: the store has failed. */
  async command(operation: string, run: () => unknown): Promise<unknown> {
    const fate = this.#history.commands[this.#commands++] ?? 'runs'
    await this.turn(`${operation} reaches the store`)
    if (fate === 'lost') return lost
    const answer = run()
    await this.turn(`${operation} is answered`)
    return fate === 'held' ? lost : answer
  }

  async provide(call: StagedCall, asker: string): Promise<void> {
    const one = { call, asker, isOver: false }
    const answer = this.#history.answers[this.calls.push(one) - 1] ?? 'quote'
    const isUnderWay = (other: typeof one) =>
      !other.isOver && !other.call.isGivenUp && other.asker === asker
    this.maxCallsAtOnce = Math.max(
      this.maxCallsAtOnce,
      this.calls.filter(isUnderWay).length,
    )
    await this.turn('the provider answers')
    one.isOver = true
    if (call.isGivenUp) return
    if (answer === 'fails') call.fail(new Error('down'))
    else if (answer === 'late')
      call.fail(
        new UpstreamFailure('swap', { fault: 'http_response_timeout', maybeSeen: true }),
      )
    else {
      const isSame = answer === 'same' && this.#lastId.startsWith(`${asker} `)
      if (!isSame)
        this.#lastId = `${asker} ${this.calls.length} ${Math.floor(this.clock.nowMs()) + lifeMs}`
      const [amount = '', , , expiry] = this.#lastId.split(' ')
      const fromAmount = { assetId: 'ETH', value: amount }
      call.answer(quoteBody({ id: this.#lastId, fromAmount, expiry: Number(expiry) }))
    }
  }

  async ask(client: History['clients'][number], number: number): Promise<'ends'> {
    const { replica, amount, address, does, ordersAt } = client
    await this.turn(`client ${number} asks`)
    const { stage, used, askers } = this.replicas[replica] as Replica
    const asker = `${amount} ${address ?? `alone-${number}`}`
    askers.push(asker)
    const asked = stage.ask({ amount, address })
    if (does === 'leaves')
      void this.turn(`client ${number} leaves`).then(() => asked.leave())
    const answer = await asked.answer.catch(() => undefined)
    if (answer === undefined) {
      const isProviderWell = this.#history.answers.every((one) => one === 'quote')
      if (isProviderWell && does !== 'leaves')
        this.wrong.push(`client ${number} has no quote`)
      return 'ends'
    }
    const { id, expiry } = JSON.parse(answer.body)
    if (!id.startsWith(`${asker} `))
      this.wrong.push(`client ${number} is ${asker} and has ${id}`)
    if (answer.how !== 'bypass' && expiry <= answer.atMs)
      this.wrong.push(`client ${number} has ${id}, which is over`)
    if (answer.how !== 'bypass' && used.has(id))
      this.wrong.push(`client ${number} has ${id}, which is used`)
    for (const { notes, ledger, number: at } of this.replicas) {
      const isHere = ledger.findById(id) !== undefined
      if (at === replica && !isHere)
        this.wrong.push(`client ${number} has ${id} before its replica knows it`)
      if (does !== 'orders' || at !== ordersAt || !isHere) continue
      await this.turn(`client ${number} orders`)
      notes.use({ id, expiresAtMs: expiry, cacheKey: '' })
      this.replicas[at]?.used.add(id)
    }
    return 'ends'
  }

  /** A record reaches the store and then every replica, each in its turn. */
  async append(record: JournalRecord, from: number): Promise<void> {
    await this.turn('a record is appended')
    const { notes, used, number } = this.replicas[1 - from] as Replica
    void this.turn(`replica ${number} reads a record`).then(() => {
      notes.deliver(record, 1)
      if (record.kind === 'used') used.add(record.quote.id)
    })
    await this.turn('an append is acknowledged')
  }
}

const partitionOf = ({ address }: { address: string | undefined }) => address
const noTimer: Timer = { refresh() {}, unref: () => noTimer }
const lost = Symbol('lost')

class Replica {
  readonly number: number
  readonly stage: QuoteStage
  /** Amount and partition of each user that asked here. */
  readonly askers: string[] = []
  readonly notes: Notes
  readonly ledger: Ledger
  /** Quotes that it knows to be used. */
  readonly used = new Set<string>()

  constructor(race: Race, number: number) {
    this.number = number
    const { clock, store } = race
    const run = async <Answer>(
      operation: Parameters<MemoryStore['clientOf']>[0],
      commands: (client: never) => Promise<Answer>,
    ) => {
      const over = (run: () => unknown) => race.command(operation, run)
      return commands(store.clientOf(operation, over) as never).catch(() => undefined)
    }
    const sharedStore = { keyPrefix: '', up: true, run, insist: run }
    const sharedQuotes = new QuotesOfAll({
      sharedStore: sharedStore as never,
      clock,
      minValidityMs: race.minValidityMs,
      lockWaitMs,
      isUsed: (quote) => this.notes.wasUsed(quote),
    })
    const notes = {
      note: (...given: Parameters<Notes['note']>) => this.notes.note(...given),
      noteFound: (...found: Parameters<Notes['noteFound']>) =>
        this.notes.noteFound(...found),
      wasUsed: (quote: Parameters<Notes['wasUsed']>[0]) => this.notes.wasUsed(quote),
    }
    const onCall = (call: StagedCall) =>
      void race.provide(call, this.askers[Number(call.by)] ?? '')
    const ofReplica = { clock, notes, sharedQuotes, onCall }
    const quotes = { cacheEntries: 10, minValidityMs: race.minValidityMs }
    const ofAll = { providerLimit, quotes, partitionOf }
    this.stage = new QuoteStage({ ...ofReplica, ...ofAll })
    this.ledger = new Ledger({ entries: 100, clock })
    const { cache } = this.stage
    const stream = { append: (record: JournalRecord) => race.append(record, number) }
    const journals = { disk: undefined, stream }
    const parts = { ledger: this.ledger, clock, journals, cache, sharedQuotes, events }
    this.notes = new Notes({ ...parts, markOf: (partition) => partition })
  }
}

async function play(played: History, scheduler: fc.Scheduler): Promise<Race> {
  const race = new Race(played, scheduler)
  const beganMs = race.clock.nowMs()
  const ends = played.clients.map((client, number) => race.ask(client, number))
  while (scheduler.count() > 0) await scheduler.waitNext(1)
  for (const [number, end] of ends.entries()) {
    const hasLeft = played.clients[number]?.does === 'leaves'
    if ((await Promise.race([end, undefined])) !== 'ends' && !hasLeft)
      race.wrong.push(`client ${number} waits without end`)
  }
  for (const { stage, number } of race.replicas)
    if (stage.cache.flights.size > 0)
      race.wrong.push(`replica ${number} holds a call that is over`)
  const leaves = played.clients.some(({ does }) => does === 'leaves')
  if (!leaves && race.calls.some(({ call }) => call.isGivenUp))
    race.wrong.push('a call was given up that requests wait for')
  const isStoreWell = played.commands.every((fate) => fate === 'runs')
  if (isStoreWell && race.store.locks > 0) race.wrong.push('a lock is held at the end')
  const isCalm =
    isStoreWell &&
    !played.clients.some(({ does }) => does === 'leaves' || does === 'orders') &&
    !played.answers.some((answer) => answer === 'fails' || answer === 'late') &&
    race.clock.nowMs() - beganMs < lockWaitMs
  if (isCalm && race.maxCallsAtOnce > 1)
    race.wrong.push(`${race.maxCallsAtOnce} calls for one quote at a time`)
  return race
}

/** All that follows from one task happens before the next, as between two turns of the event loop. */
async function act(task: () => Promise<void>): Promise<void> {
  await task()
  await new Promise<void>((resolve) => process.nextTick(resolve))
}

it('whatever comes first, no user has a quote that is over, used, of another amount or of another partition, and nothing is held at the end', async () => {
  let shared = 0
  await fc.assert(
    fc.asyncProperty(history, fc.scheduler({ act }), async (played, scheduler) => {
      const { wrong, calls } = await play(played, scheduler)
      if (wrong.length > 0) expect(wrong).toEqual([])
      if (calls.length < played.clients.length) shared += 1
    }),
    { numRuns: schedules },
  )
  expect(shared).toBeGreaterThan(schedules / 2)
}, 600_000)
