import { type Clock, inTime, type Now } from '../clock.ts'

/** A step that takes longer than this hangs. */
export const patienceMs = 5_000

/** Limits the log of a part that words each failure differently. */
const maxReasons = 10
/** An answer that takes longer than this, and than its timeout, is trouble. */
const lateMs = 250
const afterLateMs = 100

interface WellOptions<Operation extends string> {
  clock: Clock
  operations: readonly Operation[]
  /** An outage is over after this time without a failure. A shorter return is not reported. */
  steadyAfterMs?: number
  /** How long others' notes may be missing here: after startup, and after trouble. */
  doubt?: { readonly afterStartMs: number; readonly afterTroubleMs: number }
  reasonOf(cause: unknown, operation: Operation): string
  /** `cause`: an error, or the milliseconds that the step has taken until now. */
  began(reason: string, operation: Operation, cause: unknown): void
  /** The part fails for a reason that was not reported in this outage. */
  goesOn?(reason: string): void
  ended(forMs: number): void
}

/**
 * Whether a part works, and if not, since when and why. An outage is reported once when it begins and once when it
 * ends; metrics, /status and readiness show the same one. After trouble the part is doubted for a while, because other
 * replicas may have noted what is not here yet, and may find the store later.
 */
export class Well<Operation extends string> {
  readonly #options: WellOptions<Operation>
  readonly failures: Record<Operation, number>
  readonly #failing = new Set<Operation>()
  readonly #saidReasons = new Set<string>()
  #outage: { readonly since: Now; readonly reason: string } | undefined
  /** When the reported outage began. A short return does not end it. */
  #saidSinceMs: number | undefined
  #wellSinceMs: number | undefined
  #isDoubted = true
  #doubtLastsMs: number
  #doubtedUntilMs = 0

  constructor(options: WellOptions<Operation>) {
    this.#options = options
    this.#doubtLastsMs = options.doubt?.afterStartMs ?? 0
    this.failures = Object.fromEntries(
      options.operations.map((operation) => [operation, 0]),
    ) as Record<Operation, number>
  }

  /** By the timers, as deadlines are, whatever clock an application has passed in. */
  #now(): Now {
    const { clock } = this.#options
    return { nowMs: clock.nowMs(), steadyMs: clock.timers.steadyMs() }
  }

  get outage(): { readonly since: Now; readonly reason: string } | undefined {
    return this.#outage
  }

  /** By our wall clock. */
  get sinceMs(): number | undefined {
    return this.#outage?.since.nowMs
  }

  get reason(): string | undefined {
    return this.#outage?.reason
  }

  isFailing(operation: Operation): boolean {
    return this.#failing.has(operation)
  }

  /** Returns whether the step succeeded. */
  async watch(operation: Operation, step: Promise<void>): Promise<boolean> {
    const { timers } = this.#options.clock
    const hangs = timers
      .setTimeout(() => this.fails(operation, patienceMs), patienceMs)
      .unref()
    try {
      await step
      this.works(operation)
      return true
    } catch (cause) {
      this.failures[operation] += 1
      this.fails(operation, cause)
      return false
    } finally {
      timers.clear(hangs)
    }
  }

  fails(operation: Operation, cause: unknown): void {
    const { reasonOf, began, goesOn } = this.#options
    const reason = reasonOf(cause, operation)
    this.#failing.add(operation)
    this.#outage = { since: this.#outage?.since ?? this.#now(), reason }
    this.#wellSinceMs = undefined
    const isNew = !this.#saidReasons.has(reason) && this.#saidReasons.size < maxReasons
    if (isNew) this.#saidReasons.add(reason)
    if (this.#saidSinceMs === undefined) {
      this.#saidSinceMs = this.#outage.since.steadyMs
      say(() => began(reason, operation, cause))
    } else if (isNew) say(() => goesOn?.(reason))
  }

  works(operation: Operation): void {
    const { ended, steadyAfterMs = 0 } = this.#options
    this.#failing.delete(operation)
    if (this.#failing.size > 0) return
    this.#outage = undefined
    if (this.#saidSinceMs === undefined) return
    const { steadyMs } = this.#now()
    this.#wellSinceMs ??= steadyMs
    if (steadyMs - this.#wellSinceMs < steadyAfterMs) return
    const forMs = this.#wellSinceMs - this.#saidSinceMs
    this.#saidSinceMs = undefined
    this.#saidReasons.clear()
    say(() => ended(forMs))
  }

  get isDoubted(): boolean {
    return this.#isDoubted || this.#now().steadyMs < this.#doubtedUntilMs
  }

  /** Doubts the part until it is trusted, and then until all other replicas can have found it. */
  doubt(): void {
    this.#isDoubted = true
    this.#doubtLastsMs = this.#options.doubt?.afterTroubleMs ?? 0
  }

  doubtFor(ms: number): void {
    const untilMs = this.#now().steadyMs + ms
    this.#doubtedUntilMs = Math.max(this.#doubtedUntilMs, untilMs)
  }

  /** Everything in the part is here, and nothing of ours waits. */
  trust(): void {
    if (this.#isDoubted) this.doubtFor(this.#doubtLastsMs)
    this.#isDoubted = false
  }

  /**
   * Doubts the part if the answer takes longer than `timeoutMs`, because quotes were served without it. A pause of this
   * process does not count.
   */
  async inTime<Answer>(answer: Promise<Answer>, timeoutMs: number): Promise<Answer> {
    const { clock } = this.#options
    const beganMs = clock.timers.steadyMs()
    const settled = answer.then(isSettled, isSettled)
    const isLate = !(await inTime(settled, timeoutMs, clock.timers))
    try {
      return await answer
    } finally {
      const isTrouble = clock.timers.steadyMs() - beganMs > Math.max(lateMs, timeoutMs)
      if (isLate && isTrouble) this.doubt()
      else if (isLate) this.doubtFor(afterLateMs)
    }
  }
}

const isSettled = () => true

/** An application's logger may throw. The part goes on. */
function say(emit: () => void): void {
  try {
    emit()
  } catch {}
}
