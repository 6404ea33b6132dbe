import type { Users } from '../client/client-address.ts'
import { type ApplicationOf, isAddress, type Partition } from '../client/partition.ts'
import type { Clock } from '../clock.ts'
import type { Events } from '../events.ts'
import { ClientGone } from '../http/failure.ts'
import { headerLines, linesOf, readingsOf } from '../http/headers.ts'
import { Problem } from '../http/problem.ts'
import { briefText } from '../process/text.ts'
import type { Exchange } from '../server/exchange.ts'
import type { RateLimit } from '../server/rate-limit.ts'
import type { SwapHeaders } from '../server/swap-headers.ts'
import { awaitsContinue, isSurelyLong, type RequestBodies } from '../upstream/body.ts'
import { type Fetch, fetchWhole, type WholeAnswer } from '../upstream/fetch.ts'
import { RequestBody, type SentBody } from '../upstream/request-body.ts'
import type { Upstream } from '../upstream/upstream.ts'
import { FloatOrder, type FloatOrderDecision } from './guard.ts'
import type { KeyedOrders } from './keyed-orders.ts'
import { namedByHeader, type Orderer, type OrderTerms, readOrder } from './order-terms.ts'
import type { HoldableOrder, OrderMemory } from './ports.ts'
import {
  expiredProblem,
  hasCoding,
  keyIn,
  mayBeAccepted,
  mayBeSent,
  orderFailure,
  orderHeaders,
  quoteNamedIn,
  refuseUnread,
  relayAnswer,
  tooLarge,
  unknownProblem,
} from './problems.ts'

interface OrderParts {
  config: {
    orders: {
      quoteIdFields: readonly string[]
      expiryMarginMs: number
      /** Or the applications whose orders are reported. */
      expiredQuote: 'refuse' | 'report' | { readonly applications: readonly string[] }
      unknownQuote: 'forward' | 'refuse'
    }
    upstream: { totalTimeoutMs: number }
  }
  clock: Clock
  events: Events
  users: Users
  applicationOf: ApplicationOf
  partitionOf: Partition
  /** Digests a partition as quotes and orders are matched by it. */
  markOf(partition: string | undefined): string | undefined
  memory: Omit<OrderMemory, 'keys'>
  keyed: KeyedOrders
  rateLimit: RateLimit | undefined
  swapHeaders: SwapHeaders
  bodies: RequestBodies
  upstream: Upstream
  passThrough: {
    answer(
      exchange: Exchange,
      order: Omit<OrderToSend, 'readAtMs'> & { recheckInMs: () => number },
    ): Promise<void>
  }
}

/** What the provider gets if the order is sent. */
interface OrderToSend {
  readonly headers: string[]
  readonly body: SentBody
  readonly readAtMs: number
}

export class OrderRoutes {
  /** Orders on their way, or waiting for an answer. Their callers may have left. */
  underWay = 0
  readonly #parts: OrderParts

  constructor(parts: OrderParts) {
    this.#parts = parts
  }

  /** POST /v3/orders/float. */
  async answerFloat(exchange: Exchange): Promise<void> {
    const { bodies, clock, config, keyed, swapHeaders, upstream } = this.#parts
    const { request, response } = exchange
    const headers = swapHeaders.of(exchange, { isOrder: true })
    const application = headerLines(headers, 'app-name') ?? ''
    const [coding, length, quoteLines, keyLines] = linesOf(
      request.rawHeaders,
      orderHeaders,
    )
    refuseUnread(coding, length)
    const header = quoteNamedIn(quoteLines)
    const key = keyIn(keyLines)
    // An order is judged before the breaker is asked: a late one is refused as late even if the upstream is down. A
    // caller that waits for `100 Continue` has sent no body to judge, so it is refused at once. A key may need no
    // upstream.
    if (key === undefined && awaitsContinue(response))
      upstream.throwIfKeptBack('float-order')
    const { whole: bytes, body } = await bodies.read(request, response, {
      isJudged: true,
    })
    const toSend = { headers, body, readAtMs: clock.timers.steadyMs() }
    if (bytes === undefined) {
      // The body is longer than an order may be. An open body would keep the refusal from reading the rest of the request.
      if (body instanceof RequestBody) body.destroy()
      throw tooLarge()
    }
    const { order: terms, problem } = readOrder(bytes, { ...config.orders, header })
    if (problem !== undefined) throw new Problem('bad-order', { detail: problem })
    const read = { terms, application }
    const send = () => this.#judgeAndSend(read, exchange, toSend)
    // A used key is answered even if its quote is over now, and beyond the caller's limit.
    const answer = await (key === undefined
      ? send()
      : keyed.once(exchange, { key, headers, bytes, terms }, send))
    relayAnswer(exchange, answer, terms)
  }

  async #judgeAndSend(
    { terms, application }: { terms: OrderTerms; application: string },
    exchange: Exchange,
    toSend: OrderToSend,
  ): Promise<WholeAnswer> {
    const { markOf, memory, partitionOf, rateLimit, users } = this.#parts
    const holdable = { pair: terms.surePair, application, what: 'order' } as const
    memory.holds.refuse(holdable)
    const place = partitionOf(exchange.identify(users), exchange.request.rawHeaders)
    const orderer = {
      application: briefText(application),
      isAddress: isAddress(place),
      partition: markOf(place),
    }
    const order = await this.#judge(terms, orderer)
    // What is late already is refused uncounted and without a connection, even if the upstream is down.
    this.#refuseByVerdict(order, exchange)
    await rateLimit?.count(exchange)
    return this.#counted(() => this.#sendFloat(order, exchange, toSend, holdable))
  }

  /** Judges a float order as of now, without counting, sending or remembering anything. */
  async explain(body: Buffer, appName: string) {
    const { order: terms, problem } = readOrder(body, this.#parts.config.orders)
    if (problem !== undefined) return { problem }
    const { applicationOf, markOf, memory, partitionOf } = this.#parts
    const application = applicationOf(appName === '' ? [] : ['App-Name', appName]) ?? ''
    const held = memory.holds.covering({
      pair: terms.surePair,
      application,
      what: 'order',
    })
    if (held !== undefined) return { held }
    const order = await this.#judge(terms, {
      isAddress: false,
      // The operator at the console has no partition, unless all users share one.
      partition: markOf(partitionOf({ address: undefined, peerTrusted: false }, [])),
      application: briefText(application),
    })
    return { order, decision: this.#decision(order) }
  }

  /**
   * Reads other replicas' notes first, or learns that they cannot be read. A live quote that is known here may expire
   * while the order waits, and another replica may know one that expires later.
   */
  async #judge(terms: OrderTerms, orderer: Orderer): Promise<FloatOrder> {
    const { config, memory } = this.#parts
    const othersKnown = await memory.caughtUp()
    return new FloatOrder(
      terms,
      { ...orderer, marginMs: config.orders.expiryMarginMs, othersKnown },
      memory.known,
    )
  }

  #decision(order: FloatOrder): FloatOrderDecision {
    const { expiredQuote, unknownQuote } = this.#parts.config.orders
    const isReported =
      typeof expiredQuote === 'object'
        ? expiredQuote.applications
            .flatMap(readingsOf)
            .map(briefText)
            .includes(order.judging.application)
        : expiredQuote === 'report'
    switch (order.verdict.state) {
      case 'live':
        return 'forwarded-live'
      case 'expired':
        return isReported ? 'reported-expired' : 'refused-expired'
      case 'unknown':
        return unknownQuote === 'forward' || order.doubt !== undefined
          ? 'forwarded-unknown'
          : 'refused-unknown'
    }
  }

  /** Throws if the verdict forbids the order. */
  #refuseByVerdict(order: FloatOrder, exchange: Exchange): void {
    const { terms, verdict } = order
    exchange.endsAs({ how: 'order-judged', why: order.why })
    const decision = this.#decision(order)
    if (decision !== 'refused-expired' && decision !== 'refused-unknown') return
    this.#parts.events.orderDecided(exchange, decision, order)
    throw verdict.state === 'expired' ? expiredProblem(terms, verdict) : unknownProblem()
  }

  /**
   * Reads the answer to its end even if the caller leaves: a used quote must be forgotten, and the key needs its
   * answer.
   */
  async #sendFloat(
    order: FloatOrder,
    exchange: Exchange,
    toSend: OrderToSend,
    holdable: HoldableOrder,
  ): Promise<WholeAnswer> {
    const { events, memory } = this.#parts
    const { partition } = order.judging
    const sending = this.#send(exchange, toSend, 'float-order', () => {
      memory.holds.refuse(holdable)
      const recheckMs = order.judgeAgain()
      this.#refuseByVerdict(order, exchange)
      return recheckMs
    })
    await sending.written()
    const used = order.quote
    const isOrderedAgain = used !== undefined && memory.uses.noteSent(used, partition)
    events.orderDecided(exchange, this.#decision(order), order)
    if (isOrderedAgain) events.quoteOrderedAgain(exchange, order)
    let status = 0
    try {
      // The head says whether the order may have been accepted, even if the body is lost.
      status = (await sending.head()).status
      if (used !== undefined && mayBeAccepted(status)) memory.uses.use(used)
      else if (used !== undefined) memory.uses.notAccepted(used, partition)
      return await sending.whole()
    } catch (error) {
      if (status === 0 && used !== undefined && mayBeSent(error)) memory.uses.use(used)
      throw orderFailure(error, order.terms, status)
    }
  }

  /**
   * Does not send an order whose caller has left. `recheckInMs` is called while the order waits for a connection, and
   * just before its first byte is written. It throws if the order must not be sent, or returns the ms until the next
   * call.
   */
  #send(
    exchange: Exchange,
    { headers, body, readAtMs }: OrderToSend,
    kind: 'order' | 'float-order',
    recheckInMs: () => number,
  ): Fetch {
    const { clock, config, upstream } = this.#parts
    const { response, target } = exchange
    const times = exchange.asksUpstream()
    const hasLeft = 'the caller left before its order was sent'
    if (response.destroyed) throw new ClientGone(hasLeft, { maybeSeen: false })
    const sending = fetchWhole({
      upstream,
      clock,
      totalTimeoutMs: config.upstream.totalTimeoutMs,
      beganAtMs: readAtMs,
      request: {
        kind,
        method: 'POST',
        target,
        headers,
        body,
        cause: exchange,
        recheckInMs,
        times,
      },
    })
    response.once('close', () => {
      if (!sending.wasWritten) sending.leave(hasLeft)
    })
    return sending
  }

  /** Counts an order from its sending to the end of its answer. */
  async #counted(send: () => Promise<WholeAnswer>): Promise<WholeAnswer> {
    this.underWay += 1
    try {
      return await send()
    } finally {
      this.underWay -= 1
    }
  }

  /** POST /v3/orders: passes unless it names a quote, because only a float order may use one. */
  async answerPlain(exchange: Exchange): Promise<void> {
    const {
      bodies,
      clock,
      config,
      memory,
      keyed,
      passThrough,
      rateLimit,
      swapHeaders,
      upstream,
    } = this.#parts
    const { request, response } = exchange
    const [coding, , quoteLines, keyLines] = linesOf(request.rawHeaders, orderHeaders)
    const header = quoteNamedIn(quoteLines)
    const key = keyIn(keyLines)
    const headers = swapHeaders.of(exchange, { isOrder: true })
    const application = headerLines(headers, 'app-name') ?? ''
    // A longer body streams, so it cannot be compared with an earlier order.
    if (key !== undefined && isSurelyLong(request)) throw tooLarge()
    // An order with a key may need no upstream.
    if (key === undefined && awaitsContinue(response))
      upstream.throwIfKeptBack('order', { bodyStreams: isSurelyLong(request) })
    const { whole: bytes, body } = await bodies.read(request, response, {
      isJudged: true,
    })
    const toSend = { headers, body, readAtMs: clock.timers.steadyMs() }
    let terms: OrderTerms | undefined
    try {
      if (key !== undefined && bytes === undefined) throw tooLarge()
      if (bytes !== undefined && !hasCoding(coding))
        terms = readOrder(bytes, { ...config.orders, header }).order
      const quoteIds = terms?.quoteIds ?? namedByHeader(header)
      const holdable = { pair: terms?.surePair, application, what: 'order' } as const
      const neverIfHeld = () => {
        memory.holds.refuse(holdable)
        return Number.POSITIVE_INFINITY
      }
      if (key === undefined || bytes === undefined) {
        neverIfHeld()
        await this.#refuseQuote(quoteIds)
        // The caller may have left meanwhile; relaying would then wait forever for it to read.
        if (!response.destroyed)
          await passThrough.answer(exchange, { headers, body, recheckInMs: neverIfHeld })
        return
      }
      const answer = await keyed.once(
        exchange,
        { key, headers, bytes, terms },
        async () => {
          neverIfHeld()
          await this.#refuseQuote(quoteIds)
          await rateLimit?.count(exchange)
          return this.#counted(() =>
            this.#send(exchange, toSend, 'order', neverIfHeld).whole(),
          )
        },
      )
      relayAnswer(exchange, answer, terms)
    } catch (error) {
      throw orderFailure(error, terms)
    } finally {
      if (body instanceof RequestBody) body.destroy()
    }
  }

  async #refuseQuote(quoteIds: OrderTerms['quoteIds']): Promise<void> {
    const { memory } = this.#parts
    if (quoteIds.length === 0) return
    await memory.caughtUp()
    const named = quoteIds.find(({ id }) => memory.known.findById(id) !== undefined)
    if (named === undefined) return
    throw new Problem('float-order-required', {
      detail:
        'This order names a quote. Send it to POST /v3/orders/float. Nothing was sent to the provider.',
      members: { quoteId: named.id, use: '/v3/orders/float' },
    })
  }
}
