import { OrdersByApplication } from './orders-by-application.ts'
import type { RefusedOrder } from './refused-order.ts'

/** A finished request, as the console shows it. */
export interface SeenRequest {
  /** Counted up: a request id may be a client's own, and come twice. */
  readonly number: number
  readonly at: number
  readonly method: string
  readonly route: string
  readonly path: string
  /** 0: the client left, or the answer was cut off. */
  readonly status: number
  /** Who caused an error; null: there is none. */
  readonly source: ErrorSource | null
  /** What kept it from being sent to its upstream; null: it was sent, or was not to be. */
  readonly notSent: 'breaker' | 'saturated' | null
  readonly cacheStatus: string | null
  readonly durationMs: number
  /** Where the time went: waiting for a connection, the upstream's answer, passing it on, and all else. */
  readonly queueMs: number | null
  readonly upstreamMs: number | null
  readonly transferMs: number | null
  readonly ownMs: number | null
  readonly requestId: string
  /** The client's address, masked. */
  readonly client: string
  readonly application: string
  readonly why: string
}

export type ErrorSource = 'provider' | 'gateway' | 'client'

export interface SecondPassed {
  /** Requests that finished since the last tick, oldest first. */
  readonly requests: readonly SeenRequest[]
  /** How many further requests were counted but not kept. */
  readonly skipped: number
  readonly refusals: readonly RefusedOrder[]
}

/**
 * Recent activity, for the console. Refused orders are always kept, because they are few and the person on call
 * opens the console after the event; so are the last failed requests. Everything else is kept only while a console is open.
 */
export interface Activity {
  /** Whether a console is open. */
  readonly isWatched: boolean
  readonly failed: FailedRequests
  readonly ordersByApplication: OrdersByApplication
  watch(): void
  unwatch(): void
  requestOver(): void
  /** Whether another request with this status may be kept in this second. In a flood, most are only counted. */
  hasRoom(status: number): boolean
  keep(request: SeenRequest): void
  /** Also for one that is only reported. */
  orderRefused(order: RefusedOrder): void
  readonly refusals: readonly RefusedOrder[]
  /** Refusals that ticks have reported; those of the current second follow with the next tick. */
  readonly reportedRefusals: readonly RefusedOrder[]
  readonly refusedTotal: number
  /** Of orders that were sent because of ORDER_EXPIRED_QUOTE=report. */
  readonly reportedTotal: number
  readonly requests: readonly SeenRequest[]
  /** Closes the current second. */
  tick(): SecondPassed
}

const maxRequests = 200
const maxRefusals = 50
const maxSucceededPerSecond = 60
const maxFailedPerSecond = 60

export function createActivity(): Activity {
  let isWatched = false
  let requests: SeenRequest[] = []
  let finished: SeenRequest[] = []
  const refusals: RefusedOrder[] = []
  let second = newSecond()
  let refusedTotal = 0
  let reportedTotal = 0
  let newRefusals = 0

  function forget(): void {
    requests = []
    finished = []
    second = newSecond()
    newRefusals = 0
  }

  return {
    failed: new FailedRequests(),
    ordersByApplication: new OrdersByApplication(),
    get isWatched() {
      return isWatched
    },
    watch() {
      isWatched = true
      forget()
    },
    unwatch() {
      isWatched = false
      forget()
    },
    requestOver() {
      second.requests += 1
    },
    hasRoom(status) {
      if (isFailed(status)) return second.failed < maxFailedPerSecond
      return second.succeeded < maxSucceededPerSecond
    },
    keep(request) {
      if (isFailed(request.status)) second.failed += 1
      else second.succeeded += 1
      finished.push(request)
    },
    orderRefused(order) {
      if (order.sent) reportedTotal += 1
      else refusedTotal += 1
      newRefusals += 1
      refusals.unshift(order)
      if (refusals.length > maxRefusals) refusals.pop()
    },
    get refusals() {
      return refusals
    },
    get reportedRefusals() {
      return refusals.slice(newRefusals)
    },
    get refusedTotal() {
      return refusedTotal
    },
    get reportedTotal() {
      return reportedTotal
    },
    get requests() {
      return requests
    },
    tick() {
      requests = [...requests, ...finished].slice(-maxRequests)
      const passed: SecondPassed = {
        requests: finished,
        skipped: Math.max(0, second.requests - second.succeeded - second.failed),
        refusals: refusals.slice(0, newRefusals),
      }
      finished = []
      second = newSecond()
      newRefusals = 0
      return passed
    },
  }
}

function newSecond() {
  return {
    requests: 0,
    succeeded: 0,
    failed: 0,
  }
}

const maxFailedRequests = 50

/** The last failed requests. They are always kept, because the person on call opens the console after the event. */
export class FailedRequests {
  readonly #requests: SeenRequest[] = []

  keep(request: SeenRequest): void {
    this.#requests.unshift(request)
    if (this.#requests.length > maxFailedRequests) this.#requests.pop()
  }

  /** The newest first. */
  get all(): readonly SeenRequest[] {
    return this.#requests
  }
}

export function isFailed(status: number): boolean {
  return status >= 400 || status === 0
}
