/**
 * The rules of the stream (three replicas, one store) over abstract records and a clock that only steps move. It shares no
 * code with `src`: no sockets, no ledger, no codec. Messages are under way until a step moves them, in order for each
 * connection. What only the checks need, and no replica could know, is called a ghost.
 */
export interface Rules {
  /**
   * How a replica sees that data was lost. `last-entry`: the last entry that was read here is not in the list. `count`:
   * `entries-added` is less than what was counted here. `last-id`: the list's last id is below the last one read here.
   */
  sees: readonly ('last-entry' | 'count' | 'last-id')[]
  /** Which whole reads prove nothing, so that two seconds of caution follow: those that began with nothing read, or the first. */
  provesNothing: 'nothing-read' | 'first' | 'none'
  /** What is appended after a loss: all that the list lacks, or only what this replica noted itself. */
  refills: 'all' | 'own' | 'nothing'
  /** When what no other replica has brought is appended after a loss. */
  secondPassMs: number
  /** Caution after the store was away. */
  returnCautionMs: number
  /** Caution after the list was trimmed past the reader. */
  trimCautionMs: number
  lateCautionMs: number
  /** How often a record is appended again that was acknowledged late. */
  lateAgain: 'once' | 'ever' | 'never'
  /** What was acknowledged before a read and not brought by it is appended again. */
  checksAcknowledged: boolean
  /** What was not acknowledged when its connection ended is appended again. */
  requeues: boolean
}

export const timeoutMs = 50
const slowMs = 250
const replacedMs = 1_000
const retryMs = 100
export const lifeMs = 60_000
/** Of the real stream 1,000: entries of one answer. */
const chunk = 2

interface Entry {
  id: number
  record: number
  /** What was left of the quote when the command was written is more than what was left when it was run. */
  late: boolean
}

/** To be appended. `last`: not once more, however late it is acknowledged. */
interface Waiting {
  record: number
  last: boolean
}

interface Add extends Waiting {
  kind: 'add'
  sentAtMs: number
  late: boolean
}

type Command = Add | { kind: 'info' | 'read'; sentAtMs: number }

interface Info {
  added: number
  lastId: number
  length: number
}

type Answer = { sentAtMs: number } & (
  | { kind: 'add'; add: Add; id: number | 'refused' }
  | { kind: 'info'; info: Info }
  | { kind: 'read'; rows: readonly Entry[]; hasLast: boolean }
)

interface Read {
  beganAtMs: number
  /** Ids that were acknowledged when the command under way was written. */
  acknowledged: readonly number[]
  info: Info | undefined
  secondPass: boolean
  lost: boolean
  nothingRead: boolean
  /** Ghosts: records that clients had when it began, and which of them it may lack. */
  owed: number
  excuses: readonly (Excuse | undefined)[]
}

export class Replica {
  isConnected = false
  isCut = false
  toStore: readonly Command[] = []
  toReplica: readonly Answer[] = []
  waiting: readonly Waiting[] = []
  /** Sets of records are bits: what it knows, of that with an end that is too late, and what it noted itself. */
  known = 0
  late = 0
  own = 0
  /** What the list has brought since it was last lost. */
  listed = 0
  lastId = 0
  count: number | undefined
  acknowledged: readonly { id: number; record: number }[] = []
  read: Read | undefined
  hasStarted = false
  isReturning = false
  wasRefused = false
  cautiousUntilMs = 0
  secondPassAtMs = Number.POSITIVE_INFINITY
  /** Ghosts: when the last caution of two seconds began, and when this replica last came back. */
  cautiousSinceMs = 0
  returnedAtMs = Number.NEGATIVE_INFINITY
  isAbsent = true
  isTrimCautious = false
  /** Ghost: what was trimmed before it read the list from its beginning. */
  cannotHave = 0
}

const emptyStore = {
  entries: [] as readonly Entry[],
  /** Of all that was ever appended: `last-generated-id` is its last, `entries-added` its length. */
  ids: [] as readonly number[],
  /** Ids are the clock's. */
  clock: 0,
  /** The next id is not above those that were lost. */
  isBehind: false,
  isFrozen: false,
  isFull: false,
  /** Records in commands of connections that ended: they may still be run. */
  orphans: [] as readonly number[],
}

export const excuses = ['died', 'cut off', 'returning', 'refused', 'trimmed'] as const
export type Excuse = (typeof excuses)[number]

export class Fleet {
  readonly rules: Rules
  nowMs = 0
  store = { ...emptyStore }
  replicas = [new Replica(), new Replica(), new Replica()]
  records = 0
  /** Ghosts. A client has the quote; it lives; the list was trimmed past it; it was appended late for the last time. */
  settled = 0
  live = 0
  trimmed = 0
  lastLate = 0
  /** The list had it once. */
  appended = 0
  appends = 0
  /** What went wrong, in words. */
  broken: string | undefined
  readonly excused = new Set<Excuse>()

  constructor(rules: Rules) {
    this.rules = rules
  }

  copy(): Fleet {
    return Object.assign(new Fleet(this.rules), this, {
      store: { ...this.store },
      replicas: this.replicas.map((replica) => ({
        ...replica,
        read: replica.read && { ...replica.read },
      })),
      excused: new Set(),
    })
  }

  /** The same for states that differ in names of replicas and in the time of day only. */
  key(): string {
    const { records, settled, live, trimmed, lastLate, appended, nowMs } = this
    const replicas = this.replicas.map((replica) => keyOf(replica, nowMs)).sort()
    return `${keyOf(this.store, nowMs)}${[records, settled, live, trimmed, lastLate, appended]}|${replicas}`
  }

  at(index: number): Replica {
    return this.replicas[index] as Replica
  }

  // What clients do

  note(replica: Replica): void {
    const record = this.records
    const bit = 1 << record
    this.records += 1
    replica.known |= bit
    replica.own |= bit
    this.live |= bit
    this.#queue(replica, record, false)
    // Waiting for a store that is away does not help.
    if (replica.waiting.length > 0) this.settled |= bit
  }

  // What messages do

  isReachable(replica: Replica): boolean {
    return replica.isConnected && !replica.isCut && !this.store.isFrozen
  }

  isAway(replica: Replica): boolean {
    return (
      !replica.isConnected || replica.wasRefused || this.#oldestMs(replica) > timeoutMs
    )
  }

  isCaughtUp(replica: Replica): boolean {
    return (
      !this.isAway(replica) &&
      !replica.isReturning &&
      this.nowMs >= replica.cautiousUntilMs
    )
  }

  /** Every 50 ms, and before each order: so every read stands for an order that came when it began. */
  beginRead(replica: Replica): boolean {
    if (!replica.isConnected || replica.read !== undefined) return false
    replica.read = {
      beganAtMs: this.nowMs,
      acknowledged: [],
      info: undefined,
      secondPass: this.nowMs >= replica.secondPassAtMs,
      lost: false,
      nothingRead: replica.lastId === 0,
      owed: this.settled,
      excuses: Array.from({ length: this.records }, (_, record) =>
        this.#excuse(replica, record),
      ),
    }
    this.#ask(replica, replica.read)
    return true
  }

  #ask(replica: Replica, read: Read): void {
    read.acknowledged = replica.acknowledged.map(({ id }) => id)
    const sentAtMs = this.nowMs
    replica.toStore = [
      ...replica.toStore,
      { kind: 'info', sentAtMs },
      { kind: 'read', sentAtMs },
    ]
  }

  /** The next command of the replica reaches the store, which runs it. */
  serve(replica: Replica): boolean {
    const [command, ...others] = replica.toStore
    if (!this.isReachable(replica) || command === undefined) return false
    replica.toStore = others
    replica.toReplica = [...replica.toReplica, this.#answerTo(command, replica.lastId)]
    return true
  }

  #answerTo(command: Command, lastId: number): Answer {
    const { sentAtMs } = command
    const { ids, entries, isFull } = this.store
    if (command.kind === 'add')
      return {
        kind: 'add',
        sentAtMs,
        add: command,
        id: isFull ? 'refused' : this.#run(command),
      }
    if (command.kind === 'info') {
      const info = { added: ids.length, lastId: ids.at(-1) ?? 0, length: entries.length }
      return { kind: 'info', sentAtMs, info }
    }
    const rows = entries.filter(({ id }) => id > lastId).slice(0, chunk)
    return {
      kind: 'read',
      sentAtMs,
      rows,
      hasLast: entries.some(({ id }) => id === lastId),
    }
  }

  #run({ record, sentAtMs, late, last }: Omit<Add, 'kind'>): number {
    const { store } = this
    store.clock += 1
    const id = store.isBehind
      ? (store.ids.at(-1) ?? 0) + 0.5 + store.clock / 1_000
      : store.clock
    store.isBehind = false
    const isLate = late || this.nowMs - sentAtMs > timeoutMs
    if (isLate && last) this.lastLate |= 1 << record
    this.appended |= 1 << record
    store.entries = [...store.entries, { id, record, late: isLate }]
    store.ids = [...store.ids, id]
    return id
  }

  /** The next answer reaches the replica. */
  answer(replica: Replica): boolean {
    const [answer, ...others] = replica.toReplica
    if (!this.isReachable(replica) || answer === undefined) return false
    replica.toReplica = others
    const tookMs = this.nowMs - answer.sentAtMs
    if (tookMs > slowMs) this.#leaves(replica)
    else if (tookMs > timeoutMs) this.#cautious(replica, this.rules.lateCautionMs)
    if (answer.kind === 'add') this.#added(replica, answer.add, answer.id, tookMs)
    else if (replica.read === undefined) return true
    else if (answer.kind === 'info') replica.read.info = answer.info
    else this.#brought(replica, replica.read, answer.rows, answer.hasLast)
    return true
  }

  #added(replica: Replica, add: Add, id: number | 'refused', tookMs: number): void {
    if (id === 'refused') {
      replica.wasRefused = true
      this.#leaves(replica)
      this.#failed(replica, add)
      return
    }
    const { record, last } = add
    this.settled |= 1 << record
    if (id > replica.lastId)
      replica.acknowledged = [...replica.acknowledged, { id, record }]
    const { lateAgain } = this.rules
    if (tookMs <= timeoutMs || lateAgain === 'never' || !has(this.live, record)) return
    if (lateAgain === 'ever') this.#queue(replica, record, false)
    else if (!last) this.#queue(replica, record, true)
  }

  #failed(replica: Replica, { record, last }: Add): void {
    this.settled |= 1 << record
    if (!this.rules.requeues || replica.waiting.some((other) => other.record === record))
      return
    replica.waiting = [...replica.waiting, { record, last }]
  }

  #brought(replica: Replica, read: Read, rows: readonly Entry[], hasLast: boolean): void {
    const { info } = read
    if (info === undefined) throw new Error('XINFO is answered before XREAD')
    const before = rows.filter(({ id }) => id <= info.lastId).length
    const expected = replica.count === undefined ? undefined : replica.count + before
    const { sees } = this.rules
    const isLost =
      (sees.includes('last-entry') && replica.lastId !== 0 && !hasLast) ||
      (sees.includes('count') && expected !== undefined && info.added < expected) ||
      (sees.includes('last-id') && info.lastId < replica.lastId)
    for (const entry of rows) this.#deliver(replica, entry)
    if (isLost) {
      // Perhaps it was trimmed past this replica.
      if (expected !== undefined && info.added >= expected) this.#trimCautious(replica)
      this.#lose(replica, read)
      return
    }
    if (replica.count !== undefined) replica.count += rows.length
    if (rows.length === chunk) {
      this.#ask(replica, read)
      return
    }
    replica.count ??= info.added + rows.length - before
    if (expected !== undefined && info.added > expected) {
      replica.count += info.added - expected
      this.#trimCautious(replica)
    }
    this.#whole(replica, read)
  }

  #lose(replica: Replica, read: Read): void {
    const secondPassAtMs = Number.POSITIVE_INFINITY
    const nothing = {
      listed: 0,
      lastId: 0,
      count: undefined,
      acknowledged: [],
      secondPassAtMs,
    }
    Object.assign(replica, nothing, { isReturning: true })
    Object.assign(read, { secondPass: false, lost: true })
    this.#ask(replica, read)
  }

  #deliver(replica: Replica, { id, record, late }: Entry): void {
    replica.lastId = id
    replica.acknowledged = replica.acknowledged.filter((each) => each.id !== id)
    const bit = 1 << record
    replica.listed |= bit
    if (!late) replica.late &= ~bit
    else if (!has(replica.known, record)) replica.late |= bit
    replica.known |= bit
  }

  /** All entries that the list had when the command was run are here. */
  #whole(replica: Replica, read: Read): void {
    const { rules, nowMs } = this
    replica.read = undefined
    if (rules.checksAcknowledged) {
      const gone = replica.acknowledged.filter(({ id }) => read.acknowledged.includes(id))
      replica.acknowledged = replica.acknowledged.filter(
        ({ id }) => !read.acknowledged.includes(id),
      )
      for (const { record } of gone) this.#queue(replica, record, true)
      if (gone.length > 0) replica.isReturning = true
    }
    if (read.lost) this.#refill(replica, replica.own)
    if (read.lost && rules.refills === 'all')
      replica.secondPassAtMs = nowMs + rules.secondPassMs
    if (read.secondPass) {
      replica.secondPassAtMs = Number.POSITIVE_INFINITY
      this.#refill(replica, -1)
    }
    const provesNothing = {
      'nothing-read': read.nothingRead,
      first: !replica.hasStarted,
      none: false,
    }
    if (provesNothing[rules.provesNothing]) this.#careful(replica)
    // It has read the list from its beginning.
    if (!replica.hasStarted || read.lost)
      replica.cannotHave = this.trimmed & ~replica.known
    replica.hasStarted = true
    this.#pump(replica)
    if (replica.isReturning && !this.isAway(replica) && replica.waiting.length === 0) {
      replica.isReturning = false
      this.#careful(replica)
    }
    if (replica.isAbsent && !replica.isReturning) {
      replica.isAbsent = false
      replica.returnedAtMs = nowMs
    }
    if (nowMs >= replica.cautiousUntilMs) replica.isTrimCautious = false
    if (nowMs - read.beganAtMs <= timeoutMs && this.isCaughtUp(replica))
      this.#checkSafe(replica, read)
  }

  #refill(replica: Replica, which: number): void {
    if (this.rules.refills === 'nothing') return
    const missing = which & replica.known & ~replica.listed
    for (let record = 0; record < this.records; record += 1)
      if (has(missing, record)) this.#queue(replica, record, true)
  }

  /** Nothing is queued twice. */
  #queue(replica: Replica, record: number, last: boolean): void {
    const queued = [...replica.waiting, ...addsUnderWay(replica)]
    if (queued.some((add) => add.record === record)) return
    replica.waiting = [...replica.waiting, { record, last }]
    this.#pump(replica)
  }

  #pump(replica: Replica): void {
    if (this.isAway(replica)) return
    const sentAtMs = this.nowMs
    for (const waiting of replica.waiting) {
      const late = has(replica.late, waiting.record)
      replica.toStore = [...replica.toStore, { kind: 'add', ...waiting, sentAtMs, late }]
    }
    this.appends += replica.waiting.length
    replica.waiting = []
  }

  #cautious(replica: Replica, ms: number): void {
    replica.cautiousUntilMs = Math.max(replica.cautiousUntilMs, this.nowMs + ms)
  }

  #trimCautious(replica: Replica): void {
    this.#cautious(replica, this.rules.trimCautionMs)
    replica.isTrimCautious = true
  }

  #careful(replica: Replica): void {
    this.#cautious(replica, this.rules.returnCautionMs)
    replica.cautiousSinceMs = this.nowMs
  }

  #leaves(replica: Replica): void {
    replica.isReturning = true
    replica.isAbsent = true
  }

  #oldestMs({ toStore, toReplica }: Replica): number {
    return this.nowMs - ((toReplica[0] ?? toStore[0])?.sentAtMs ?? this.nowMs)
  }

  // What connections do

  /** `mayRun`: what was sent may still reach the store. */
  endConnection(replica: Replica, mayRun: boolean): void {
    if (!replica.isConnected) return
    const adds = addsUnderWay(replica)
    const sent = replica.toStore.flatMap((command) =>
      command.kind === 'add' ? command.record : [],
    )
    if (mayRun) this.store.orphans = [...this.store.orphans, ...sent]
    Object.assign(replica, {
      isConnected: false,
      toStore: [],
      toReplica: [],
      read: undefined,
    })
    replica.wasRefused = false
    this.#leaves(replica)
    for (const add of adds) this.#failed(replica, add)
  }

  connect(replica: Replica): boolean {
    if (replica.isConnected || replica.isCut || this.store.isFrozen) return false
    replica.isConnected = true
    this.#pump(replica)
    this.beginRead(replica)
    return true
  }

  /** Its process ends, and another one begins. */
  restart(replica: Replica): void {
    const { settled } = this
    this.endConnection(replica, true)
    // Its clients never had what it noted last.
    this.settled = settled
    const { isCut } = replica
    const next = Object.assign(new Replica(), { isCut, cautiousSinceMs: this.nowMs })
    this.replicas = this.replicas.map((each) => (each === replica ? next : each))
  }

  /** Everything that is under way for this replica arrives, and what it causes. */
  flush(replica: Replica): boolean {
    let moved = false
    while (this.serve(replica) || this.answer(replica)) moved = true
    return moved
  }

  wholeRead(replica: Replica): boolean {
    if (!this.isReachable(replica)) return false
    this.beginRead(replica)
    this.flush(replica)
    return true
  }

  // What the store does

  empty(): void {
    this.store.entries = []
    this.store.ids = []
  }

  /** Its last write is lost. Connections end. */
  failOver(isBehind: boolean): void {
    const { store } = this
    const lastId = store.ids.at(-1)
    const lost = store.entries.find(({ id }) => id === lastId)
    store.ids = store.ids.slice(0, -1)
    store.entries = store.entries.filter((entry) => entry !== lost)
    // Perhaps the list has it from before still, with an end that is too late.
    if (lost !== undefined) this.lastLate |= 1 << lost.record
    store.isBehind = isBehind
    store.orphans = []
    for (const replica of this.replicas) this.endConnection(replica, false)
  }

  trim(): boolean {
    const [first, ...rest] = this.store.entries
    if (first === undefined) return false
    this.trimmed |= 1 << first.record
    this.store.entries = rest
    return true
  }

  runOrphan(): boolean {
    const [record, ...others] = this.store.orphans
    this.store.orphans = others
    if (record === undefined || this.store.isFrozen || this.store.isFull) return false
    this.#run({ record, sentAtMs: this.nowMs, late: true, last: false })
    return true
  }

  room(): void {
    this.store.isFull = false
    for (const replica of this.replicas) {
      replica.wasRefused = false
      this.#pump(replica)
    }
  }

  // What time does

  /** Nothing that is under way arrives meanwhile. */
  stall(ms: number): void {
    const asksMs = this.nowMs + timeoutMs
    this.nowMs = asksMs
    if (ms > slowMs) for (const replica of this.replicas) this.beginRead(replica)
    this.nowMs = asksMs + ms - timeoutMs
    this.#tick()
  }

  #tick(): void {
    for (const replica of this.replicas) {
      const oldestMs = this.#oldestMs(replica)
      for (const { record, sentAtMs } of addsUnderWay(replica))
        if (this.nowMs - sentAtMs > timeoutMs) this.settled |= 1 << record
      if (oldestMs > slowMs) this.#leaves(replica)
      if (oldestMs > replacedMs) this.endConnection(replica, true)
    }
  }

  /** Time passes as it should: each replica that can reach the store reads every 50 ms, and is answered at once. */
  calm(ms: number): void {
    const untilMs = this.nowMs + ms
    for (;;) {
      this.#arrive()
      if (this.nowMs >= untilMs || this.broken !== undefined) return
      this.nowMs = Math.min(
        untilMs,
        ...this.replicas.map((replica) => this.#nextMs(replica)),
      )
      this.#tick()
    }
  }

  /** When something happens to it by itself. */
  #nextMs(replica: Replica): number {
    if (!this.isReachable(replica))
      return replica.isConnected
        ? this.nowMs - this.#oldestMs(replica) + replacedMs + 1
        : Infinity
    const isRetried = replica.wasRefused && !this.store.isFull
    return Math.max(
      isRetried ? this.nowMs + retryMs : replica.secondPassAtMs,
      this.nowMs + 1,
    )
  }

  #arrive(): void {
    for (const replica of this.replicas) {
      if (!this.connect(replica) && !this.isReachable(replica)) this.beginRead(replica)
      else if (!this.store.isFull && replica.wasRefused) {
        replica.wasRefused = false
        this.#pump(replica)
      }
    }
    // What one appends is read by all, and may make another append.
    for (let rounds = 0; rounds < 4; rounds += 1) {
      const { appends } = this
      const { clock } = this.store
      for (const replica of this.replicas) {
        this.wholeRead(replica)
        this.flush(replica)
        this.#pump(replica)
        this.flush(replica)
      }
      // What was acknowledged and is not brought by the read after that is appended again by its end.
      const isWaiting = this.replicas.some(({ acknowledged }) => acknowledged.length > 0)
      if (appends === this.appends && clock === this.store.clock && !isWaiting) break
    }
  }

  /** All that lives is over. */
  endLives(): void {
    this.live = 0
    this.calm(lifeMs)
  }

  // What has to be true

  #checkSafe(replica: Replica, read: Read): void {
    for (let record = 0; record < this.records; record += 1) {
      if (!has(read.owed & this.live & ~replica.known, record)) continue
      const excuse = read.excuses[record] ?? this.#excuse(replica, record)
      if (excuse !== undefined) this.excused.add(excuse)
      else
        this.broken ??= `safety: replica ${this.replicas.indexOf(replica)} is caught up without record ${record}`
    }
  }

  /** Why a replica that is caught up may lack a record whose client has the quote: docs/limits.md. */
  #excuse(replica: Replica, record: number): Excuse | undefined {
    if (has(replica.known, record)) return undefined
    if (has(replica.hasStarted ? replica.cannotHave : this.trimmed, record))
      return 'trimmed'
    const holders = this.replicas.filter(({ known }) => has(known, record))
    if (holders.length === 0) return 'died'
    if (
      holders.every(
        (holder) => !this.isReachable(holder) || this.#oldestMs(holder) > timeoutMs,
      )
    )
      return 'cut off'
    if (holders.some((holder) => holder.wasRefused)) return 'refused'
    if (!has(this.appended, record)) return 'returning'
    const isBack = (holder: Replica) =>
      this.isReachable(holder) &&
      !holder.isAbsent &&
      (holder.returnedAtMs <= replica.cautiousSinceMs || this.#returnIsOver(holder))
    return holders.some(isBack) ? undefined : 'returning'
  }

  #returnIsOver({ returnedAtMs }: Replica): boolean {
    return (
      this.nowMs > returnedAtMs + this.rules.returnCautionMs + this.rules.secondPassMs
    )
  }
}

function has(bits: number, record: number): boolean {
  return (bits & (1 << record)) !== 0
}

function addsUnderWay({ toStore, toReplica }: Replica): Add[] {
  const answered = toReplica.flatMap((answer) =>
    answer.kind === 'add' ? answer.add : [],
  )
  return [...toStore.filter((command) => command.kind === 'add'), ...answered]
}

/** Instants differ by how far off they are. For so long it matters that one is over. */
const matterMs: Partial<Record<string, number>> = {
  sentAtMs: 10_000,
  beganAtMs: 10_000,
  cautiousSinceMs: 10_000,
  returnedAtMs: 10_000,
  cautiousUntilMs: 0,
  secondPassAtMs: 0,
}

function keyOf(value: unknown, nowMs: number): string {
  if (typeof value !== 'object' || value === null) return String(value)
  let key = ''
  for (const [name, each] of Object.entries(value)) {
    const matters = matterMs[name]
    key += `${matters === undefined ? keyOf(each, nowMs) : Math.max(-matters, each - nowMs)};`
  }
  return `${key}.`
}
