import type { Clients } from '../client/client-address.ts'
import type { Clock } from '../clock.ts'
import type { Events } from '../events.ts'
import { ClientGone } from '../http/failure.ts'
import { formatForwarded } from '../http/forwarded.ts'
import { lineBreak } from '../http/headers.ts'
import type { AskedAs, CoolDowns } from '../quotes/cool-downs.ts'
import type { QuoteSource } from '../quotes/flight.ts'
import type { Asker, QuoteAnswer, QuoteRecorder } from '../quotes/quote-answer.ts'
import type { QuoteRequest } from '../quotes/quote-key.ts'
import type { StoredQuote } from '../quotes/quote-store.ts'
import { foldPair } from '../quotes/quote-target.ts'
import { type Exchange, UpstreamTimes } from '../server/exchange.ts'
import type { RateLimit } from '../server/rate-limit.ts'
import { traceHeaders, traceOf, wireName } from '../server/swap-headers.ts'
import { type AnswerHead, fetchWhole, type Sender, type WholeAnswer } from '../upstream/fetch.ts'
import type { Upstream } from '../upstream/upstream.ts'
import { askedAs, limitProblem, readRetryAfter } from './cool-down-calls.ts'

interface QuoteCallOptions {
  upstream: Upstream
  clients: Clients
  clock: Clock
  totalTimeoutMs: number
  /** QUOTE_KEY_HEADERS, in lower case. */
  keyHeaders: readonly string[]
  /** What SWAP_… supplies where the client sends none, by names in lower case. */
  supplied: ReadonlyMap<string, string>
  recorder: Pick<QuoteRecorder, 'recordFound'>
  rateLimit: RateLimit | undefined
  coolDowns: CoolDowns
  readAnswer(call: Promise<WholeAnswer>, request: QuoteRequest): Promise<QuoteAnswer>
  events: Events
}

/** The provider's quotes, asked for on behalf of one exchange. */
export type QuoteSourceFor = (request: QuoteRequest, exchange: Exchange) => QuoteSource

export function createQuoteSources(options: QuoteCallOptions): QuoteSourceFor {
  const { keyHeaders, supplied, rateLimit, coolDowns, upstream, clock, totalTimeoutMs } = options
  const wireNames = keyHeaders.map(wireName)
  // What is supplied goes out also where it is not part of the key.
  const alwaysSupplied = [...supplied].flatMap(([name, value]) =>
    keyHeaders.includes(name) ? [] : [wireName(name), value],
  )

  class SourceForOne implements QuoteSource {
    readonly #request: QuoteRequest
    readonly #exchange: Exchange
    /** Made when they are needed first: a client that joins another's call needs none. */
    #made: { headers: string[]; asked: AskedAs } | undefined

    constructor(request: QuoteRequest, exchange: Exchange) {
      this.#request = request
      this.#exchange = exchange
    }

    get #sent(): { headers: string[]; asked: AskedAs } {
      if (this.#made !== undefined) return this.#made
      const headers = headersOf(this.#request, this.#exchange)
      const asked = askedAs(this.#request, headers, options.clients.identify(this.#exchange).address)
      this.#made = { headers, asked }
      return this.#made
    }

    get asker(): Asker {
      return { target: this.#request.target, address: options.clients.identify(this.#exchange).address }
    }

    get isRefused(): boolean {
      return coolDowns.leftMs(this.#sent.asked) > 0
    }

    /**
     * The call counts as under way before it is counted, so that other clients wait for it instead of being counted
     * themselves: a crowd that needs one call would use up the limits of many.
     */
    async call(signal: AbortSignal): Promise<QuoteAnswer> {
      const times = new UpstreamTimes()
      this.#exchange.times = times
      this.#refuseWhileLimited()
      if (rateLimit !== undefined) await rateLimit.count(this.#exchange)
      if (signal.aborted)
        throw new ClientGone('every client that waited for this quote has left', { maybeSeen: false })
      return this.#send({ times, signal })
    }

    async refresh(): Promise<QuoteAnswer> {
      this.#refuseWhileLimited()
      return this.#send({})
    }

    #refuseWhileLimited(): void {
      const leftMs = coolDowns.leftMs(this.#sent.asked)
      if (leftMs > 0) throw limitProblem(leftMs)
    }

    /** `times`: of a call that the exchange waits for. */
    #send({ times, signal }: { times?: UpstreamTimes; signal?: AbortSignal }): Promise<QuoteAnswer> {
      const request = this.#request
      const exchange = this.#exchange
      const whole = fetchWhole({
        upstream,
        clock,
        totalTimeoutMs,
        request: {
          kind: { quoteOf: foldPair(request.pair) },
          method: 'GET',
          target: request.target,
          headers: this.#sent.headers,
          body: null,
          trace: traceOf(exchange, true),
        },
        signal,
        sender: new QuoteSender(request.pair, { asked: this.#sent.asked, times }, options),
      })
      const settled = () => times?.settled()
      whole.then(settled, settled)
      return options.readAnswer(whole, request)
    }

    found(quote: StoredQuote): void {
      options.recorder.recordFound(quote, this.#request)
    }
  }

  /** All headers of a quote call; the request id and trace context are those of the exchange that caused it. */
  function headersOf({ keyedHeaders }: QuoteRequest, exchange: Exchange): string[] {
    const headers: string[] = []
    for (const [index, [name, value]] of keyedHeaders.entries()) {
      if (value === undefined) continue
      for (const line of value.split(lineBreak)) headers.push(wireNames[index] ?? name, line)
    }
    headers.push(...alwaysSupplied, 'Accept', 'application/json', 'Accept-Encoding', 'identity')
    headers.push(...traceHeaders(exchange), 'X-Request-Id', exchange.id)
    headers.push(
      'Forwarded',
      formatForwarded(options.clients.identify(exchange).address),
      'Via',
      '1.1 quotegate',
    )
    return headers
  }

  return (request, exchange) => new SourceForOne(request, exchange)
}

class QuoteSender implements Sender {
  readonly #pair: string
  readonly #asked: AskedAs
  readonly #times: UpstreamTimes | undefined
  readonly #options: Pick<QuoteCallOptions, 'events' | 'coolDowns'>
  #counted = false

  constructor(
    pair: string,
    { asked, times }: { asked: AskedAs; times: UpstreamTimes | undefined },
    options: Pick<QuoteCallOptions, 'events' | 'coolDowns'>,
  ) {
    this.#pair = pair
    this.#asked = asked
    this.#times = times
    this.#options = options
  }

  /** Counted here, so that neither an open breaker nor a second try counts. */
  sent(): void {
    if (!this.#counted) this.#options.events.quoteCalled(this.#pair)
    this.#counted = true
    this.#times?.sent()
  }

  answerBegan({ status, rawHeaders, receivedAtMs }: AnswerHead): void {
    this.#times?.began()
    if (status === 429) this.#options.coolDowns.refused(this.#asked, readRetryAfter(rawHeaders, receivedAtMs))
  }
}
