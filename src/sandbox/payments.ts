import { randomUUID } from 'node:crypto'
import { type RequestHandler, Router } from 'express'
import { LRUCache } from 'lru-cache'
import type { Clock } from '../clock.ts'
import { answerJson, Refusal } from './answer.ts'
import { bodyAsJsonObject, bodyBytes, queryOf } from './requests.ts'

/** One thing of the payments API, such as a checkout: what was posted, with a few fields of the sandbox's own. */
interface Payment {
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

interface Clocks {
  /** The sandbox's time, `clockOffsetMs` included. */
  clock: Clock
  /** Unaffected by `clockOffsetMs`: a completed checkout stays completed. */
  elapsedClock: Clock
}

const bounds = { max: 1000, maxSize: 16 * 1024 * 1024 }
const defaultListLength = 20
const maxListLength = 100

class PaymentCollection {
  readonly #clocks: Clocks
  readonly #statusByTime: (ageMs: number) => string
  readonly #payments = new LRUCache<string, Payment>(bounds)

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
    this.#payments.set(payment.id, payment, { size: payment.postedJson.length })
    return this.#describe(payment)
  }

  one(id: string): object {
    return this.#describe(this.#find(id))
  }

  /** The newest first. */
  list(query: URLSearchParams, isListed: (payment: Payment) => boolean = () => true): object {
    const newest = [...this.#payments.values()].filter(isListed).slice(0, readLimit(query.get('limit')))
    return { data: newest.map((payment) => this.#describe(payment)) }
  }

  /** Undefined: the id is unknown. */
  statusOf(id: string): string | undefined {
    const payment = this.#payments.peek(id)
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
    const payment = this.#payments.peek(id)
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

const checkoutOpenMs = 2000
const checkoutStatus = (ageMs: number) => (ageMs >= checkoutOpenMs ? 'completed' : 'open')
const families = [
  '/checkouts',
  '/subscriptions',
  '/subscription-checkouts',
  '/refunds',
  '/payments',
  '/merchants',
  '/settings',
]

/** The payments API. Every checkout counts as paid after two seconds, or at once by `completeCheckout`. */
export class Payments {
  readonly router = Router()
  readonly #checkouts: PaymentCollection
  readonly #refunds: PaymentCollection

  constructor(clocks: Clocks) {
    this.#checkouts = new PaymentCollection(clocks, checkoutStatus)
    this.#refunds = new PaymentCollection(clocks, () => 'succeeded')
    const subscriptions = new PaymentCollection(clocks, () => 'active')
    this.router.use(families, requireKey)
    this.#collection('/checkouts', this.#checkouts)
    this.#cancelling('/checkouts', this.#checkouts, 'open')
    this.#collection('/subscriptions', subscriptions)
    this.#cancelling('/subscriptions', subscriptions, 'active')
    this.#collection('/subscription-checkouts', new PaymentCollection(clocks, checkoutStatus))
    this.router.post('/refunds', this.#refuseUnpaid)
    this.#collection('/refunds', this.#refunds)
    this.#payments(new PaymentCollection(clocks, () => 'succeeded'))
    this.#charges(new PaymentCollection(clocks, () => 'succeeded'))
    this.#settings()
  }

  completeCheckout(id: string): object {
    if (this.#checkouts.statusOf(id) === 'completed') return this.#checkouts.one(id)
    return this.#checkouts.end(id, { from: 'open', to: 'completed', code: 'NOT_OPEN' })
  }

  #collection(path: string, collection: PaymentCollection): void {
    this.router.post(path, (request, response) => {
      answerJson(response, 201, collection.create(bodyAsJsonObject(request)))
    })
    this.router.get(path, (request, response) => {
      answerJson(response, 200, collection.list(queryOf(request)))
    })
    this.router.get(`${path}/:id` as const, (request, response) => {
      answerJson(response, 200, collection.one(request.params.id))
    })
  }

  #cancelling(path: string, collection: PaymentCollection, from: string): void {
    this.router.post(`${path}/:id/cancel` as const, (request, response) => {
      const change = { from, to: 'cancelled', code: 'NOT_CANCELLABLE' } as const
      answerJson(response, 200, collection.end(request.params.id, change))
    })
  }

  #refuseUnpaid: RequestHandler = (request, _response, next) => {
    const { checkoutId } = bodyAsJsonObject(request)
    if (typeof checkoutId !== 'string') throw new Refusal(400, 'MISSING_CHECKOUT', 'checkoutId is required')
    if (this.#checkouts.statusOf(checkoutId) !== 'completed') {
      throw new Refusal(422, 'NOT_REFUNDABLE', 'only a completed checkout can be refunded')
    }
    next()
  }

  #payments(payments: PaymentCollection): void {
    this.#collection('/payments', payments)
    this.router.post('/payments/:id/refund', (request, response) => {
      const posted = bodyBytes(request).length === 0 ? {} : bodyAsJsonObject(request)
      payments.end(request.params.id, { from: 'succeeded', to: 'refunded', code: 'NOT_REFUNDABLE' })
      answerJson(response, 201, this.#refunds.create(posted, { paymentId: request.params.id }))
    })
  }

  #charges(charges: PaymentCollection): void {
    this.router.post('/merchants/:id/charges', (request, response) => {
      const merchant = { merchantId: request.params.id }
      answerJson(response, 201, charges.create(bodyAsJsonObject(request), merchant))
    })
    this.router.get('/merchants/:id/charges', (request, response) => {
      const isOfMerchant = (one: { ownFields: Record<string, string> }) =>
        one.ownFields.merchantId === request.params.id
      answerJson(response, 200, charges.list(queryOf(request), isOfMerchant))
    })
  }

  #settings(): void {
    let settings: Record<string, unknown> = {}
    this.router.get('/settings', (_request, response) => answerJson(response, 200, settings))
    this.router.put('/settings', (request, response) => {
      settings = bodyAsJsonObject(request)
      answerJson(response, 200, settings)
    })
  }
}

const requireKey: RequestHandler = (request, response, next) => {
  if (!/^Bearer +\S/i.test(request.headers.authorization ?? '')) {
    response.setHeader('WWW-Authenticate', 'Bearer')
    throw new Refusal(401, 'UNAUTHORIZED', 'send Authorization: Bearer and any key')
  }
  next()
}
