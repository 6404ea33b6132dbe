import type { Events, Listener } from '../events.ts'

/** A request that took long, without anything that its client chose. */
export interface SlowRequest {
  readonly area: string
  readonly method: string
  /** 0: the client left, or the answer broke off. */
  readonly status: number
  readonly durationMs: number
  readonly endedAtMs: number
  readonly requestId: string
  readonly traceId: string | undefined
  /** Whether its trace was recorded here. */
  readonly sampled: boolean
}

const parts = 12
const partMs = 60_000 / parts

/** The slowest request of the last minute, which is counted in twelfths. It costs a comparison for all but a few requests. */
export class Slowest implements Listener {
  readonly #nowMs: () => number
  readonly #slowest: (SlowRequest | undefined)[] = Array.from({ length: parts })
  /** Of the current part. */
  #number = -1
  #longestMs = -1

  constructor(nowMs = (): number => performance.now()) {
    this.#nowMs = nowMs
  }

  requestEnded(...[exchange, status, durationMs]: Parameters<Events['requestEnded']>): void {
    const endedAtMs = exchange.startedAtMs + durationMs
    this.#move(endedAtMs)
    if (durationMs <= this.#longestMs) return
    this.#longestMs = durationMs
    const { area, request, id, traceId, span } = exchange
    this.#slowest[this.#number % parts] = {
      ...{ area, method: request.method ?? '', status, durationMs, endedAtMs },
      ...{ requestId: id, traceId, sampled: span !== undefined },
    }
  }

  find(): SlowRequest | undefined {
    this.#move(this.#nowMs())
    let found: SlowRequest | undefined
    for (const one of this.#slowest) if (one && one.durationMs > (found?.durationMs ?? -1)) found = one
    return found
  }

  /** Forgets what is older than a minute. */
  #move(now: number): void {
    const current = Math.floor(now / partMs)
    if (current === this.#number) return
    for (let passed = Math.max(this.#number + 1, current - parts + 1); passed <= current; passed += 1)
      this.#slowest[passed % parts] = undefined
    this.#number = current
    this.#longestMs = -1
  }
}
