import { once } from 'node:events'
import { type Clock, lookAt, type Now } from '../clock.ts'
import type { Events } from '../events.ts'
import { answerInOneWrite, isSent, TrafficResponse, writeReceivedHead } from '../http/answer.ts'
import { dateLine } from '../http/date.ts'
import { addLength, endToEndHeaders, headerValues, isCaching, repeatableHeaders } from '../http/headers.ts'
import { ownRequestId } from '../http/ids.ts'
import { Problem } from '../http/problem.ts'
import { serveLeftMs } from '../quotes/ends.ts'
import { failureByTime } from '../quotes/flight.ts'
import { Patience } from '../quotes/patience.ts'
import type { AskOptions, QuoteCache, Served } from '../quotes/quote-cache.ts'
import type { KeyedRequest } from '../quotes/quote-key.ts'
import type { StoredQuote } from '../quotes/quote-store.ts'
import type { Exchange } from '../server/exchange.ts'
import { isAnothersRefusal, type RateLimit, rateLimitFields } from '../server/rate-limit.ts'
import { unwritable } from '../upstream/fault.ts'
import { isLimitProblem } from './cool-down-calls.ts'
import type { QuoteSourceFor } from './quote-call.ts'
import { createQuoteHeaders } from './quote-headers.ts'
import type { ReadQuoteRequest } from './quote-request.ts'

export interface QuoteRouteOptions {
  cache: QuoteCache
  readRequest: ReadQuoteRequest
  sourceFor: QuoteSourceFor
  clock: Clock
  /** UPSTREAM_TOTAL_TIMEOUT_MS. */
  totalTimeoutMs: number
  rateLimit: RateLimit | undefined
  /** The request headers, in lower case, that tell which quote a client gets. */
  chosenBy: readonly string[]
  fail(exchange: Exchange, error: unknown): void
  events: Events
}

export interface QuoteRoute {
  /** Answers at once if the quote is in memory. */
  answer(exchange: Exchange): void | Promise<void>
}

/** How often a request asks, because its quote expired before it could be written. */
const maxAsks = 3

function expiredWaiting(): Problem {
  return new Problem('quote-expired-waiting', {
    detail: `${maxAsks} quotes in a row expired before they could be sent to this client. Request the quote again.`,
  })
}

/** GET and HEAD /v3/pairs/:pairId/quotes. */
export function createQuoteRoute(options: QuoteRouteOptions): QuoteRoute {
  const { cache, readRequest, sourceFor, clock, totalTimeoutMs, rateLimit, events } = options
  const quoteHeaders = createQuoteHeaders(options.chosenBy)

  function answer(exchange: Exchange): void | Promise<void> {
    // In a mounted app an earlier answer on the same connection is not finished. A quote that waited for that would go
    // out unjudged, so it is looked for when its turn comes.
    if (exchange.response.socket === null) return answerInTurn(exchange)
    const keyed = readRequest(exchange)
    if (rateLimit?.countsHits) return rateLimit.count(exchange).then(() => fetchFor(exchange, keyed))
    const { key, request } = keyed
    if (key === undefined) return fetchFor(exchange, keyed)
    // One moment decides whether the quote is live, and says what it has left.
    const at = lookAt(clock)
    const quote = cache.live(key, at)
    if (quote === undefined) return fetchFor(exchange, keyed, at)
    answerHit(exchange, quote, { pair: request.pair, at })
    if (cache.refreshesAhead && cache.isRefreshDue(key, quote))
      cache.refresh(key, quote, sourceFor(request, exchange))
  }

  async function answerInTurn(exchange: Exchange): Promise<void> {
    await once(exchange.response, 'socket')
    return answer(exchange)
  }

  function answerHit(exchange: Exchange, quote: StoredQuote, { pair, at }: { pair: string; at: Now }): void {
    const { response } = exchange
    const own = quoteHeaders.ofHit(serve(pair, serveLeftMs(quote.end, at)))
    const received = quoteHeaders.replayed(quote.headers)
    exchange.outcome = own.outcome
    if (response instanceof TrafficResponse && exchange.rateLimit === undefined) {
      if (received.lines !== undefined) {
        const length = `Content-Length: ${quote.body.length}\r\n`
        const head = `HTTP/1.1 200 OK\r\n${received.lines}${length}${own.lines}X-Request-Id: ${exchange.id}\r\n${dateLine()}`
        if (response.writeWhole(head, quote.body)) return
      }
    }
    const headers = received.list.concat('Content-Length', String(quote.body.length), own.list)
    headers.push('X-Request-Id', exchange.id, ...rateLimitFields(exchange))
    response.writeHead(200, headers)
    // Node joins a latin1 string with the head into one write, but not a Buffer.
    response.end(quote.body, 'latin1')
  }

  function answerServed(exchange: Exchange, served: Served, { request, key }: KeyedRequest, at: Now): void {
    if (served.how === 'hit') {
      answerHit(exchange, served.quote, { pair: request.pair, at })
      return
    }
    const { answer, how } = served
    const { response } = exchange
    const detail = served.notKept ?? (key === undefined ? 'unknown-client' : undefined)
    const bypass = `quotegate; fwd=bypass; detail=${detail}`
    exchange.outcome = { how: 'bypass', cacheStatus: bypass }
    // What is not a quote goes out as the upstream said it, with the reason why it was not kept.
    let headers = [...answer.headers, 'Cache-Status', bypass]
    if (answer.end !== undefined) {
      const ttl = serve(request.pair, serveLeftMs(answer.end, at))
      const status =
        how === 'collapsed'
          ? 'quotegate; fwd=uri-miss; collapsed'
          : `quotegate; fwd=uri-miss; stored; ttl=${ttl}`
      // A shared quote came with another client's exchange, whose request id and trace are not for this client.
      const received =
        how === 'collapsed' ? repeatableHeaders(answer.headers) : endToEndHeaders(answer.headers, isCaching)
      if (detail === undefined) exchange.outcome = { how, cacheStatus: status }
      headers = quoteHeaders.ofAnswer(received, ttl, detail === undefined ? status : bypass)
    }
    headers.push(...ownRequestId(headers, exchange.id))
    if (exchange.rateLimit !== undefined) headers.push(...rateLimitFields(exchange, headers))
    // A quote has a Date: its own, if this client's exchange brought it, else ours. What is not a quote gets none added.
    response.sendDate = answer.end !== undefined && headerValues(headers, 'date').length === 0
    addLength(headers, answer)
    const { status, reason, body } = answer
    if (answerInOneWrite(response, { status, reason, headers }, body)) return
    writeReceivedHead(response, { status, reason, headers })
    response.end(body)
  }

  /** A quote whose time ran out between its arrival and the turn of this client's answer. */
  function isTooLate(served: Served, at: Now): boolean {
    const { end } = served.how === 'hit' ? served.quote : served.answer
    return end !== undefined && serveLeftMs(end, at) <= 0
  }

  /** Counts a quote that goes out now, and returns the whole seconds that it has left. */
  function serve(pair: string, remainingMs: number): number {
    const leftMs = Math.max(0, remainingMs)
    events.quoteServed(pair, leftMs)
    return Math.floor(leftMs / 1_000)
  }

  function fetchFor(exchange: Exchange, { request, key }: KeyedRequest, at?: Now): void {
    const { response } = exchange
    if (response.destroyed) return
    exchange.missed = true
    const source = sourceFor(request, exchange)
    const ask = (options: AskOptions) =>
      key === undefined ? cache.fetchAlone(source, options) : cache.getOrFetch(key, source, options)
    let gone = false
    const patience = new Patience({
      endsAtMs: exchange.startedAtMs + totalTimeoutMs,
      onEnd(failure) {
        gone = true
        asking.leave()
        options.fail(exchange, failure)
      },
    })
    let asking = ask({ at, patience })
    response.once('close', () => {
      if (isSent(response)) return
      gone = true
      patience.end()
      asking.leave()
    })

    function answerWith(served: Served, asks: number): void {
      if (gone) return
      const at = lookAt(clock)
      if (isTooLate(served, at)) {
        if (asks < maxAsks)
          askAgain(failureByTime(`${asks} quotes in a row expired before they could be written`), asks + 1)
        else fail(expiredWaiting())
        return
      }
      patience.end()
      try {
        answerServed(exchange, served, { request, key }, at)
      } catch (error) {
        options.fail(exchange, unwritable('swap', error))
      }
    }

    function wait(asks: number): void {
      asking.served.then(
        (served) => answerWith(served, asks),
        (error) => {
          if (gone) return
          // This ends: each such round answers at least the client that was refused.
          if (isAnothersRefusal(exchange, error) || (isLimitProblem(error) && !source.isRefused))
            askAgain(failureByTime('the calls that it waited for were refused to others'), asks)
          else fail(error)
        },
      )
    }

    /** Only as long as the client's own time lasts. After that `failure` is its answer. */
    function askAgain(failure: Error, asks: number): void {
      if (!patience.hasTimeAfter(failure)) {
        fail(failure)
        return
      }
      asking = ask({ again: true, patience })
      wait(asks)
    }

    function fail(error: Error): void {
      patience.end()
      options.fail(exchange, error)
    }

    wait(1)
  }

  return { answer }
}
