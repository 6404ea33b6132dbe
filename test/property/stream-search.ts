import { type Excuse, Fleet, type Replica, type Rules } from './stream-model.ts'

/** Every history of so many steps, and what has to be true in each state that they reach. */
interface Step {
  readonly name: string
  /** False: it is not possible here. */
  play(fleet: Fleet): boolean | undefined
}

const maxRecords = 3

function note(fleet: Fleet, replica: Replica): boolean {
  if (fleet.records >= maxRecords) return false
  fleet.note(replica)
  return true
}

const ofReplica: Record<string, (fleet: Fleet, replica: Replica) => boolean | undefined> =
  {
    notes: note,
    'notes and is answered': (fleet, replica) =>
      fleet.isReachable(replica) && note(fleet, replica) && fleet.flush(replica),
    "'s next command is run": (fleet, replica) => fleet.serve(replica),
    "'s next answer arrives": (fleet, replica) => fleet.answer(replica),
    'begins to read': (fleet, replica) => fleet.beginRead(replica),
    reads: (fleet, replica) => fleet.wholeRead(replica),
    connects: (fleet, replica) => fleet.connect(replica),
    'is cut off or back': (_fleet, replica) => {
      replica.isCut = !replica.isCut
      return true
    },
    'is restarted': (fleet, replica) => void fleet.restart(replica),
  }

const ofStore: Record<string, (fleet: Fleet) => boolean | undefined> = {
  emptied: (fleet) => (fleet.store.ids.length === 0 ? false : void fleet.empty()),
  'failed over': (fleet) => void fleet.failOver(false),
  'failed over to a clock that is behind': (fleet) =>
    fleet.store.entries.length === 0 ? false : void fleet.failOver(true),
  trimmed: (fleet) => fleet.trim(),
  'stops or goes on': ({ store }) => {
    store.isFrozen = !store.isFrozen
    return true
  },
  'full or not': (fleet) => {
    if (fleet.store.isFull) fleet.room()
    else fleet.store.isFull = true
    return true
  },
  'an old command is run': (fleet) => fleet.runOrphan(),
  '60 ms without an answer': (fleet) => void fleet.stall(60),
  '310 ms without an answer': (fleet) => void fleet.stall(310),
  '2 s': (fleet) => void fleet.calm(2_000),
  'all lives are over': (fleet) => (fleet.live === 0 ? false : void fleet.endLives()),
}

const steps: readonly Step[] = [
  ...Object.entries(ofReplica).flatMap(([name, play]) =>
    [0, 1, 2].map(
      (index): Step => ({
        name: `${index} ${name}`,
        play: (fleet) => play(fleet, fleet.at(index)),
      }),
    ),
  ),
  ...Object.entries(ofStore).map(([name, play]) => ({ name, play })),
]

function begun(rules: Rules): Fleet {
  const fleet = new Fleet(rules)
  for (const replica of fleet.replicas) fleet.connect(replica)
  fleet.calm(5_000)
  return fleet
}

function withRecord(rules: Rules): Fleet {
  const fleet = begun(rules)
  fleet.note(fleet.at(0))
  fleet.calm(5_000)
  return fleet
}

function withRecordOfOneThatDied(rules: Rules): Fleet {
  const fleet = withRecord(rules)
  fleet.restart(fleet.at(0))
  return fleet
}

const starts: Record<string, (rules: Rules) => Fleet> = {
  'an empty list': begun,
  'a record of 0 that all have': withRecord,
  'a record that 1 and 2 have of the process before 0, which has not begun':
    withRecordOfOneThatDied,
}

/** Once all faults are over. */
const soonMs = 5_000
/** As many answers as there are in the time of the second pass, each of them late. */
const lateRounds = 18
const lateMs = 240

function heal(fleet: Fleet): void {
  fleet.store.isFrozen = false
  fleet.store.orphans = []
  for (const replica of fleet.replicas) replica.isCut = false
  if (fleet.store.isFull) fleet.room()
}

/** No loss: what a living replica knows comes to all, also to one that starts later. Nothing is appended without end. */
function checkEnd(fleet: Fleet): string | undefined {
  const expected =
    fleet.replicas.reduce((bits, { known }) => bits | known, 0) & ~fleet.trimmed
  fleet.calm(soonMs)
  if (fleet.broken !== undefined) return fleet.broken
  const listed = fleet.store.entries.reduce((bits, { record }) => bits | (1 << record), 0)
  if (expected & ~listed)
    return `loss: the list lacks ${(expected & ~listed).toString(2)}`
  for (const [index, replica] of fleet.replicas.entries()) {
    const gone = expected & ~replica.known
    if (gone !== 0) return `loss: replica ${index} lacks ${gone.toString(2)}`
    if (!fleet.isCaughtUp(replica) && !replica.isTrimCautious && expected !== 0)
      return 'not caught up in time'
    const owned = fleet.replicas.reduce((bits, { own }) => bits | own, 0)
    const late =
      replica.late & (replica.own | fleet.live) & expected & ~fleet.lastLate & owned
    if (late !== 0) return `late: the end of ${late.toString(2)} is too late`
  }
  const { appends } = fleet
  fleet.endLives()
  fleet.calm(soonMs)
  if (fleet.broken !== undefined) return fleet.broken
  if (fleet.appends !== appends) return 'appends without end'
  const isBehind = fleet.replicas.some((replica) => !fleet.isCaughtUp(replica))
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
  return fleet.appends === appends
    ? undefined
    : 'appends without end while answers are late'
}

/** Adds the state to those that were seen, of which there are so many that each is kept as 52 bits of a hash. */
function isNew(seen: Set<number>, fleet: Fleet): boolean {
  const { size } = seen
  return seen.add(hashOf(fleet.key())).size > size
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
  return (a >>> 0) * 0x100000 + ((b >>> 0) & 0xfffff)
}

interface Found {
  readonly problem: string
  readonly start: string
  readonly history: readonly string[]
}

interface Searched {
  readonly states: number
  /** The shortest history in which something went wrong. */
  readonly found: Found | undefined
  /** The shortest history for each. */
  readonly excused: ReadonlyMap<Excuse, Found>
}

export function search(rules: Rules, maxSteps: number): Searched {
  const seen = new Set<number>()
  const ends = new Set<number>()
  const slowEnds = new Set<number>()
  const excused = new Map<Excuse, Found>()

  function problemOf(fleet: Fleet): string | undefined {
    if (fleet.broken !== undefined) return fleet.broken
    const end = fleet.copy()
    heal(end)
    const slowEnd = end.copy()
    end.calm(0)
    const problem = end.broken ?? (isNew(ends, end) ? checkEnd(end) : undefined)
    for (const excuse of end.excused) fleet.excused.add(excuse)
    if (problem !== undefined) return problem
    answerLate(slowEnd)
    return isNew(slowEnds, slowEnd) ? checkSlowEnd(slowEnd) : undefined
  }

  // States would take too much memory: each history is played again from its start.
  let frontier = Object.entries(starts).map(([name, prepare]) => {
    const start = { name, fleet: prepare(rules) }
    isNew(seen, start.fleet)
    return { start, history: [] as readonly Step[] }
  })
  for (let length = 0; length < maxSteps; length += 1) {
    const next: typeof frontier = []
    for (const { start, history } of frontier) {
      const before = start.fleet.copy()
      for (const step of history) step.play(before)
      for (const step of steps) {
        const fleet = before.copy()
        if (step.play(fleet) === false || !isNew(seen, fleet)) continue
        const problem = problemOf(fleet)
        const steps = [...history, step]
        const found = (what: string): Found => ({
          problem: what,
          start: start.name,
          history: steps.map(({ name }) => name),
        })
        for (const excuse of fleet.excused)
          if (!excused.has(excuse)) excused.set(excuse, found(excuse))
        if (problem !== undefined)
          return { states: seen.size, found: found(problem), excused }
        next.push({ start, history: steps })
      }
    }
    frontier = next
  }
  return { states: seen.size, found: undefined, excused }
}
