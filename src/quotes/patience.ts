import { PatientTimer } from '../process/patient-timer.ts'

/** With less time left a further call could hardly bring a quote, and would only burden a provider that hangs. */
const minLeftMs = 50

export interface PatienceOptions {
  /** When the client's own time is over, by `performance.now()`. */
  endsAtMs: number
  /** The client's time was over during a further call; `failure` is why that call was needed. */
  onEnd(failure: Error): void
}

/** How long one client waits for its quote, once it waits for a further call. */
export class Patience {
  readonly #options: PatienceOptions
  #timer: PatientTimer | undefined
  #failure: Error | undefined
  #tookFurtherCall = false
  #sharedAfterRefusal = false

  constructor(options: PatienceOptions) {
    this.#options = options
  }

  /**
   * Whether the client has time left for one more call. That call has a time limit of its own, so the client's time is
   * counted here from then on. `failure`: what the client is answered when its time is over during the call.
   */
  hasTimeAfter(failure: Error): boolean {
    const leftMs = this.#options.endsAtMs - performance.now()
    if (leftMs < minLeftMs) return false
    this.#failure = failure
    this.#timer ??= new PatientTimer(leftMs, () => this.#options.onEnd(this.#failure ?? failure))
    return true
  }

  /** Whether the client may wait for a further call after one that failed by time. True at most once. */
  takeFurtherCall(failure: Error): boolean {
    if (this.#tookFurtherCall || !this.hasTimeAfter(failure)) return false
    this.#tookFurtherCall = true
    return true
  }

  /** Whether the client, which another client's refusal does not concern, shares a further call. True at most once. */
  shareAfterRefusal(): boolean {
    const isFirst = !this.#sharedAfterRefusal
    this.#sharedAfterRefusal = true
    return isFirst
  }

  /** The client waits no more: it was answered, or has left. */
  end(): void {
    this.#timer?.clear()
  }
}
