import type { Clients } from '../client/client-address.ts'
import { type ApplicationOf, isAddress, type Partition } from '../client/partition.ts'
import type { Clock } from '../clock.ts'
import type { Events } from '../events.ts'
import { awaitsContinue } from '../http/answer.ts'
import { Problem } from '../http/problem.ts'
import type { Journal, NotedQuote } from '../journal/journal.ts'
import { briefText } from '../process/text.ts'
import type { Exchange } from '../server/exchange.ts'
import type { RateLimit } from '../server/rate-limit.ts'
import { type SwapHeaders, withTraceHeaders } from '../server/swap-headers.ts'
import type { RequestBodies } from '../upstream/body.ts'
import type { WholeAnswer } from '../upstream/fetch.ts'
import { RequestBody } from '../upstream/request-body.ts'
import type { Upstream } from '../upstream/upstream.ts'
import { FloatOrder, type FloatOrderDecision, msUntilNextJudgement } from './float-order.ts'
import type { OrderKeys } from './keys.ts'
import type { Ledger } from './ledger.ts'
import type { Notes } from './notes.ts'
import { type OrderTerms, readOrder } from './order-terms.ts'
import {
  expiredProblem,
  mayBeAccepted,
  mayBeSent,
  orderFailure,
  quoteNamedByHeader,
  refuseUnread,
  relayAnswer,
  tooLarge,
  unknownProblem,
} from './problems.ts'
import type { OrderSender, SentOrder } from './send.ts'

interface OrderParts {
  config: {
    orders: {
      quoteIdFields: readonly string[]
      expiryMarginMs: number
      expiredQuote: 'refuse' | 'report'
      unknownQuote: 'forward' | 'refuse'
    }
  }
  clock: Clock
  events: Events
  clients: Clients
  applicationOf: ApplicationOf
  partitionOf: Partition
  /** The digest of a partition that orders are matched by. */
  markOf(partition: string | undefined): string | undefined
  ledger: Ledger
  notes: Notes
  keys: OrderKeys
  journals: { readonly stream: Pick<Journal, 'caughtUp'> | undefined }
  rateLimit: RateLimit | undefined
  swapHeaders: SwapHeaders
  bodies: RequestBodies
  upstream: Upstream
  orderSender: OrderSender
}

/** What would become of an order. */
type OrderExplanation =
  | { problem: string }
  | { problem?: undefined; order: FloatOrder; decision: FloatOrderDecision }

/** POST /v3/orders/float. */
export class FloatOrderRoute {
  readonly #parts: OrderParts

  constructor(parts: OrderParts) {
    this.#parts = parts
  }

  async answer(exchange: Exchange): Promise<void> {
    const { bodies, clock, config, keys, swapHeaders, upstream } = this.#parts
    const { request, response } = exchange
    const { rawHeaders } = request
    const headers = withTraceHeaders(swapHeaders.of(exchange), exchange)
    refuseUnread(rawHeaders)
    const header = quoteNamedByHeader(rawHeaders)
    const key = keys.idIn(headers)
    // Only a client that waits for `100 Continue` is refused without its body: without it no order can be judged, and an
    // order that is too late is refused for that, whether or not the upstream works. One with a key may need no upstream.
    if (key === undefined && awaitsContinue(response)) upstream.mustTake('float-order')
    const { whole: bytes, body } = await bodies.read(request, response, { isJudged: true })
    const readAtMs = clock.timers.steadyMs()
    if (bytes === undefined) {
      // Otherwise it would keep the refusal from reading the rest of the request.
      if (body instanceof RequestBody) body.destroy()
      throw tooLarge()
    }
    const { quoteIdFields } = config.orders
    const { order: terms, problem } = readOrder(bytes, { quoteIdFields, header })
    if (problem !== undefined) throw new Problem('bad-order', { detail: problem })

    const sent = { headers, body, readAtMs }
    // A key that was used is answered whatever became of the quote since, and whatever the client's limit says.
    const answer =
      key === undefined
        ? await this.#order(terms, exchange, sent)
        : await keys.once(exchange, { id: key, bytes, terms }, () => this.#order(terms, exchange, sent))
    relayAnswer(exchange, answer, terms)
  }

  /** Sends the order unless its verdict or a limit says otherwise. */
  async #order(terms: OrderTerms, exchange: Exchange, sent: SentOrder): Promise<WholeAnswer> {
    const { applicationOf, clients, partitionOf, rateLimit } = this.#parts
    const { rawHeaders } = exchange.request
    const partition = partitionOf(clients.identify(exchange), rawHeaders)
    const order = await this.#judge(terms, applicationOf(rawHeaders), partition)
    // An order that is too late already is refused without a connection, and whether or not the upstream works.
    this.#refuseUnlessSent(order, exchange)
    await rateLimit?.count(exchange)
    return this.#send(order, exchange, sent)
  }

  /** Judges a float order as it would be judged now, without counting, sending or remembering anything. */
  async explain(body: Buffer, appName: string): Promise<OrderExplanation> {
    const { applicationOf, config, partitionOf } = this.#parts
    const { order: terms, problem } = readOrder(body, config.orders)
    if (problem !== undefined) return { problem }
    const application = appName === '' ? applicationOf([]) : appName
    // Where clients have partitions, the person at the console has none.
    const partition = partitionOf({ address: undefined, peerTrusted: false }, [])
    const order = await this.#judge(terms, application, partition)
    return { order, decision: this.#decision(order) }
  }

  /**
   * What other replicas noted is read first, or it is known that it could not be read. Even if a live quote is known
   * here: that one may expire while the order waits, and another replica may know of a quote that expires later.
   */
  async #judge(
    terms: OrderTerms,
    application: string | undefined,
    partition: string | undefined,
  ): Promise<FloatOrder> {
    const { config, journals, ledger, markOf } = this.#parts
    const orderer = {
      isAddress: isAddress(partition),
      partition: markOf(partition),
      application: briefText(application ?? ''),
    }
    const othersKnown = (await journals.stream?.caughtUp()) ?? true
    return new FloatOrder(terms, { ...orderer, othersKnown, marginMs: config.orders.expiryMarginMs }, ledger)
  }

  #decision(order: FloatOrder): FloatOrderDecision {
    const { expiredQuote, unknownQuote } = this.#parts.config.orders
    switch (order.verdict.state) {
      case 'live':
        return 'forwarded-live'
      case 'expired':
        return expiredQuote === 'report' ? 'reported-expired' : 'refused-expired'
      case 'unknown':
        return unknownQuote === 'forward' || order.isInDoubt ? 'forwarded-unknown' : 'refused-unknown'
    }
  }

  /** Throws why the order is not sent, by its verdict. */
  #refuseUnlessSent(order: FloatOrder, exchange: Exchange): void {
    const { terms, verdict } = order
    exchange.outcome = { how: 'order-sent', why: order.why }
    const decision = this.#decision(order)
    if (decision !== 'refused-expired' && decision !== 'refused-unknown') return
    this.#parts.events.orderDecided(exchange, decision, order)
    throw verdict.state === 'expired' ? expiredProblem(terms, verdict) : unknownProblem()
  }

  /**
   * An order that waits for a connection is judged when it goes out, not only when it came. While it waits it is refused
   * at the instant at which its quote expires, unless it is only reported. One that does not wait is not judged twice.
   * Says when to ask again.
   */
  #decideAgain(order: FloatOrder, exchange: Exchange): number {
    const now = this.#parts.ledger.now()
    let liveForMs = order.liveForMs(now)
    if (liveForMs <= 0 || order.hasWaited) {
      order.judge(now)
      this.#refuseUnlessSent(order, exchange)
      liveForMs = order.liveForMs(now)
    }
    return msUntilNextJudgement(liveForMs)
  }

  async #send(order: FloatOrder, exchange: Exchange, sent: SentOrder): Promise<WholeAnswer> {
    const { events, notes, orderSender } = this.#parts
    let used: NotedQuote | undefined
    let headCame: (head: Pick<WholeAnswer, 'status'>) => void
    // Waited for, because what the connection calls is in the span of the request that it was made for.
    const head = new Promise<Pick<WholeAnswer, 'status'>>((resolve) => {
      headCame = resolve
    })
    const answer = orderSender.send(exchange, sent, {
      kind: 'float-order',
      decide: () => this.#decideAgain(order, exchange),
      sent: () => {
        used = order.quote
        events.orderDecided(exchange, this.#decision(order), order)
        if (used !== undefined && notes.order(used, order.partition)) events.orderRepeated(exchange, order)
      },
      answerBegan: (began) => headCame(began),
    })
    let status = 0
    try {
      status = (await Promise.race([head, answer])).status
      // The head says whether the order may have been accepted, whatever becomes of the rest of the answer.
      if (mayBeAccepted(status)) this.#use(used)
      else if (used !== undefined) notes.orderRefused(used, order.partition)
      return await answer
    } catch (error) {
      if (!mayBeSent(error)) throw error
      if (status === 0) this.#use(used)
      throw orderFailure(error, order.terms, status)
    }
  }

  /** The quote may not be handed out again. */
  #use(quote: NotedQuote | undefined): void {
    if (quote !== undefined) this.#parts.notes.use(quote)
  }
}
