import { randomUUID } from 'node:crypto'
import { type RequestHandler, Router } from 'express'
import type { Clock } from '../clock.ts'
import { answerJson, Refusal } from './answer.ts'
import { BoundedMap } from './bounded-map.ts'
import { bodyAsJsonObject } from './request-body.ts'
import { queryOf } from './request-query.ts'

interface Payment {
  id: string
  createdAt: string
  startedAtMs: number
  /** Kept as text, because the length of a text says how much memory it takes. */
  postedJson: string
  /** Set by cancelling or completing; until then the status depends on time alone. */
  finalStatus: 'cancelled' | 'completed' | undefined
}

type StatusOf = (payment: Payment) => string

export interface PaymentsOptions {
  /** The sandbox's time, `clockOffsetMs` included. */
  clock: Clock
  /** Unaffected by `clockOffsetMs`: a completed checkout stays completed. */
  elapsedClock: Clock
}

const checkoutOpenMs = 2000
const defaultListLength = 20
const maxListLength = 100
const bounds = {
  maxEntries: 1000,
  maxBytes: 16 * 1024 * 1024,
  bytesOf: (payment: Payment) => payment.postedJson.length,
}

/** The payments API. Every checkout counts as paid after two seconds, or at once by `completeCheckout`. */
export class Payments {
  readonly router: Router
  readonly #clock: Clock
  readonly #elapsedClock: Clock
  readonly #checkouts = new BoundedMap<Payment>(bounds)
  readonly #subscriptions = new BoundedMap<Payment>(bounds)
  readonly #refunds = new BoundedMap<Payment>(bounds)

  constructor({ clock, elapsedClock }: PaymentsOptions) {
    this.#clock = clock
    this.#elapsedClock = elapsedClock
    this.router = Router()
    this.router.use(['/checkouts', '/subscriptions', '/refunds'], requireKey)
    this.router.use('/checkouts', this.#collection(this.#checkouts, this.#checkoutStatus))
    this.router.post('/checkouts/:id/cancel', this.#cancel(this.#checkouts, this.#checkoutStatus, 'open'))
    this.router.use('/subscriptions', this.#collection(this.#subscriptions, subscriptionStatus))
    this.router.post(
      '/subscriptions/:id/cancel',
      this.#cancel(this.#subscriptions, subscriptionStatus, 'active'),
    )
    this.router.post('/refunds', this.#refuseUnpaid)
    this.router.use(
      '/refunds',
      this.#collection(this.#refunds, () => 'succeeded'),
    )
  }

  completeCheckout(id: string): Record<string, unknown> {
    const checkout = find(this.#checkouts, id)
    if (checkout.finalStatus === 'cancelled') throw new Refusal(409, 'NOT_OPEN', 'the checkout is cancelled')
    checkout.finalStatus = 'completed'
    return describe(checkout, this.#checkoutStatus)
  }

  #checkoutStatus = (checkout: Payment): string => {
    if (checkout.finalStatus !== undefined) return checkout.finalStatus
    return this.#elapsedClock.nowMs() - checkout.startedAtMs >= checkoutOpenMs ? 'completed' : 'open'
  }

  #refuseUnpaid: RequestHandler = (request, _response, next) => {
    const { checkoutId } = bodyAsJsonObject(request)
    if (typeof checkoutId !== 'string') throw new Refusal(400, 'MISSING_CHECKOUT', 'checkoutId is required')
    const checkout = this.#checkouts.get(checkoutId)
    if (checkout === undefined || this.#checkoutStatus(checkout) !== 'completed') {
      throw new Refusal(422, 'NOT_REFUNDABLE', 'only a completed checkout can be refunded')
    }
    next()
  }

  #collection(payments: BoundedMap<Payment>, statusOf: StatusOf): Router {
    const router = Router()
    router.post('/', (request, response) => {
      const payment: Payment = {
        id: randomUUID(),
        createdAt: new Date(this.#clock.nowMs()).toISOString(),
        startedAtMs: this.#elapsedClock.nowMs(),
        postedJson: JSON.stringify(bodyAsJsonObject(request)),
        finalStatus: undefined,
      }
      payments.set(payment.id, payment)
      answerJson(response, 201, describe(payment, statusOf))
    })
    router.get('/', (request, response) => {
      const newest = payments.newestFirst().slice(0, readLimit(queryOf(request).get('limit')))
      answerJson(response, 200, { data: newest.map((payment) => describe(payment, statusOf)) })
    })
    router.get('/:id', (request, response) => {
      answerJson(response, 200, describe(find(payments, request.params.id), statusOf))
    })
    return router
  }

  #cancel(payments: BoundedMap<Payment>, statusOf: StatusOf, from: string): RequestHandler<{ id: string }> {
    return (request, response) => {
      const payment = find(payments, request.params.id)
      const status = statusOf(payment)
      if (status !== from) throw new Refusal(409, 'NOT_CANCELLABLE', `its status is ${status}, not ${from}`)
      payment.finalStatus = 'cancelled'
      answerJson(response, 200, describe(payment, statusOf))
    }
  }
}

const subscriptionStatus: StatusOf = ({ finalStatus }) => finalStatus ?? 'active'

const requireKey: RequestHandler = (request, response, next) => {
  if (!/^Bearer +\S/i.test(request.headers.authorization ?? '')) {
    response.setHeader('WWW-Authenticate', 'Bearer')
    throw new Refusal(401, 'UNAUTHORIZED', 'send Authorization: Bearer and any key')
  }
  next()
}

function find(payments: BoundedMap<Payment>, id: string): Payment {
  const payment = payments.get(id)
  if (payment === undefined) throw new Refusal(404, 'NOT_FOUND', 'there is no such id')
  return payment
}

function describe(payment: Payment, statusOf: StatusOf): Record<string, unknown> {
  const own = { id: payment.id, status: statusOf(payment), createdAt: payment.createdAt }
  // Spread twice: first for their place in the answer, last so that posted fields do not replace them.
  return { ...own, ...JSON.parse(payment.postedJson), ...own }
}

/** List parameters are not documented, so a malformed one is ignored rather than refused. */
function readLimit(text: string | null): number {
  if (text === null || !/^\d{1,9}$/.test(text)) return defaultListLength
  return Math.min(Math.max(1, Number(text)), maxListLength)
}
