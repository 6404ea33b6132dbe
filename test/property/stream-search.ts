import { type Excuse, Fleet, type Rules } from './stream-model.ts'

/** Every history of so many steps, and what has to be true in each state that they reach. */
interface Step {
  readonly name: string
  /** False: it is not possible here. */
  play(fleet: Fleet): boolean
}

const replicas = [0, 1, 2]

function ofReplica(name: string, play: (fleet: Fleet, index: number) => boolean): Step[] {
  return replicas.map((index) => ({ name: `${index} ${name}`, play: (fleet) => play(fleet, index) }))
}

function ofStore(name: string, play: (fleet: Fleet) => boolean): Step {
  return { name, play }
}

function note(fleet: Fleet, index: number, maxRecords: number): boolean {
  if (fleet.records >= maxRecords) return false
  fleet.note(fleet.each(index))
  return true
}

const maxRecords = 3

export const steps: readonly Step[] = [
  ...ofReplica('notes', (fleet, index) => note(fleet, index, maxRecords)),
  ...ofReplica('notes and is answered', (fleet, index) => {
    const replica = fleet.each(index)
    return fleet.isReachable(replica) && note(fleet, index, maxRecords) && fleet.flush(replica)
  }),
  ...ofReplica("'s next command is run", (fleet, index) => fleet.serve(fleet.each(index))),
  ...ofReplica("'s next answer arrives", (fleet, index) => fleet.answer(fleet.each(index))),
  ...ofReplica('begins to read', (fleet, index) => fleet.beginRead(fleet.each(index))),
  ...ofReplica('reads', (fleet, index) => fleet.wholeRead(fleet.each(index))),
  ...ofReplica('connects', (fleet, index) => fleet.connect(fleet.each(index))),
  ...ofReplica('is cut off or back', (fleet, index) => {
    const replica = fleet.each(index)
    replica.isCut = !replica.isCut
    return true
  }),
  ...ofReplica('is restarted', (fleet, index) => {
    fleet.restart(index)
    return true
  }),
  ofStore('emptied', (fleet) => {
    if (fleet.store.ids.length === 0) return false
    fleet.empty()
    return true
  }),
  ofStore('failed over', (fleet) => {
    fleet.failOver(false)
    return true
  }),
  ofStore('failed over to a clock that is behind', (fleet) => {
    if (fleet.store.entries.length === 0) return false
    fleet.failOver(true)
    return true
  }),
  ofStore('trimmed', (fleet) => {
    if (fleet.store.entries.length === 0) return false
    fleet.trim()
    return true
  }),
  ofStore('stops or goes on', (fleet) => {
    fleet.store.isFrozen = !fleet.store.isFrozen
    return true
  }),
  ofStore('full or not', (fleet) => {
    if (fleet.store.isFull) fleet.room()
    else fleet.store.isFull = true
    return true
  }),
  ofStore('an old command is run', (fleet) => fleet.runOrphan()),
  ofStore('60 ms without an answer', (fleet) => {
    fleet.stall(60)
    return true
  }),
  ofStore('310 ms without an answer', (fleet) => {
    fleet.stall(310)
    return true
  }),
  ofStore('2 s', (fleet) => {
    fleet.calm(2_000)
    return true
  }),
  ofStore('all lives are over', (fleet) => {
    if (fleet.live === 0) return false
    fleet.endLives()
    return true
  }),
]

export interface Start {
  readonly name: string
  prepare(fleet: Fleet): void
}

function begun(fleet: Fleet): void {
  for (const replica of fleet.replicas) fleet.connect(replica)
  fleet.calm(5_000)
}

export const starts: readonly Start[] = [
  { name: 'an empty list', prepare: begun },
  {
    name: 'a record of 0 that all have',
    prepare: (fleet) => {
      begun(fleet)
      fleet.note(fleet.each(0))
      fleet.calm(5_000)
    },
  },
  {
    name: 'a record that 1 and 2 have of the process before 0, which has not begun',
    prepare: (fleet) => {
      begun(fleet)
      fleet.note(fleet.each(0))
      fleet.calm(5_000)
      fleet.restart(0)
    },
  },
]

/** Once all faults are over. */
const soonMs = 5_000
/** As many answers as there are in the time of the second pass, each of them late. */
const lateRounds = 18
const lateMs = 240

function known(fleet: Fleet): number {
  return fleet.replicas.reduce((bits, replica) => bits | fleet.bitsOf(replica), 0)
}

function heal(fleet: Fleet): void {
  fleet.store.isFrozen = false
  fleet.store.orphans = []
  for (const replica of fleet.replicas) replica.isCut = false
  if (fleet.store.isFull) fleet.room()
}

function inStore(fleet: Fleet): number {
  return fleet.store.entries.reduce((bits, { record }) => bits | (1 << record), 0)
}

/** No loss: what a living replica knows comes to all, also to one that starts later. Nothing is appended without end. */
function checkEnd(fleet: Fleet): string | undefined {
  const { trimmed } = fleet
  const expected = known(fleet) & ~trimmed
  fleet.calm(soonMs)
  if (fleet.broken !== undefined) return fleet.broken
  const lacking = expected & ~inStore(fleet)
  if (lacking !== 0) return `loss: the list lacks ${lacking.toString(2)}`
  for (const replica of fleet.replicas) {
    const gone = expected & ~fleet.bitsOf(replica)
    if (gone !== 0) return `loss: replica ${fleet.replicas.indexOf(replica)} lacks ${gone.toString(2)}`
    if (!replica.caughtUp && !replica.isTrimCautious && expected !== 0) return 'not caught up in time'
    for (let record = 0; record < fleet.records; record += 1) {
      const bit = 1 << record
      const isJudged = (replica.own | fleet.live) & expected & ~fleet.lastLate & bit
      const ownerLives = fleet.replicas.some(({ own }) => (own & bit) !== 0)
      if (isJudged !== 0 && ownerLives && replica.known[record] === 1)
        return `late: the end of ${record} is too late`
    }
  }
  const { appends } = fleet
  fleet.endLives()
  fleet.calm(soonMs)
  if (fleet.broken !== undefined) return fleet.broken
  if (fleet.appends !== appends) return 'appends without end'
  const isBehind = fleet.replicas.some(({ caughtUp }) => !caughtUp)
  return isBehind && expected !== 0 ? 'never caught up' : undefined
}

function answerLate(fleet: Fleet): void {
  for (const replica of fleet.replicas) {
    if (!fleet.connect(replica)) fleet.beginRead(replica)
    while (fleet.serve(replica));
  }
  fleet.stall(lateMs)
  // What they cause is sent, and run in the next round.
  for (const replica of fleet.replicas) while (fleet.answer(replica));
}

function checkSlowEnd(fleet: Fleet): string | undefined {
  let appends = 0
  for (let round = 1; round < lateRounds; round += 1) {
    if (round === lateRounds - 3) appends = fleet.appends
    answerLate(fleet)
  }
  return fleet.appends === appends ? undefined : 'appends without end while answers are late'
}

export interface Found {
  readonly problem: string
  readonly start: string
  readonly history: readonly string[]
}

export interface Searched {
  readonly states: number
  readonly histories: number
  readonly ends: number
  readonly found: readonly Found[]
  /** The shortest history for each. */
  readonly excused: ReadonlyMap<Excuse, Found>
}

/** So many numbers in little memory: states are kept as 52 bits of a hash. */
class Numbers {
  #slots = new Float64Array(1 << 16)
  size = 0

  add(value: number): boolean {
    if (this.size * 2 > this.#slots.length) this.#grow()
    const slot = this.#slotOf(value)
    if (this.#slots[slot] !== 0) return false
    this.#slots[slot] = value
    this.size += 1
    return true
  }

  #slotOf(value: number): number {
    const mask = this.#slots.length - 1
    let slot = (value % 2_147_483_647) & mask
    while (this.#slots[slot] !== 0 && this.#slots[slot] !== value) slot = (slot + 1) & mask
    return slot
  }

  #grow(): void {
    const old = this.#slots
    this.#slots = new Float64Array(old.length * 2)
    for (const value of old) if (value !== 0) this.#slots[this.#slotOf(value)] = value
  }
}

function hashOf(text: string): number {
  let a = 0x811c9dc5
  let b = 0x9e3779b1
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at)
    a = Math.imul(a ^ code, 0x01000193)
    b = Math.imul(b ^ code, 0x85ebca6b)
    b ^= b >>> 13
  }
  return (a >>> 0) * 0x100000 + ((b >>> 0) & 0xfffff) + 1
}

interface Playing {
  readonly start: Start
  readonly prepared: Fleet
  /** Histories, each a number whose digits are steps: states would take too much memory. */
  readonly frontier: readonly number[]
}

export interface SearchOptions {
  rules: Rules
  maxSteps: number
  /** Ends after so many problems of different kinds. */
  maxFound: number
  only?: readonly Start[]
}

export function search({ rules, maxSteps, maxFound, only = starts }: SearchOptions): Searched {
  const seen = new Numbers()
  const ends = new Numbers()
  const slowEnds = new Numbers()
  const found = new Map<string, Found>()
  const excused = new Map<Excuse, Found>()
  let histories = 0

  const problemOf = (fleet: Fleet): string | undefined => {
    if (fleet.broken !== undefined) return fleet.broken
    const end = fleet.copy()
    heal(end)
    const slowEnd = end.copy()
    end.calm(0)
    const isNew = ends.add(hashOf(end.key()))
    const problem = end.broken ?? (isNew ? checkEnd(end) : undefined)
    for (const excuse of end.excused) fleet.excused.add(excuse)
    if (problem !== undefined) return problem
    answerLate(slowEnd)
    return slowEnds.add(hashOf(slowEnd.key())) ? checkSlowEnd(slowEnd) : undefined
  }

  const play = (start: Start): Playing => {
    const prepared = new Fleet(rules)
    start.prepare(prepared)
    seen.add(hashOf(prepared.key()))
    return { start, prepared, frontier: [0] }
  }

  /** All that one more step reaches. */
  const widen = ({ start, prepared, frontier }: Playing, length: number): number[] => {
    const next: number[] = []
    for (const packed of frontier) {
      const before = unpacked(packed, length)
      const fleet = prepared.copy()
      for (const index of before) steps[index]?.play(fleet)
      for (const [index, step] of steps.entries()) {
        const after = fleet.copy()
        if (!step.play(after)) continue
        histories += 1
        if (!seen.add(hashOf(after.key()))) continue
        const problem = problemOf(after)
        const of = (what: string): Found => {
          const history = [...before, index].map((each) => steps[each]?.name ?? '')
          return { problem: what, start: start.name, history }
        }
        for (const excuse of after.excused) if (!excused.has(excuse)) excused.set(excuse, of(excuse))
        if (problem === undefined) {
          next.push(packed * steps.length + index)
          continue
        }
        const [kind = problem] = problem.split(':')
        if (!found.has(kind)) found.set(kind, of(problem))
        if (found.size >= maxFound) return []
      }
    }
    return next
  }

  let playing = only.map(play)
  for (let length = 0; length < maxSteps && found.size < maxFound; length += 1) {
    playing = playing.map((each) => ({ ...each, frontier: found.size < maxFound ? widen(each, length) : [] }))
  }
  return result()

  function result(): Searched {
    return {
      states: seen.size,
      histories,
      ends: ends.size + slowEnds.size,
      found: [...found.values()],
      excused,
    }
  }
}

function unpacked(packed: number, length: number): number[] {
  const digits: number[] = []
  for (let rest = packed; digits.length < length; rest = Math.floor(rest / steps.length)) {
    digits.unshift(rest % steps.length)
  }
  return digits
}
