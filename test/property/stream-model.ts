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

interface Add {
  record: number
  sentAtMs: number
  late: boolean
  /** Not appended again, however late it is acknowledged. */
  last: boolean
}

type Command =
  | ({ kind: 'add' } & Add)
  | { kind: 'info'; sentAtMs: number }
  | { kind: 'read'; sentAtMs: number }

interface Info {
  added: number
  lastId: number
  length: number
}

type Answer = { sentAtMs: number } & (
  | { kind: 'added'; id: number; add: Add }
  | { kind: 'refused'; add: Add }
  | { kind: 'info'; info: Info }
  | { kind: 'rows'; rows: readonly Entry[]; hasLast: boolean }
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

interface Replica {
  isConnected: boolean
  isCut: boolean
  toStore: Command[]
  toReplica: Answer[]
  waiting: Add[]
  /** By record: 0 not known, 1 known with an end that is too late, 2 known. */
  known: number[]
  /** Sets of records are bits. */
  own: number
  /** What the list has brought since it was last lost. */
  listed: number
  lastId: number
  count: number | undefined
  acknowledged: { id: number; record: number }[]
  read: Read | undefined
  hasStarted: boolean
  isReturning: boolean
  wasRefused: boolean
  cautiousUntilMs: number
  secondPassAtMs: number
  /** Ghosts: when the last caution of two seconds began, and when this replica last came back. */
  cautiousSinceMs: number
  returnedAtMs: number
  isAbsent: boolean
  isTrimCautious: boolean
  caughtUp: boolean
  /** Ghost: what was trimmed before it read the list from its beginning. */
  cannotHave: number
}

interface Store {
  entries: Entry[]
  /** Of all that was ever appended: `last-generated-id` is its last, `entries-added` its length. */
  ids: number[]
  /** Ids are the clock's. */
  clock: number
  /** The next id is not above those that were lost. */
  isBehind: boolean
  isFrozen: boolean
  isFull: boolean
  /** Commands of connections that ended: they may still be run. */
  orphans: Add[]
}

export const excuses = ['died', 'cut off', 'returning', 'refused', 'trimmed'] as const
export type Excuse = (typeof excuses)[number]

function newReplica(): Replica {
  return {
    isConnected: false,
    isCut: false,
    toStore: [],
    toReplica: [],
    waiting: [],
    known: [],
    own: 0,
    listed: 0,
    lastId: 0,
    count: undefined,
    acknowledged: [],
    read: undefined,
    hasStarted: false,
    isReturning: false,
    wasRefused: false,
    cautiousUntilMs: 0,
    secondPassAtMs: Number.POSITIVE_INFINITY,
    cautiousSinceMs: 0,
    returnedAtMs: Number.NEGATIVE_INFINITY,
    isAbsent: true,
    isTrimCautious: false,
    caughtUp: false,
    cannotHave: 0,
  }
}

export class Fleet {
  readonly rules: Rules
  nowMs = 0
  store: Store = {
    entries: [],
    ids: [],
    clock: 0,
    isBehind: false,
    isFrozen: false,
    isFull: false,
    orphans: [],
  }
  replicas: Replica[] = [newReplica(), newReplica(), newReplica()]
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
    const fleet = new Fleet(this.rules)
    fleet.nowMs = this.nowMs
    const { store } = this
    fleet.store = { ...store, entries: [...store.entries], ids: [...store.ids], orphans: [...store.orphans] }
    fleet.replicas = this.replicas.map((replica) => ({
      ...replica,
      toStore: [...replica.toStore],
      toReplica: [...replica.toReplica],
      waiting: [...replica.waiting],
      known: [...replica.known],
      acknowledged: [...replica.acknowledged],
      read: replica.read && { ...replica.read },
    }))
    fleet.records = this.records
    fleet.settled = this.settled
    fleet.live = this.live
    fleet.trimmed = this.trimmed
    fleet.lastLate = this.lastLate
    fleet.appended = this.appended
    fleet.appends = this.appends
    fleet.broken = this.broken
    return fleet
  }

  /** The same for states that differ in names of replicas and in the time of day only. */
  key(): string {
    const { store, nowMs } = this
    const entries = store.entries.map(entryKey).join()
    const orphans = store.orphans.map(({ record }) => record).join()
    const flags = `${store.isBehind ? 'b' : ''}${store.isFrozen ? 'z' : ''}${store.isFull ? 'f' : ''}`
    const ghosts = `${this.records},${this.settled},${this.live},${this.trimmed},${this.lastLate},${this.appended}`
    const replicas = this.replicas.map((replica) => replicaKey(replica, nowMs)).sort()
    return `${entries}|${store.ids.join()},${store.clock}${flags}|${orphans}|${ghosts}|${replicas.join('|')}`
  }

  // What clients do

  note(replica: Replica): void {
    const record = this.records
    this.records += 1
    for (const each of this.replicas) each.known[record] = 0
    replica.known[record] = 2
    replica.own |= 1 << record
    this.live |= 1 << record
    this.#queue(replica, record, false)
    // Waiting for a store that is away does not help.
    if (replica.waiting.length > 0) this.settled |= 1 << record
  }

  // What messages do

  isReachable(replica: Replica): boolean {
    return replica.isConnected && !replica.isCut && !this.store.isFrozen
  }

  isAway(replica: Replica): boolean {
    return !replica.isConnected || replica.wasRefused || this.#oldestMs(replica) > timeoutMs
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
      excuses: replica.known.map((_, record) => this.#excuse(replica, record)),
    }
    this.#ask(replica, replica.read)
    return true
  }

  #ask(replica: Replica, read: Read): void {
    read.acknowledged = replica.acknowledged.map(({ id }) => id)
    const sentAtMs = this.nowMs
    replica.toStore.push({ kind: 'info', sentAtMs }, { kind: 'read', sentAtMs })
  }

  /** The next command of the replica reaches the store, which runs it. */
  serve(replica: Replica): boolean {
    if (!this.isReachable(replica)) return false
    const command = replica.toStore.shift()
    if (command === undefined) return false
    const { sentAtMs } = command
    const { store } = this
    if (command.kind === 'info') {
      const { ids, entries } = store
      const info = { added: ids.length, lastId: ids.at(-1) ?? 0, length: entries.length }
      replica.toReplica.push({ kind: 'info', sentAtMs, info })
    } else if (command.kind === 'read') {
      const { lastId } = replica
      const rows = store.entries.filter(({ id }) => id > lastId).slice(0, chunk)
      const hasLast = store.entries.some(({ id }) => id === lastId)
      replica.toReplica.push({ kind: 'rows', sentAtMs, rows, hasLast })
    } else if (store.isFull) replica.toReplica.push({ kind: 'refused', sentAtMs, add: command })
    else replica.toReplica.push({ kind: 'added', sentAtMs, id: this.#run(command), add: command })
    return true
  }

  #run({ record, sentAtMs, late, last }: Add): number {
    const { store } = this
    store.clock += 1
    const id = store.isBehind ? (store.ids.at(-1) ?? 0) + 0.5 + store.clock / 1_000 : store.clock
    store.isBehind = false
    const isLate = late || this.nowMs - sentAtMs > timeoutMs
    if (isLate && last) this.lastLate |= 1 << record
    this.appended |= 1 << record
    store.entries.push({ id, record, late: isLate })
    store.ids.push(id)
    return id
  }

  /** The next answer reaches the replica. */
  answer(replica: Replica): boolean {
    if (!this.isReachable(replica)) return false
    const answer = replica.toReplica.shift()
    if (answer === undefined) return false
    const tookMs = this.nowMs - answer.sentAtMs
    if (tookMs > slowMs) this.#leaves(replica)
    else if (tookMs > timeoutMs) this.#cautious(replica, this.rules.lateCautionMs)
    if (answer.kind === 'added') this.#acknowledged(replica, answer.id, answer.add, tookMs)
    else if (answer.kind === 'refused') this.#refused(replica, answer.add)
    else if (replica.read !== undefined) {
      if (answer.kind === 'info') replica.read.info = answer.info
      else this.#brought(replica, replica.read, answer.rows, answer.hasLast)
    }
    return true
  }

  #acknowledged(replica: Replica, id: number, add: Add, tookMs: number): void {
    this.settled |= 1 << add.record
    if (id > replica.lastId) replica.acknowledged.push({ id, record: add.record })
    const { lateAgain } = this.rules
    if (tookMs <= timeoutMs || lateAgain === 'never' || !this.#has(this.live, add.record)) return
    if (lateAgain === 'ever') this.#queue(replica, add.record, false)
    else if (!add.last) this.#queue(replica, add.record, true)
  }

  #refused(replica: Replica, add: Add): void {
    this.settled |= 1 << add.record
    replica.wasRefused = true
    this.#leaves(replica)
    this.#requeue(replica, add)
  }

  #requeue(replica: Replica, add: Add): void {
    if (!this.rules.requeues || replica.waiting.some(({ record }) => record === add.record)) return
    replica.waiting.push(add)
  }

  #brought(replica: Replica, read: Read, rows: readonly Entry[], hasLast: boolean): void {
    const { info } = read
    if (info === undefined) throw new Error('XINFO is answered before XREAD')
    const before = rows.filter(({ id }) => id <= info.lastId).length
    const expected = replica.count === undefined ? undefined : replica.count + before
    const isLost = this.#isLost(replica, info, expected, hasLast)
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

  #isLost(replica: Replica, info: Info, expected: number | undefined, hasLast: boolean): boolean {
    const { sees } = this.rules
    if (sees.includes('last-entry') && replica.lastId !== 0 && !hasLast) return true
    if (sees.includes('count') && expected !== undefined && info.added < expected) return true
    return sees.includes('last-id') && info.lastId < replica.lastId
  }

  #lose(replica: Replica, read: Read): void {
    replica.listed = 0
    replica.lastId = 0
    replica.count = undefined
    replica.acknowledged = []
    replica.secondPassAtMs = Number.POSITIVE_INFINITY
    read.secondPass = false
    read.lost = true
    replica.isReturning = true
    this.#ask(replica, read)
  }

  #deliver(replica: Replica, { id, record, late }: Entry): void {
    replica.lastId = id
    replica.acknowledged = replica.acknowledged.filter((each) => each.id !== id)
    replica.listed |= 1 << record
    replica.known[record] = Math.max(replica.known[record] ?? 0, late ? 1 : 2)
  }

  /** All entries that the list had when the command was run are here. */
  #whole(replica: Replica, read: Read): void {
    const { rules, nowMs } = this
    replica.read = undefined
    if (rules.checksAcknowledged) {
      const gone = replica.acknowledged.filter(({ id }) => read.acknowledged.includes(id))
      replica.acknowledged = replica.acknowledged.filter(({ id }) => !read.acknowledged.includes(id))
      for (const { record } of gone) this.#queue(replica, record, true)
      if (gone.length > 0) replica.isReturning = true
    }
    if (read.lost) this.#refill(replica, replica.own)
    if (read.lost && rules.refills === 'all') replica.secondPassAtMs = nowMs + rules.secondPassMs
    if (read.secondPass) {
      replica.secondPassAtMs = Number.POSITIVE_INFINITY
      this.#refill(replica, -1)
    }
    const { provesNothing } = rules
    if (
      provesNothing === 'nothing-read' ? read.nothingRead : provesNothing === 'first' && !replica.hasStarted
    ) {
      this.#careful(replica)
    }
    // It has read the list from its beginning.
    if (!replica.hasStarted || read.lost) replica.cannotHave = this.trimmed & ~this.bitsOf(replica)
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
    const isInTime = nowMs - read.beganAtMs <= timeoutMs
    const isCautious = replica.isReturning || nowMs < replica.cautiousUntilMs
    replica.caughtUp = isInTime && !this.isAway(replica) && !isCautious
    if (nowMs >= replica.cautiousUntilMs) replica.isTrimCautious = false
    if (replica.caughtUp) this.#checkSafe(replica, read)
  }

  #refill(replica: Replica, which: number): void {
    if (this.rules.refills === 'nothing') return
    for (let record = 0; record < this.records; record += 1) {
      const isMissing = this.#has(which, record) && !this.#has(replica.listed, record)
      if (isMissing && (replica.known[record] ?? 0) > 0) this.#queue(replica, record, true)
    }
  }

  /** Nothing is queued twice. */
  #queue(replica: Replica, record: number, last: boolean): void {
    const isUnderWay =
      replica.waiting.some((add) => add.record === record) ||
      replica.toStore.some((command) => command.kind === 'add' && command.record === record) ||
      replica.toReplica.some((answer) => answer.kind === 'added' && answer.add.record === record)
    if (isUnderWay) return
    replica.waiting.push({ record, sentAtMs: this.nowMs, late: false, last })
    this.#pump(replica)
  }

  #pump(replica: Replica): void {
    if (this.isAway(replica)) return
    for (const { record, last } of replica.waiting.splice(0)) {
      const late = replica.known[record] === 1
      replica.toStore.push({ kind: 'add', record, sentAtMs: this.nowMs, late, last })
      this.appends += 1
    }
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
    let oldest = this.nowMs
    for (const { sentAtMs } of toStore) oldest = Math.min(oldest, sentAtMs)
    for (const { sentAtMs } of toReplica) oldest = Math.min(oldest, sentAtMs)
    return this.nowMs - oldest
  }

  // What connections do

  /** `mayRun`: what was sent may still reach the store. */
  endConnection(replica: Replica, mayRun: boolean): void {
    if (!replica.isConnected) return
    const { toStore, toReplica } = replica
    replica.isConnected = false
    replica.toStore = []
    replica.toReplica = []
    replica.read = undefined
    replica.wasRefused = false
    this.#leaves(replica)
    for (const command of toStore) {
      if (command.kind !== 'add') continue
      if (mayRun) this.store.orphans.push(command)
      this.#failed(replica, command)
    }
    for (const answer of toReplica) {
      if (answer.kind === 'added' || answer.kind === 'refused') this.#failed(replica, answer.add)
    }
  }

  #failed(replica: Replica, add: Add): void {
    this.settled |= 1 << add.record
    this.#requeue(replica, add)
  }

  connect(replica: Replica): boolean {
    if (replica.isConnected || replica.isCut || this.store.isFrozen) return false
    replica.isConnected = true
    this.#pump(replica)
    this.beginRead(replica)
    return true
  }

  /** Its process ends, and another one begins. */
  restart(index: number): void {
    const replica = this.#at(index)
    const { settled } = this
    this.endConnection(replica, true)
    // Its clients never had what it noted last.
    this.settled = settled
    const { isCut } = replica
    const known = replica.known.map(() => 0)
    this.replicas[index] = { ...newReplica(), isCut, known, cautiousSinceMs: this.nowMs }
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
    const lastId = store.ids.pop()
    const lost = store.entries.find(({ id }) => id === lastId)
    store.entries = store.entries.filter((entry) => entry !== lost)
    // Perhaps the list has it from before still, with an end that is too late.
    if (lost !== undefined) this.lastLate |= 1 << lost.record
    store.isBehind = isBehind
    store.orphans = []
    for (const replica of this.replicas) this.endConnection(replica, false)
  }

  trim(): void {
    const [first, ...rest] = this.store.entries
    if (first === undefined) return
    this.trimmed |= 1 << first.record
    this.store.entries = rest
  }

  runOrphan(): boolean {
    const add = this.store.orphans.shift()
    if (add === undefined || this.store.isFrozen || this.store.isFull) return false
    this.#run({ ...add, late: true, last: false })
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
      if (oldestMs <= timeoutMs) continue
      for (const command of replica.toStore) this.#settleLate(command)
      for (const answer of replica.toReplica)
        if (answer.kind === 'added') this.#settleLate({ kind: 'add', ...answer.add })
      if (oldestMs > slowMs) this.#leaves(replica)
      if (oldestMs > replacedMs) this.endConnection(replica, true)
    }
  }

  #settleLate(command: Command): void {
    if (command.kind === 'add' && this.nowMs - command.sentAtMs > timeoutMs)
      this.settled |= 1 << command.record
  }

  /** Time passes as it should: each replica that can reach the store reads every 50 ms, and is answered at once. */
  calm(ms: number): void {
    const untilMs = this.nowMs + ms
    for (;;) {
      this.#arrive()
      if (this.nowMs >= untilMs || this.broken !== undefined) return
      let nextMs = untilMs
      for (const replica of this.replicas) {
        if (this.isReachable(replica))
          nextMs = Math.min(nextMs, Math.max(this.#dueMs(replica), this.nowMs + 1))
        else if (replica.isConnected)
          nextMs = Math.min(nextMs, this.nowMs - this.#oldestMs(replica) + replacedMs + 1)
      }
      this.nowMs = nextMs
      this.#tick()
    }
  }

  #dueMs({ secondPassAtMs, wasRefused }: Replica): number {
    return wasRefused && !this.store.isFull ? this.nowMs + retryMs : secondPassAtMs
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

  bitsOf({ known }: Replica): number {
    return known.reduce((bits, state, record) => (state > 0 ? bits | (1 << record) : bits), 0)
  }

  #checkSafe(replica: Replica, read: Read): void {
    for (let record = 0; record < this.records; record += 1) {
      if (!this.#has(read.owed & this.live, record) || (replica.known[record] ?? 0) > 0) continue
      const excuse = read.excuses[record] ?? this.#excuse(replica, record)
      if (excuse !== undefined) this.excused.add(excuse)
      else
        this.broken ??= `safety: replica ${this.replicas.indexOf(replica)} is caught up without record ${record}`
    }
  }

  /** Why a replica that is caught up may lack a record whose client has the quote: docs/limits.md. */
  #excuse(replica: Replica, record: number): Excuse | undefined {
    if ((replica.known[record] ?? 0) > 0) return undefined
    if (this.#has(replica.hasStarted ? replica.cannotHave : this.trimmed, record)) return 'trimmed'
    const holders = this.replicas.filter((each) => (each.known[record] ?? 0) > 0)
    if (holders.length === 0) return 'died'
    if (holders.every((holder) => !this.isReachable(holder) || this.#oldestMs(holder) > timeoutMs))
      return 'cut off'
    if (holders.some((holder) => holder.wasRefused)) return 'refused'
    if (!this.#has(this.appended, record)) return 'returning'
    const isBack = (holder: Replica) =>
      this.isReachable(holder) &&
      !holder.isAbsent &&
      (holder.returnedAtMs <= replica.cautiousSinceMs || this.#returnIsOver(holder))
    return holders.some(isBack) ? undefined : 'returning'
  }

  #returnIsOver({ returnedAtMs }: Replica): boolean {
    return this.nowMs > returnedAtMs + this.rules.returnCautionMs + this.rules.secondPassMs
  }

  #has(bits: number, record: number): boolean {
    return (bits & (1 << record)) !== 0
  }

  #at(index: number): Replica {
    const replica = this.replicas[index]
    if (replica === undefined) throw new Error(`there is no replica ${index}`)
    return replica
  }

  each(index: number): Replica {
    return this.#at(index)
  }
}

function entryKey({ id, record, late }: Entry): string {
  return `${id}:${record}${late ? 'l' : ''}`
}

function addKey({ record, late, last }: Add): string {
  return `${record}${late ? 'l' : ''}${last ? 'z' : ''}`
}

function answerKey(answer: Answer, nowMs: number): string {
  const age = nowMs - answer.sentAtMs
  if (answer.kind === 'info') return `i${Object.values(answer.info).join()}@${age}`
  if (answer.kind === 'rows') return `r${answer.rows.map(entryKey).join()}${answer.hasLast}@${age}`
  return `${answer.kind}${answer.kind === 'added' ? answer.id : ''}${addKey(answer.add)}@${age}`
}

function commandKey(command: Command, nowMs: number): string {
  return `${command.kind}${command.kind === 'add' ? addKey(command) : ''}@${nowMs - command.sentAtMs}`
}

function readKey(
  { beganAtMs, acknowledged, info, secondPass, lost, nothingRead, owed, excuses: excused }: Read,
  nowMs: number,
): string {
  const told = info === undefined ? '' : Object.values(info).join()
  return `${nowMs - beganAtMs};${acknowledged.join()};${told};${secondPass};${lost};${nothingRead};${owed};${excused.join()}`
}

function replicaKey(replica: Replica, nowMs: number): string {
  const { isConnected, isCut, hasStarted, isReturning, wasRefused, isAbsent, isTrimCautious } = replica
  let flags = 0
  for (const flag of [isConnected, isCut, hasStarted, isReturning, wasRefused, isAbsent, isTrimCautious]) {
    flags = flags * 2 + (flag ? 1 : 0)
  }
  const left = (atMs: number) => Math.max(0, atMs - nowMs)
  const since = (atMs: number) => Math.min(10_000, nowMs - atMs)
  return [
    flags,
    replica.toStore.map((command) => commandKey(command, nowMs)).join(),
    replica.toReplica.map((answer) => answerKey(answer, nowMs)).join(),
    replica.waiting.map(addKey).join(),
    replica.known.join(''),
    replica.own,
    replica.listed,
    replica.lastId,
    replica.count,
    replica.cannotHave,
    replica.acknowledged.map(({ id, record }) => `${id}:${record}`).join(),
    replica.read === undefined ? '' : readKey(replica.read, nowMs),
    left(replica.cautiousUntilMs),
    left(replica.secondPassAtMs),
    since(replica.cautiousSinceMs),
    since(replica.returnedAtMs),
  ].join(';')
}
