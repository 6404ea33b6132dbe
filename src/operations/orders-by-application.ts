import type { OrdersOfApplication } from './schemas.ts'

const windowMinutes = 60
/** Within one minute. App-Name is the client's to choose, so that its number has a bound. */
const maxApplications = 50
const maxShown = 20
const msPerMinute = 60_000

export type CountedOrder = { state: 'sent' | 'unknown' } | { state: 'expired' | 'reported'; lateMs: number }

type Sums = Omit<OrdersOfApplication, 'application'>

/** Float orders of the last hour by their application, in memory with a bound: 60 minutes of 51 applications each. */
export class OrdersByApplication {
  /** By minute, then by application; null: all others. */
  readonly #minutes = new Map<number, Map<string | null, Sums>>()

  /** `steadyMs`: now, by the steady clock. */
  count(application: string, order: CountedOrder, steadyMs: number): void {
    const minute = Math.floor(steadyMs / msPerMinute)
    let sums = this.#minutes.get(minute)
    if (sums === undefined) {
      this.#forgetBefore(minute - windowMinutes)
      sums = new Map()
      this.#minutes.set(minute, sums)
    }
    add(sums, sums.has(application) || sums.size < maxApplications ? application : null, sumsOf(order))
  }

  /** Those of which an order was refused or reported, the most refused first, and last the sum of all others. */
  refused(steadyMs: number): OrdersOfApplication[] {
    this.#forgetBefore(Math.floor(steadyMs / msPerMinute) - windowMinutes)
    const ofHour = new Map<string | null, Sums>()
    for (const sums of this.#minutes.values())
      for (const [application, one] of sums) add(ofHour, application, one)
    const apart = [...ofHour]
      .filter(([application, sums]) => application !== null && refusedOf(sums) > 0)
      .sort(([, left], [, right]) => refusedOf(right) - refusedOf(left))
    for (const [, sums] of apart.slice(maxShown)) add(ofHour, null, sums)
    const others = ofHour.get(null)
    const shown = apart.slice(0, maxShown)
    if (others !== undefined && refusedOf(others) > 0) shown.push([null, others])
    return shown.map(([application, sums]) => ({ application, ...sums }))
  }

  #forgetBefore(minute: number): void {
    for (const kept of this.#minutes.keys()) if (kept <= minute) this.#minutes.delete(kept)
  }
}

const none = { orders: 0, expired: 0, unknown: 0, reported: 0, leastLateMs: null, mostLateMs: null }

function sumsOf(order: CountedOrder): Sums {
  const sums: Sums = { ...none, orders: 1 }
  if (order.state !== 'sent') sums[order.state] = 1
  if ('lateMs' in order) {
    sums.leastLateMs = order.lateMs
    sums.mostLateMs = order.lateMs
  }
  return sums
}

function add(to: Map<string | null, Sums>, application: string | null, one: Sums): void {
  const sum = to.get(application)
  if (sum === undefined) {
    to.set(application, { ...one })
    return
  }
  sum.orders += one.orders
  sum.expired += one.expired
  sum.unknown += one.unknown
  sum.reported += one.reported
  if (one.leastLateMs !== null)
    sum.leastLateMs = Math.min(sum.leastLateMs ?? one.leastLateMs, one.leastLateMs)
  if (one.mostLateMs !== null) sum.mostLateMs = Math.max(sum.mostLateMs ?? one.mostLateMs, one.mostLateMs)
}

/** Reported ones too. */
function refusedOf({ expired, unknown, reported }: Sums): number {
  return expired + unknown + reported
}
