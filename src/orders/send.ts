import type { Clock } from '../clock.ts'
import { ClientGone } from '../http/failure.ts'
import { type Exchange, UpstreamTimes } from '../server/exchange.ts'
import { traceOf } from '../server/swap-headers.ts'
import { fetchWhole, type Sender, type WholeAnswer } from '../upstream/fetch.ts'
import type { UpstreamRequest } from '../upstream/request.ts'
import type { SentBody } from '../upstream/request-body.ts'
import type { Upstream } from '../upstream/upstream.ts'

/** What is sent of an order. */
export interface SentOrder {
  headers: string[]
  body: SentBody
  readAtMs: number
}

interface HowToSend extends Sender, Pick<UpstreamRequest, 'kind' | 'decide'> {}

/**
 * Sends orders. One that was sent is read to the end of its answer, whether or not its client waits: a quote that was
 * used must be forgotten, and a key has its answer.
 */
export class OrderSender {
  /** How many are on their way to the provider, or wait for its answer. Their clients may have left. */
  sent = 0
  readonly #clock: Clock
  readonly #upstream: Upstream
  readonly #totalTimeoutMs: number

  constructor(parts: { clock: Clock; upstream: Upstream; config: { upstream: { totalTimeoutMs: number } } }) {
    this.#clock = parts.clock
    this.#upstream = parts.upstream
    this.#totalTimeoutMs = parts.config.upstream.totalTimeoutMs
  }

  /** An order whose client has left is not sent. */
  async send(
    exchange: Exchange,
    { headers, body, readAtMs }: SentOrder,
    { kind, decide, ...sender }: HowToSend,
  ): Promise<WholeAnswer> {
    const times = new UpstreamTimes()
    exchange.times = times
    this.sent += 1
    const decideIfAwaited = () => {
      if (exchange.response.destroyed)
        throw new ClientGone('the client left before its order was sent', { maybeSeen: false })
      return decide?.() ?? Number.POSITIVE_INFINITY
    }
    const { target } = exchange
    const trace = traceOf(exchange, true)
    try {
      return await fetchWhole({
        upstream: this.#upstream,
        clock: this.#clock,
        totalTimeoutMs: this.#totalTimeoutMs,
        beganAtMs: readAtMs,
        request: { kind, method: 'POST', target, headers, body, trace, decide: decideIfAwaited },
        times,
        ...sender,
      })
    } finally {
      this.sent -= 1
    }
  }
}
