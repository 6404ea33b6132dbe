import { PatientTimer, type Timers } from '../clock.ts'

const lateMs = 250
const afterLateMs = 100
const afterStartMs = 2_000

/**
 * Until when something may be missing here that another replica noted. At a start everything may be missing. After
 * trouble another replica may find the store again later than this one.
 */
export class Caution {
  readonly #timeoutMs: number
  readonly #afterTroubleMs: number
  readonly #timers: Timers
  #isTroubled = true
  #lastsMs = afterStartMs
  #untilMs = 0

  /**
   * `timeoutMs`: clients get their quotes after this time even without the store. `backWithinMs`: once the store is back,
   * every replica has found it within this time, and a read that is slow but no trouble comes on top.
   */
  constructor(
    { timeoutMs, backWithinMs }: { timeoutMs: number; backWithinMs: number },
    timers: Timers,
  ) {
    this.#timeoutMs = timeoutMs
    this.#afterTroubleMs = backWithinMs + lateMs
    this.#timers = timers
  }

  get isOver(): boolean {
    return !this.#isTroubled && this.#timers.steadyMs() >= this.#untilMs
  }

  /** From now until every replica can have found the store again. */
  trouble(): void {
    this.#isTroubled = true
    this.#lastsMs = this.#afterTroubleMs
  }

  /**
   * Judges how long the store takes for an answer. A pause of this process is not the store's lateness: what came
   * meanwhile is read before the time counts as over.
   */
  async watch<Answer>(answer: Promise<Answer>): Promise<Answer> {
    const beganMs = this.#timers.steadyMs()
    let isLate = false
    const timer = new PatientTimer(
      this.#timeoutMs,
      () => {
        isLate = true
      },
      this.#timers,
    )
    try {
      return await answer
    } finally {
      timer.clear()
      if (isLate) this.#wasLate(this.#timers.steadyMs() - beganMs)
    }
  }

  #wasLate(tookMs: number): void {
    if (tookMs > Math.max(lateMs, this.#timeoutMs)) this.trouble()
    else this.forMs(afterLateMs)
  }

  /** All that the store has is here, and nothing of ours waits. */
  calm(): void {
    if (this.#isTroubled) this.forMs(this.#lastsMs)
    this.#isTroubled = false
  }

  forMs(ms: number): void {
    this.#untilMs = Math.max(this.#untilMs, this.#timers.steadyMs() + ms)
  }
}
