import { PatientTimer, type Timers } from '../clock.ts'

const lateMs = 250
const afterLateMs = 100
const afterTroubleMs = 2_000

/**
 * Until when something may be missing here that another replica noted: it may not have found the store again either. At a
 * start everything may be missing.
 */
export class Caution {
  readonly #timeoutMs: number
  readonly #timers: Timers
  #isTroubled = true
  #untilMs = 0

  /** After `timeoutMs` clients were given their quotes, whether the store had answered or not. */
  constructor(timeoutMs: number, timers: Timers) {
    this.#timeoutMs = timeoutMs
    this.#timers = timers
  }

  get isOver(): boolean {
    return !this.#isTroubled && this.#timers.steadyMs() >= this.#untilMs
  }

  /** From now until two seconds after all is well. */
  trouble(): void {
    this.#isTroubled = true
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
    if (this.#isTroubled) this.forMs(afterTroubleMs)
    this.#isTroubled = false
  }

  forMs(ms: number): void {
    this.#untilMs = Math.max(this.#untilMs, this.#timers.steadyMs() + ms)
  }
}
