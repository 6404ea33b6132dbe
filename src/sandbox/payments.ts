import { type RequestHandler, Router } from 'express'
import { answerJson, Refusal } from './answer.ts'
import { type Clocks, PaymentCollection } from './payment-collection.ts'
import { bodyAsJsonObject, bodyBytes } from './request-body.ts'
import { queryOf } from './request-query.ts'

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
