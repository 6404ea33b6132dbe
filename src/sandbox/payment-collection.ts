import { randomInt } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { Refusal } from './answer.ts'
import type { Sources } from './faults.ts'

export type Fields = Record<string, unknown>

/** Something of the payments API, such as a checkout, in the form of its answer. */
type Described = Fields & { id: string; status: string }

interface Payment {
  /** The sandbox's own fields, which posted ones do not replace. */
  own: Fields & { id: string }
  /** Kept as a text, whose length shows its memory. */
  postedJson: string
  startedAtMs: number
  /** Undefined: the status depends on time alone. */
  status: string | undefined
}

export interface Kind {
  name: string
  /** Without it an id has 24 letters, as in newer pages. */
  prefix?: 'chk_' | 'pay_' | 'schk_'
  /** The status at first, and after two seconds. Default: succeeded. */
  statuses?: readonly [string, string]
}

const settledAfterMs = 2000

export class PaymentCollection {
  readonly #sources: Sources
  readonly #kind: Kind
  readonly #payments = new LRUCache<string, Payment>({
    max: 1000,
    maxSize: 16 * 1024 * 1024,
  })

  constructor(sources: Sources, kind: Kind) {
    this.#sources = sources
    this.#kind = kind
  }

  /** `own`: more of the sandbox's fields. A status in it stays until it is changed. */
  create(
    posted: object,
    { status, ...own }: Fields & { status?: string } = {},
  ): Described {
    const id = (this.#kind.prefix ?? '') + letters(24)
    const payment: Payment = {
      own: {
        id,
        status,
        createdAt: new Date(this.#sources.clock.nowMs()).toISOString(),
        ...own,
      },
      postedJson: JSON.stringify(posted),
      startedAtMs: this.#sources.elapsedClock.nowMs(),
      status,
    }
    this.#payments.set(id, payment, { size: payment.postedJson.length })
    return this.#describe(payment)
  }

  one(id: string): Described {
    return this.#describe(this.#find(id))
  }

  /** Payments with these fields of their own, newest first. */
  newest(limit: number, chosen: Fields = {}): Described[] {
    const isChosen = (own: Fields) =>
      Object.entries(chosen).every(([name, value]) => own[name] === value)
    const found = [...this.#payments.values()].filter((payment) =>
      isChosen(this.#own(payment)),
    )
    return found.slice(0, limit).map((payment) => this.#describe(payment))
  }

  /** Throws a 409 if the payment has another status. */
  having(status: string, id: string): Described {
    const found = this.one(id)
    if (found.status === status) return found
    throw new Refusal(
      409,
      'invalid_state',
      `its status is ${found.status}, not ${status}`,
    )
  }

  change(id: string, from: string, to: string): Described {
    this.having(from, id)
    this.#find(id).status = to
    return this.one(id)
  }

  #find(id: string): Payment {
    const payment = this.#payments.peek(id)
    if (payment === undefined)
      throw new Refusal(404, 'not_found', `${this.#kind.name} not found`)
    return payment
  }

  #own({ own, startedAtMs, status }: Payment): Described {
    const isSettled = this.#sources.elapsedClock.nowMs() - startedAtMs >= settledAfterMs
    const [first, settled] = this.#kind.statuses ?? ['succeeded', 'succeeded']
    return { ...own, status: status ?? (isSettled ? settled : first) }
  }

  #describe(payment: Payment): Described {
    const own = this.#own(payment)
    // Spread twice: first for their place, last so that posted fields do not replace them.
    return { ...own, ...JSON.parse(payment.postedJson), ...own }
  }
}

export function letters(count: number): string {
  return Array.from({ length: count }, () =>
    String.fromCharCode(97 + randomInt(26)),
  ).join('')
}
