const windowMinutes = 60
/** Within one minute. App-Name is the client's to choose, so that its number has a bound. */
const maxApplications = 50
const maxShown = 20
const msPerMinute = 60_000

/** How many float orders of one application were refused, or reported. */
export interface ApplicationsOrders {
  /** Null: all other applications. */
  readonly application: string | null
  readonly orders: number
  readonly expired: number
  readonly unknown: number
  /** Expired, but sent because of ORDER_EXPIRED_QUOTE=report. */
  readonly reported: number
  /** How late the first and the last of the expired and reported ones were; null: none was. */
  readonly leastLateMs: number | null
  readonly mostLateMs: number | null
}

export type CountedOrder = { state: 'sent' | 'unknown' } | { state: 'expired' | 'reported'; lateMs: number }

/** Float orders of the last hour by their application, in memory with a bound: 60 minutes of 51 applications each. */
export class OrdersByApplication {
  readonly #minutes = new Map<number, Map<string | null, Tally>>()

  count(application: string, order: CountedOrder, nowMs: number): void {
    const tallies = this.#talliesAt(nowMs)
    const key = tallies.has(application) || tallies.size < maxApplications ? application : null
    const tally = tallies.get(key) ?? new Tally()
    tallies.set(key, tally)
    tally.count(order)
  }

  /** Those of which an order was refused or reported, the most refused first, and last the sum of all others. */
  refused(nowMs: number): readonly ApplicationsOrders[] {
    this.#forgetAllBut(minuteOf(nowMs))
    const sums = new Map<string | null, Tally>()
    for (const tallies of this.#minutes.values()) {
      for (const [application, tally] of tallies) {
        const sum = sums.get(application) ?? new Tally()
        sum.add(tally)
        sums.set(application, sum)
      }
    }
    const others = sums.get(null) ?? new Tally()
    sums.delete(null)
    const apart = [...sums]
      .filter(([, { notable }]) => notable > 0)
      .sort(([, left], [, right]) => right.notable - left.notable)
    for (const [, tally] of apart.slice(maxShown)) others.add(tally)
    const shown: [string | null, Tally][] = apart.slice(0, maxShown)
    if (others.notable > 0) shown.push([null, others])
    return shown.map(([application, tally]) => ({ application, ...tally.shown }))
  }

  #talliesAt(nowMs: number): Map<string | null, Tally> {
    const minute = minuteOf(nowMs)
    let tallies = this.#minutes.get(minute)
    if (tallies === undefined) {
      this.#forgetAllBut(minute)
      tallies = new Map()
      this.#minutes.set(minute, tallies)
    }
    return tallies
  }

  /** Keeps the hour that ends with this minute. A clock that was set back has left minutes of the future. */
  #forgetAllBut(minute: number): void {
    for (const kept of this.#minutes.keys())
      if (kept > minute || kept <= minute - windowMinutes) this.#minutes.delete(kept)
  }
}

class Tally {
  #orders = 0
  #expired = 0
  #unknown = 0
  #reported = 0
  #leastLateMs = Number.POSITIVE_INFINITY
  #mostLateMs = 0

  count(order: CountedOrder): void {
    this.#orders += 1
    if (order.state === 'unknown') this.#unknown += 1
    if (order.state !== 'expired' && order.state !== 'reported') return
    if (order.state === 'expired') this.#expired += 1
    else this.#reported += 1
    this.#leastLateMs = Math.min(this.#leastLateMs, order.lateMs)
    this.#mostLateMs = Math.max(this.#mostLateMs, order.lateMs)
  }

  add(other: Tally): void {
    this.#orders += other.#orders
    this.#expired += other.#expired
    this.#unknown += other.#unknown
    this.#reported += other.#reported
    this.#leastLateMs = Math.min(this.#leastLateMs, other.#leastLateMs)
    this.#mostLateMs = Math.max(this.#mostLateMs, other.#mostLateMs)
  }

  /** How many were refused or reported. */
  get notable(): number {
    return this.#expired + this.#unknown + this.#reported
  }

  get shown(): Omit<ApplicationsOrders, 'application'> {
    const isAnyLate = this.#expired + this.#reported > 0
    return {
      orders: this.#orders,
      expired: this.#expired,
      unknown: this.#unknown,
      reported: this.#reported,
      leastLateMs: isAnyLate ? this.#leastLateMs : null,
      mostLateMs: isAnyLate ? this.#mostLateMs : null,
    }
  }
}

function minuteOf(nowMs: number): number {
  return Math.floor(nowMs / msPerMinute)
}
