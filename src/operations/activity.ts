/** A finished request, as the console shows it. */
export interface SeenRequest {
  readonly at: number
  readonly method: string
  readonly route: string
  readonly path: string
  /** 0: the client left, or the answer was cut off. */
  readonly status: number
  readonly cacheStatus: string | null
  readonly durationMs: number
  readonly upstreamMs: number | null
  readonly requestId: string
  /** The client's address, masked. */
  readonly client: string
  readonly application: string
  readonly why: string
}

export interface RefusedOrder {
  readonly at: number
  readonly reason: 'expired' | 'unknown'
  readonly pair: string
  readonly amount: string
  readonly application: string
  readonly quoteId: string | null
  readonly quoteAgeMs: number | null
  readonly expiredForMs: number | null
  readonly requestId: string
}

export interface SecondPassed {
  /** Requests that finished since the last tick, oldest first. */
  readonly requests: readonly SeenRequest[]
  /** How many further requests were counted but not kept. */
  readonly skipped: number
  readonly refusals: readonly RefusedOrder[]
}

/**
 * Recent activity, for the console. Refused orders are always kept, because they are few and the person on call
 * opens the console after the event. Everything else is kept only while a console is open.
 */
export interface Activity {
  watch(): void
  unwatch(): void
  requestOver(): void
  /** Whether another request with this status may be kept in this second. In a flood, most are only counted. */
  hasRoom(status: number): boolean
  keep(request: SeenRequest): void
  orderRefused(order: RefusedOrder): void
  readonly refusals: readonly RefusedOrder[]
  /** Refusals that ticks have reported; those of the current second follow with the next tick. */
  readonly reportedRefusals: readonly RefusedOrder[]
  readonly refusedTotal: number
  readonly requests: readonly SeenRequest[]
  /** Closes the current second. */
  tick(): SecondPassed
}

const maxRequests = 200
const maxRefusals = 50
const maxSucceededPerSecond = 60
const maxFailedPerSecond = 60

export interface ActivityOptions {
  /** Called when the first console opens, and when the last one closes. */
  watchedChanged?: (watched: boolean) => void
}

export function createActivity({ watchedChanged = () => {} }: ActivityOptions = {}): Activity {
  let requests: SeenRequest[] = []
  let finished: SeenRequest[] = []
  const refusals: RefusedOrder[] = []
  let second = newSecond()
  let refusedTotal = 0
  let refusedBefore = 0

  function forget(): void {
    requests = []
    finished = []
    second = newSecond()
    refusedBefore = refusedTotal
  }

  return {
    watch() {
      watchedChanged(true)
      forget()
    },
    unwatch() {
      watchedChanged(false)
      forget()
    },
    requestOver() {
      second.requests += 1
    },
    hasRoom(status) {
      if (isSuccess(status)) return second.succeeded < maxSucceededPerSecond
      return second.failed < maxFailedPerSecond
    },
    keep(request) {
      if (isSuccess(request.status)) second.succeeded += 1
      else second.failed += 1
      finished.push(request)
    },
    orderRefused(order) {
      refusedTotal += 1
      refusals.unshift(order)
      if (refusals.length > maxRefusals) refusals.pop()
    },
    get refusals() {
      return refusals
    },
    get reportedRefusals() {
      return refusals.slice(refusedTotal - refusedBefore)
    },
    get refusedTotal() {
      return refusedTotal
    },
    get requests() {
      return requests
    },
    tick() {
      requests = [...requests, ...finished].slice(-maxRequests)
      const passed: SecondPassed = {
        requests: finished,
        skipped: Math.max(0, second.requests - second.succeeded - second.failed),
        refusals: refusals.slice(0, refusedTotal - refusedBefore),
      }
      finished = []
      second = newSecond()
      refusedBefore = refusedTotal
      return passed
    },
  }
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 400
}

function newSecond() {
  return {
    requests: 0,
    succeeded: 0,
    failed: 0,
  }
}
