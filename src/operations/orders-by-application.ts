import type { FloatOrderDecision } from '../orders/guard.ts'
import type { OrdersOfApplication } from './schemas.ts'

const windowMinutes = 60
/** Max applications in one minute, because callers choose the App-Name. */
const maxApplications = 50
const maxShown = 20
const msPerMinute = 60_000

type Sums = Omit<OrdersOfApplication, 'application'>
/** The key is the application; null: all others. */
type ByApplication = Map<string | null, Sums>

/** Float orders of the last hour: 60 minutes of at most 51 applications. */
export class OrdersByApplication {
  readonly #minutes = new Map<number, ByApplication>()

  /** `lateMs`: null if the quote was not expired. `steadyMs`: now, by the steady clock. */
  count(
    application: string,
    decision: FloatOrderDecision,
    lateMs: number | null,
    steadyMs: number,
  ): void {
    const minute = Math.floor(steadyMs / msPerMinute)
    const sums: ByApplication = this.#minutes.get(minute) ?? new Map()
    this.#minutes.set(minute, sums)
    if (this.#minutes.size > windowMinutes) this.#forgetBefore(minute)
    add(sums, sums.has(application) || sums.size < maxApplications ? application : null, {
      orders: 1,
      expired: Number(decision === 'refused-expired'),
      unknown: Number(decision === 'refused-unknown'),
      reported: Number(decision === 'reported-expired'),
      leastLateMs: lateMs,
      mostLateMs: lateMs,
    })
  }

  /** Applications with refused or reported orders, most first, and last the sum of all others. */
  refused(steadyMs: number): OrdersOfApplication[] {
    this.#forgetBefore(Math.floor(steadyMs / msPerMinute))
    const ofHour: ByApplication = new Map()
    for (const sums of this.#minutes.values())
      for (const [application, one] of sums) add(ofHour, application, one)
    const apart = [...ofHour]
      .filter(([application, sums]) => application !== null && refusedOf(sums) > 0)
      .sort(([, left], [, right]) => refusedOf(right) - refusedOf(left))
    for (const [, sums] of apart.splice(maxShown)) add(ofHour, null, sums)
    const others = ofHour.get(null)
    if (others !== undefined && refusedOf(others) > 0) apart.push([null, others])
    return apart.map(([application, sums]) => ({ application, ...sums }))
  }

  #forgetBefore(minute: number): void {
    for (const kept of this.#minutes.keys())
      if (kept <= minute - windowMinutes) this.#minutes.delete(kept)
  }
}

function add(to: ByApplication, application: string | null, one: Sums): void {
  const sum = to.get(application)
  if (sum === undefined) return void to.set(application, { ...one })
  for (const name of ['orders', 'expired', 'unknown', 'reported'] as const)
    sum[name] += one[name]
  if (one.leastLateMs === null || one.mostLateMs === null) return
  sum.leastLateMs = Math.min(sum.leastLateMs ?? one.leastLateMs, one.leastLateMs)
  sum.mostLateMs = Math.max(sum.mostLateMs ?? one.mostLateMs, one.mostLateMs)
}

function refusedOf({ expired, unknown, reported }: Sums): number {
  return expired + unknown + reported
}
