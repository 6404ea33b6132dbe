import { randomUUID } from 'node:crypto'
import type { Clock } from '../clock.ts'
import { Refusal } from './answer.ts'
import { BoundedMap } from './bounded-map.ts'

/** One thing of the payments API, such as a checkout: what was posted, with a few fields of the sandbox's own. */
export interface Payment {
  id: string
  createdAt: string
  startedAtMs: number
  /** Kept as text, because the length of a text says how much memory it takes. */
  postedJson: string
  /** What it belongs to, such as the merchant of a charge. */
  ownFields: Record<string, string>
  /** Until it is set, the status depends on time alone. */
  finalStatus: 'cancelled' | 'completed' | 'refunded' | undefined
}

export interface Clocks {
  /** The sandbox's time, `clockOffsetMs` included. */
  clock: Clock
  /** Unaffected by `clockOffsetMs`: a completed checkout stays completed. */
  elapsedClock: Clock
}

const bounds = {
  maxEntries: 1000,
  maxBytes: 16 * 1024 * 1024,
  bytesOf: (payment: Payment) => payment.postedJson.length,
}
const defaultListLength = 20
const maxListLength = 100

export class PaymentCollection {
  readonly #clocks: Clocks
  readonly #statusByTime: (ageMs: number) => string
  readonly #payments = new BoundedMap<Payment>(bounds)

  /** `statusByTime`: the status until it is cancelled, completed or refunded. */
  constructor(clocks: Clocks, statusByTime: (ageMs: number) => string) {
    this.#clocks = clocks
    this.#statusByTime = statusByTime
  }

  create(posted: Record<string, unknown>, ownFields: Record<string, string> = {}): object {
    const payment: Payment = {
      id: randomUUID(),
      createdAt: new Date(this.#clocks.clock.nowMs()).toISOString(),
      startedAtMs: this.#clocks.elapsedClock.nowMs(),
      postedJson: JSON.stringify(posted),
      ownFields,
      finalStatus: undefined,
    }
    this.#payments.set(payment.id, payment)
    return this.#describe(payment)
  }

  one(id: string): object {
    return this.#describe(this.#find(id))
  }

  /** The newest first. */
  list(query: URLSearchParams, isListed: (payment: Payment) => boolean = () => true): object {
    const newest = this.#payments
      .newestFirst()
      .filter(isListed)
      .slice(0, readLimit(query.get('limit')))
    return { data: newest.map((payment) => this.#describe(payment)) }
  }

  /** Undefined: the id is unknown. */
  statusOf(id: string): string | undefined {
    const payment = this.#payments.get(id)
    return payment && this.#status(payment)
  }

  /** Cancels, completes or refunds one that has the status `from`; otherwise it throws a 409 with this code. */
  end(id: string, { from, to, code }: { from: string; to: Payment['finalStatus']; code: string }): object {
    const payment = this.#find(id)
    const status = this.#status(payment)
    if (status !== from) throw new Refusal(409, code, `its status is ${status}, not ${from}`)
    payment.finalStatus = to
    return this.#describe(payment)
  }

  #find(id: string): Payment {
    const payment = this.#payments.get(id)
    if (payment === undefined) throw new Refusal(404, 'NOT_FOUND', 'the id is unknown')
    return payment
  }

  #status({ finalStatus, startedAtMs }: Payment): string {
    return finalStatus ?? this.#statusByTime(this.#clocks.elapsedClock.nowMs() - startedAtMs)
  }

  #describe(payment: Payment): object {
    const { id, createdAt, ownFields } = payment
    const own = { id, status: this.#status(payment), createdAt, ...ownFields }
    // Spread twice: first for their place in the answer, last so that posted fields do not replace them.
    return { ...own, ...JSON.parse(payment.postedJson), ...own }
  }
}

/** List parameters are not documented, so a malformed one is ignored rather than refused. */
function readLimit(text: string | null): number {
  if (text === null || !/^\d{1,9}$/.test(text)) return defaultListLength
  return Math.min(Math.max(1, Number(text)), maxListLength)
}
