import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { Events } from '../../src/events.ts'
import type { JournalRecord } from '../../src/memory/journal.ts'
import { StreamJournal } from '../../src/memory/stream.ts'
import { firstId, partEntries } from '../../src/memory/stream-store.ts'
import { silentLogger } from '../../src/process/logger.ts'
import { Chance } from '../simulation/chance.ts'
import { environment } from '../support/machine/environment.ts'
import { VirtualTime } from '../support/machine/virtual-time.ts'
import { SimulatedLink, SimulatedStream } from '../support/stores/simulated-stream.ts'
import { MemoryReader, quoteOf } from '../support/stores/stream-stage.ts'

// A thousand in `npm run check:long`.
const schedules = Number(environment().STREAM_SCHEDULES ?? 25)
const seed = Number(environment().STREAM_SEED ?? 20_251_121)
const timeoutMs = 50
const lifeMs = 10_000
/** A replica's absence is over for the others: two seconds of caution, the second pass of 2.2 s, and what they take. */
const absenceMs = 5_000
const endMs = 8_000

/** vitest's own fake timers look through all that are set at each step, of which there are hundreds here. */
const time = new VirtualTime()
const epochMs = 1_760_000_000_000

/** Fake time passes, and everything that is due in it happens, one timer after the other. */
async function advance(ms: number): Promise<void> {
  let isOver = false
  setTimeout(() => {
    isOver = true
  }, ms)
  while (!isOver) {
    // Whatever can go on without time does so first.
    await new Promise<void>((resolve) => setImmediate(resolve))
    time.next()
  }
  await new Promise<void>((resolve) => setImmediate(resolve))
}

interface Replica {
  journal: StreamJournal
  link: SimulatedLink
  reader: MemoryReader
  startedAtMs: number
  /** Until when it was cut off, slow or not there, it alone. */
  absentUntilMs: number
}

interface Noted {
  id: string
  endsAtMs: number
  settledAtMs: number | undefined
  trimmedAtMs: number | undefined
}

function journalOn(store: SimulatedLink): StreamJournal {
  const log = silentLogger()
  const bounds = { maxEntries: 10_000, timeoutMs }
  return new StreamJournal({
    store,
    key: 'j',
    ...bounds,
    clock: systemClock,
    log,
    events: new Events(),
  })
}

class Stage {
  readonly stream = new SimulatedStream()
  readonly replicas: Replica[] = []
  readonly noted = new Map<string, Noted>()
  readonly #random: () => number
  /** Until when the store took no writes. */
  fullUntilMs = 0
  broken: string | undefined

  constructor(random: () => number) {
    this.#random = random
    for (let index = 0; index < 3; index += 1) this.start(index)
  }

  start(index: number): void {
    const link = new SimulatedLink(this.stream, timeoutMs, () =>
      Math.floor(this.#random() * 6),
    )
    const journal = journalOn(link)
    const reader = new MemoryReader(systemClock)
    reader.longestLifeMs = lifeMs
    void journal.start(reader)
    const startedAtMs = performance.now()
    this.replicas[index] = {
      journal,
      link,
      reader,
      startedAtMs,
      absentUntilMs: startedAtMs + 200,
    }
  }

  at(index: number): Replica {
    return this.replicas[index] as Replica
  }

  isAbsent(index: number, ms: number): void {
    const replica = this.at(index)
    replica.absentUntilMs = Math.max(replica.absentUntilMs, performance.now() + ms)
  }

  note(index: number, count: number): void {
    const { reader, journal } = this.at(index)
    for (let more = 0; more < count; more += 1) {
      const id = `q${this.noted.size}`
      const endsAtMs = performance.now() + lifeMs
      const noted: Noted = {
        id,
        endsAtMs,
        settledAtMs: undefined,
        trimmedAtMs: undefined,
      }
      this.noted.set(id, noted)
      const quote = quoteOf(id, systemClock, lifeMs)
      reader.note(quote)
      const settled = journal.append({ kind: 'noted', quote } satisfies JournalRecord)
      void Promise.resolve(settled).then(() => {
        noted.settledAtMs = performance.now()
      })
    }
  }

  restart(index: number): void {
    const { journal, link } = this.at(index)
    link.kill()
    void journal.close()
    this.stream.links.delete(link)
    this.start(index)
  }

  trim(count: number): void {
    for (const { text } of this.stream.trim(count)) {
      const noted = this.noted.get(JSON.parse(text)[5])
      if (noted !== undefined) noted.trimmedAtMs = performance.now()
    }
  }

  /** An order: what callers have by now and is not over has to be here when all is said to be here. */
  async order(index: number): Promise<void> {
    const replica = this.at(index)
    const beganAtMs = performance.now()
    const isOwed = ({ settledAtMs }: Noted) =>
      settledAtMs !== undefined && settledAtMs <= beganAtMs
    const owed = [...this.noted.values()].filter(isOwed)
    const excusedThen = new Set(owed.filter(({ id }) => this.#mayLack(replica, id)))
    if (!(await replica.journal.caughtUp())) return
    for (const noted of owed) {
      if (noted.endsAtMs <= performance.now()) continue
      if (
        replica.reader.quotes.has(noted.id) ||
        excusedThen.has(noted) ||
        this.#mayLack(replica, noted.id)
      )
        continue
      this.broken ??= `replica ${index} is caught up without ${noted.id} at ${performance.now()}`
    }
  }

  #mayLack(replica: Replica, id: string): boolean {
    const nowMs = performance.now()
    if (nowMs < this.fullUntilMs + absenceMs) return true
    if (
      (this.noted.get(id)?.trimmedAtMs ?? Number.POSITIVE_INFINITY) <
      replica.startedAtMs + 500
    )
      return true
    const holders = this.replicas.filter(({ reader }) => reader.quotes.has(id))
    return holders.every(({ absentUntilMs }) => nowMs < absentUntilMs + absenceMs)
  }

  /** All faults are over: everybody gets everything that a living replica knows, and appends come to an end. */
  async end(): Promise<void> {
    const isTrimmed = (id: string) => this.noted.get(id)?.trimmedAtMs !== undefined
    const known = new Set(
      this.replicas.flatMap(({ reader }) => [...reader.quotes.keys()]),
    )
    await advance(endMs)
    const lacking = this.replicas.map(({ reader }) =>
      [...known].filter((id) => !reader.quotes.has(id) && !isTrimmed(id)),
    )
    expect(lacking).toEqual([[], [], []])
    const stored = new Set(this.stream.entries.map(({ text }) => JSON.parse(text)[5]))
    expect([...known].filter((id) => !stored.has(id) && !isTrimmed(id))).toEqual([])
    const added = this.stream.info().added
    await advance(lifeMs)
    expect(this.stream.info().added).toBe(added)
    const caughtUp = this.replicas.map(({ journal }) => journal.caughtUp())
    await advance(timeoutMs * 2)
    expect(await Promise.all(caughtUp)).toEqual([true, true, true])
  }

  close(): void {
    for (const { journal, link } of this.replicas) {
      link.kill()
      void journal.close()
    }
  }
}

const replica = fc.nat({ max: 2 })
const shortMs = fc.constantFrom(40, 120, 400, 1_300, 3_000)

type Event = (stage: Stage) => void

/** As often as its weight says, with its name and what was drawn for it where a schedule fails. */
function event<Values extends unknown[]>(
  weight: number,
  name: string,
  values: { [K in keyof Values]: fc.Arbitrary<Values[K]> },
  play: (stage: Stage, ...values: Values) => void,
) {
  const arbitrary = fc.tuple(...values).map((drawn) =>
    Object.assign((stage: Stage) => play(stage, ...(drawn as Values)), {
      toString: () => `${name} ${drawn.join(' ')}`,
    }),
  )
  return { weight, arbitrary }
}

const events: fc.Arbitrary<Event> = fc.oneof(
  event<[number, number]>(
    6,
    'note',
    [replica, fc.constantFrom(1, 1, 1, 3, 20)],
    (stage, index, count) => stage.note(index, count),
  ),
  event<[number, number]>(2, 'cut', [replica, shortMs], (stage, index, ms) => {
    stage.at(index).link.cutFor(ms)
    stage.isAbsent(index, ms)
  }),
  event<[number, number, number]>(
    2,
    'slow',
    [replica, fc.constantFrom(20, 60, 300), shortMs],
    (stage, index, byMs, ms) => {
      const { link } = stage.at(index)
      link.slowByMs = byMs
      setTimeout(() => {
        link.slowByMs = 0
      }, ms)
      stage.isAbsent(index, ms + 600)
    },
  ),
  event<[number]>(2, 'restart', [replica], (stage, index) => stage.restart(index)),
  event<[]>(2, 'empty', [], (stage) => stage.stream.empty()),
  event<[number]>(2, 'fail over', [fc.nat({ max: 4 })], (stage, lost) =>
    stage.stream.failOver(lost, 0),
  ),
  event<[number]>(2, 'freeze', [shortMs], (stage, ms) => stage.stream.freezeFor(ms)),
  event<[number]>(1, 'full', [shortMs], (stage, ms) => {
    stage.stream.isFull = true
    stage.fullUntilMs = Math.max(stage.fullUntilMs, performance.now() + ms + 1_500)
    setTimeout(() => {
      stage.stream.isFull = false
    }, ms)
  }),
  event<[number]>(1, 'trim', [fc.constantFrom(1, 5)], (stage, count) =>
    stage.trim(count),
  ),
)

const schedule = fc.array(
  fc.tuple(events, fc.constantFrom(0, 1, 4, 15, 60, 250, 1_000, 2_100)),
  {
    minLength: 3,
    maxLength: 14,
  },
)

const [performanceNow, dateNow] = [performance.now, Date.now]

beforeEach(() => {
  time.begin()
  vi.stubGlobal('setTimeout', time.setTimeout.bind(time))
  vi.stubGlobal('setInterval', time.setInterval.bind(time))
  for (const name of ['clearTimeout', 'clearInterval'])
    vi.stubGlobal(name, time.clear.bind(time))
  performance.now = () => time.steadyMs()
  Date.now = () => epochMs + time.steadyMs()
})

const opened: Stage[] = []

afterEach(async () => {
  for (const stage of opened.splice(0)) stage.close()
  await advance(1_000)
  vi.restoreAllMocks()
  vi.unstubAllGlobals()
  performance.now = performanceNow
  Date.now = dateNow
})

/** The same numbers for the same seed. */
async function play(
  steps: readonly (readonly [Event, number])[],
  seed: number,
): Promise<void> {
  const random = new Chance(seed).next
  vi.spyOn(Math, 'random').mockImplementation(random)
  const stage = new Stage(random)
  opened.push(stage)
  await advance(3_000)
  stage.note(0, 2)
  await advance(3_000)
  for (const [happens, ms] of steps) {
    happens(stage)
    for (let passed = 0; passed < ms; passed += 25) {
      for (let index = 0; index < 3; index += 1) void stage.order(index)
      await advance(Math.min(25, ms - passed))
    }
  }
  await advance(4_000)
  await stage.end()
  expect(stage.broken).toBe(undefined)
  stage.close()
}

it('loses nothing, judges no order without what its caller has, and comes to rest, whatever happens to the store', async () => {
  await fc.assert(
    fc.asyncProperty(schedule, fc.nat(), async (steps, random) => play(steps, random)),
    { seed, numRuns: schedules, endOnFailure: false },
  )
}, 3_600_000)

/**
 * Orders at one replica until it is said to have everything, as soon as every replica can have found the store again, and
 * what it lacks then of what callers were given before.
 */
async function lackingAt(
  stage: Stage,
  index: number,
  ids: readonly string[],
): Promise<string[]> {
  const { journal, reader } = stage.at(index)
  for (let passed = 0; passed < 4_500; passed += 20) {
    const caughtUp = journal.caughtUp()
    await advance(20)
    if (await caughtUp) return ids.filter((id) => !reader.quotes.has(id))
  }
  return ['never caught up']
}

async function stageOf(notes: number): Promise<Stage> {
  vi.spyOn(Math, 'random').mockReturnValue(0.99)
  const stage = new Stage(() => 0.2)
  opened.push(stage)
  await advance(3_000)
  stage.note(0, notes)
  await advance(5_000)
  return stage
}

describe('what is rare among schedules:', () => {
  it('what a dead replica noted is at a replica that starts after a loss, once that is caught up', async () => {
    const stage = await stageOf(1)
    stage.restart(0)
    stage.stream.empty()
    expect(await lackingAt(stage, 0, ['q0'])).toEqual([])
  })

  it('a loss is seen where as many entries with ids below ours came as were lost', async () => {
    const stage = await stageOf(1)
    stage.note(0, 1)
    await advance(100)
    stage.stream.failOver(1, 400)
    stage.at(2).link.cutFor(800)
    await advance(250)
    stage.note(1, 1)
    await advance(400)
    stage.note(1, 1)
    await advance(5_000)
    expect([...stage.at(2).reader.quotes.keys()].sort()).toEqual(['q0', 'q1', 'q2', 'q3'])
  })

  it('a list in which nothing was read yet proves nothing', async () => {
    const stage = await stageOf(0)
    // Replicas read every 50 ms, and the others have not read it yet.
    await advance(10)
    stage.note(1, 1)
    await advance(6)
    expect(stage.at(0).reader.quotes.size).toBe(0)
    stage.stream.empty()
    expect(await lackingAt(stage, 0, ['q0'])).toEqual([])
  })

  it('a loss is seen between two parts of a whole read', async () => {
    const stage = await stageOf(1_100)
    const { link } = stage.at(0)
    const readEntries = link.readEntries.bind(link)
    vi.spyOn(link, 'readEntries').mockImplementation(async (key, fromId) => {
      const part = await readEntries(key, fromId)
      if (fromId === firstId && part.entries.length === partEntries) {
        stage.stream.empty()
        for (const index of [1, 2]) stage.restart(index)
      }
      return part
    })
    // So replica 0 reads all from the beginning, and it alone knows the first part then.
    stage.stream.failOver(1, 0)
    await advance(6_000)
    expect(stage.at(1).reader.quotes.size).toBe(1_100)
  })

  it('what no replica brought is appended although the store hangs when that is due', async () => {
    const stage = await stageOf(1)
    stage.restart(0)
    stage.stream.empty()
    await advance(1_900)
    stage.stream.freezeFor(1_500)
    await advance(10_000)
    expect(stage.stream.info().length).toBeGreaterThanOrEqual(1)
  })

  it('a store that takes no writes is away also for a replica that has written nothing since', async () => {
    const stage = await stageOf(1)
    stage.stream.isFull = true
    stage.note(1, 1)
    await advance(100)
    expect(await lackingAt(stage, 0, ['q1'])).not.toEqual(['q1'])
  })

  it.each([
    ['is quick again by then', 105, 60],
    ['is always late', 5_000, 260],
  ])(
    'a quote that a store acknowledged late is appended once more, and ends in time at the other replicas if the store %s',
    async (_what, slowForMs, lateByMs) => {
      const stage = await stageOf(0)
      const { link } = stage.at(0)
      link.slowByMs = 100
      stage.note(0, 1)
      const { endsAtMs = Number.NaN } = stage.noted.get('q0') ?? {}
      await advance(slowForMs)
      link.slowByMs = 0
      await advance(2_000)
      const appended = stage.stream.entries.filter(({ text }) => text.includes('"q0"'))
      expect(appended).toHaveLength(2)
      const { refusedFromMs = Number.NaN } =
        stage.at(1).reader.quotes.get('q0')?.quote ?? {}
      // It is read up to 50 ms after it was appended, and takes 100 ms more while the store is late.
      expect(refusedFromMs - epochMs - endsAtMs).toBeLessThan(lateByMs)
    },
  )

  it('after the store was away for all, a replica is caught up only once the others can have found it again', async () => {
    const stage = await stageOf(1)
    for (const index of [0, 1, 2])
      stage.at(index).link.cutFor(index === 1 ? 4_400 : 1_500)
    await advance(1_300)
    stage.note(1, 1)
    await advance(400)
    expect(await lackingAt(stage, 0, ['q1'])).toEqual([])
  })

  it('a replica that was trimmed past is careful for as long as quotes live', async () => {
    const stage = await stageOf(1)
    stage.at(0).link.cutFor(1_000)
    stage.note(1, 3)
    await advance(200)
    stage.trim(stage.stream.entries.length)
    stage.note(1, 1)
    await advance(2_000)
    expect(await lackingAt(stage, 0, [])).toEqual(['never caught up'])
    await advance(lifeMs)
    expect(await lackingAt(stage, 0, ['q4'])).toEqual([])
  })
})

describe('a server that cannot hold a journal ends the start:', () => {
  it.each([
    ['its version', '6.2.14', /Valkey, or Redis 7 or later: it is Redis 6\.2\.14/],
    ['it does not count its entries', '7.0.0-fork', /do not count their entries/],
  ])('%s', async (_why, version, said) => {
    const link = new SimulatedLink(new SimulatedStream(), timeoutMs, () => 1)
    const readEntries = link.readEntries.bind(link)
    vi.spyOn(link, 'describeServer').mockResolvedValue({
      version,
      maxmemoryPolicy: 'noeviction',
    })
    vi.spyOn(link, 'readEntries').mockImplementation(async (key, fromId) => ({
      ...(await readEntries(key, fromId)),
      added: undefined,
    }))
    const started = expect(
      journalOn(link).start(new MemoryReader(systemClock)),
    ).rejects.toThrow(said)
    await advance(1_000)
    await started
    link.kill()
  })
})
