import { type Request, type RequestHandler, Router } from 'express'
import { LRUCache } from 'lru-cache'
import { z } from 'zod'
import { addAnswers, Refusal, read } from './answer.ts'
import type { Sources } from './faults.ts'
import { type Fields, type Kind, PaymentCollection } from './payment-collection.ts'
import { bodyAsJsonObject, queryOf } from './requests.ts'

const oneDayMs = 86_400_000
const defaultListLength = 20
const maxListLength = 100
const maxCharges = 1000

const settles = ['open', 'completed'] as const
const wholeOrText = z.union([z.string().min(1), z.int()])
const refundSchema = z.looseObject({
  destination: z.string().min(1),
  deadline: wholeOrText,
})
const chargeSchema = z.looseObject({
  amount: z.string().min(1),
  charge_nonce: wholeOrText,
})

/** Every checkout counts as paid after two seconds, or at once by `completeCheckout`. */
export class Payments {
  readonly router = Router()
  readonly #sources: Sources
  readonly #checkouts: PaymentCollection
  readonly #subscriptions: PaymentCollection
  readonly #charges: PaymentCollection
  /** The last charge quote of each subscription. */
  readonly #chargeQuotes = new LRUCache<string, { amount: string; expiresAtMs: number }>({
    max: maxCharges,
  })

  constructor(sources: Sources) {
    const collection = (kind: Kind) => new PaymentCollection(sources, kind)
    const checkouts = collection({ name: 'Checkout', prefix: 'chk_', statuses: settles })
    const begun = collection({
      name: 'Subscription checkout',
      prefix: 'schk_',
      statuses: settles,
    })
    const subscriptions = collection({
      name: 'Subscription',
      statuses: ['incomplete', 'active'],
    })
    const payments = collection({ name: 'Payment', prefix: 'pay_' })
    const refunds = collection({ name: 'Refund' })
    const charges = collection({ name: 'Charge' })
    this.#sources = sources
    this.#checkouts = checkouts
    this.#subscriptions = subscriptions
    this.#charges = charges
    let settings = {}
    const add = (status: number, answers: Parameters<typeof addAnswers>[2]) =>
      addAnswers(this.router, status, answers, requireKey)

    const listed = {
      checkouts,
      'subscription-checkouts': begun,
      subscriptions,
      payments,
      refunds,
    }
    for (const [path, collection] of Object.entries(listed)) {
      add(200, {
        [`get /${path}`]: (_id, request) => listOf(request, collection),
        [`get /${path}/:id`]: (id) => collection.one(id),
      })
    }
    add(201, {
      'post /checkouts': (_id, request) =>
        this.#createCheckout(bodyAsJsonObject(request)),
      'post /subscription-checkouts': (_id, request) => {
        const posted = bodyAsJsonObject(request)
        return begun.create(posted, { subscriptionId: subscriptions.create(posted).id })
      },
      'post /subscriptions': (_id, request) =>
        subscriptions.create(bodyAsJsonObject(request), { status: 'active' }),
      'post /subscriptions/:id/charge': (id, request) => this.#charge(id, request),
      'post /payments': (_id, request) => {
        const posted = bodyAsJsonObject(request)
        return payments.create(posted, isTwoStep(posted) ? { status: 'authorized' } : {})
      },
      'post /payments/:id/refund': (id, request) => {
        const posted = signedBody(request, refundSchema)
        payments.change(id, 'succeeded', 'refunded')
        return refunds.create(posted, { paymentId: id })
      },
      'post /refunds': (_id, request) =>
        refunds.create(this.#ofPaidCheckout(bodyAsJsonObject(request))),
      'post /merchants/:id/charges': (id, request) =>
        charges.create(bodyAsJsonObject(request), { merchantId: id }),
    })
    add(200, {
      'post /checkouts/:id/cancel': (id) => checkouts.change(id, 'open', 'cancelled'),
      'patch /subscription-checkouts/:id/cancel': (id) => {
        const cancelled = begun.change(id, 'open', 'cancelled')
        const subscription = subscriptions.one(String(cancelled.subscriptionId))
        subscriptions.change(subscription.id, subscription.status, 'cancelled')
        return cancelled
      },
      'post /subscriptions/:id/cancel': (id) =>
        subscriptions.change(id, 'active', 'cancelled'),
      'post /subscriptions/:id/charge-quote': (id) => this.#quoteCharge(id),
      'get /subscriptions/:id/charges': (id, request) =>
        listOf(request, charges, { subscriptionId: subscriptions.one(id).id }),
      'post /payments/:id/capture': (id, request) => {
        requireSignature(request)
        return payments.change(id, 'authorized', 'succeeded')
      },
      'get /merchants/:id/charges': (id, request) =>
        listOf(request, charges, { merchantId: id }),
      'get /settings': () => settings,
      'put /settings': (_id, request) => {
        settings = bodyAsJsonObject(request)
        return settings
      },
    })
  }

  completeCheckout(id: string): object {
    const checkout = this.#checkouts.one(id)
    return checkout.status === 'completed'
      ? checkout
      : this.#checkouts.change(id, 'open', 'completed')
  }

  #createCheckout(posted: Fields): object {
    if (!isTwoStep(posted)) return this.#checkouts.create(posted)
    const inOneDay = new Date(this.#sources.clock.nowMs() + oneDayMs).toISOString()
    return this.#checkouts.create(posted, { expires_at: posted.expires_at ?? inOneDay })
  }

  #ofPaidCheckout(posted: Fields): object {
    const { checkoutId: id } = posted
    if (typeof id !== 'string')
      throw new Refusal(400, 'invalid_request', 'checkoutId is required')
    if (this.#checkouts.newest(1, { id, status: 'completed' }).length > 0) return posted
    throw new Refusal(422, 'invalid_state', 'only a completed checkout can be refunded')
  }

  /** The quote lives as long as a quote of the swap API. */
  #quoteCharge(id: string): object {
    const { amount, token } = this.#subscriptions.having('active', id)
    if (token !== undefined)
      throw new Refusal(409, 'invalid_state', 'a plan in tokens has no quote')
    const { clock, faults } = this.#sources
    // In whole seconds, as published.
    const expiresAtMs =
      Math.ceil((clock.nowMs() + faults.current.quoteLifetimeMs) / 1000) * 1000
    const quote = {
      amount: /^\d+$/.test(String(amount)) ? String(amount) : '9990000',
      expiresAtMs,
    }
    this.#chargeQuotes.set(id, quote)
    return {
      amount: quote.amount,
      expires_at: new Date(expiresAtMs).toISOString().replace('.000', ''),
    }
  }

  #charge(id: string, request: Request): object {
    const own = { subscriptionId: id, failure_reason: null }
    if (this.#subscriptions.having('active', id).token !== undefined) {
      if (request.body.bytes.length === 0) return this.#charges.create({}, own)
      throw new Refusal(
        400,
        'invalid_request',
        'a charge of a plan in tokens has no body',
      )
    }
    const posted = signedBody(request, chargeSchema)
    const reason = this.#whyNotCharged(id, posted)
    if (reason === undefined) return this.#charges.create(posted, own)
    this.#charges.create(posted, { ...own, status: 'failed', failure_reason: reason })
    throw new Refusal(422, reason, 'the contract reverts')
  }

  #whyNotCharged(id: string, posted: z.infer<typeof chargeSchema>): string | undefined {
    const nonce = String(posted.charge_nonce)
    const charged = this.#charges.newest(maxCharges, {
      subscriptionId: id,
      status: 'succeeded',
    })
    if (charged.some((one) => String(one.charge_nonce) === nonce))
      return 'charge_nonce_used'
    const quote = this.#chargeQuotes.get(id)
    if (quote?.amount !== posted.amount) return 'amount_not_quoted'
    return this.#sources.clock.nowMs() >= quote.expiresAtMs ? 'quote_expired' : undefined
  }
}

function isTwoStep({ payment_method: method, payment_mode: mode }: Fields): boolean {
  return (method ?? mode) === 'two_step'
}

/** List parameters are undocumented, so a malformed one is ignored. */
function listOf(
  request: Request,
  collection: PaymentCollection,
  chosen: Fields = {},
): object {
  const text = queryOf(request).get('limit') ?? ''
  const limit = /^\d{1,9}$/.test(text) ? Math.max(1, Number(text)) : defaultListLength
  return { data: collection.newest(Math.min(limit, maxListLength), chosen) }
}

const requireKey: RequestHandler = (request, response, next) => {
  if (/^Bearer +\S/i.test(request.headers.authorization ?? '')) return next()
  response.setHeader('WWW-Authenticate', 'Bearer')
  throw new Refusal(
    401,
    'unauthorized',
    'send Authorization: Bearer and a key such as sk_test_1',
  )
}

function signedBody<Output>(request: Request, schema: z.ZodType<Output>): Output {
  requireSignature(request)
  return read(schema, bodyAsJsonObject(request), 'invalid_request')
}

/** Any signature is good: what the provider verifies is not known. */
function requireSignature(request: Request): void {
  if (!request.headers['x-signature'])
    throw new Refusal(401, 'invalid_signature', 'send X-Signature')
}
