import type { Partition } from '../client/partition.ts'
import { addLength, endToEndHeaders } from '../http/headers.ts'
import { remembering } from '../http/memoize.ts'
import { Problem } from '../http/problem.ts'
import {
  answerInOneWrite,
  createHeadLines,
  dateLine,
  headLines,
  isSent,
  TrafficResponse,
  writeReceivedHead,
} from '../http/whole-response.ts'
import type { ProviderClock } from '../quotes/provider-clock.ts'
import { isExpired } from '../quotes/quote.ts'
import { isCaching, repeatableHeaders } from '../quotes/quote-answer.ts'
import type { Call, MakeCall, QuoteCache, Served } from '../quotes/quote-cache.ts'
import type { KeyedRequest, QuoteRequest } from '../quotes/quote-key.ts'
import type { StoredQuote } from '../quotes/quote-store.ts'
import { readAmount, readQuoteTarget } from '../quotes/quote-target.ts'
import { unwritable } from '../upstream/fault.ts'
import type { Exchange } from './exchange.ts'
import type { QuoteHeaders } from './quote-request.ts'
import { isAnothersRefusal, type RateLimit, rateLimitFields } from './rate-limit.ts'
import { refuseLoop } from './swap-headers.ts'

export interface QuoteRouteOptions {
  cache: QuoteCache
  keyOf(request: QuoteRequest): string
  partitionOf: Partition
  quoteHeaders: QuoteHeaders
  providerClock: ProviderClock
  /** Asks the upstream, on behalf of the exchange that caused it. */
  callUpstream(request: QuoteRequest, exchange: Exchange): Call
  /** Told of a quote that another replica asked for and this one will serve. Undefined: it is alone. */
  onFound: ((quote: StoredQuote, request: QuoteRequest) => void) | undefined
  /** Undefined: none. */
  rateLimit: RateLimit | undefined
  fail(exchange: Exchange, error: unknown): void
  /** Told of every quote that goes out, with what it has left. */
  onServed(pair: string, remainingMs: number): void
}

export interface QuoteRoute {
  /** At once if the quote is in memory. */
  answer(exchange: Exchange): void | Promise<void>
}

/** GET and HEAD /v3/pairs/:pairId/quotes. */
export function createQuoteRoute(options: QuoteRouteOptions): QuoteRoute {
  const {
    cache,
    callUpstream,
    fail,
    keyOf,
    onFound,
    onServed,
    partitionOf,
    providerClock,
    quoteHeaders,
    rateLimit,
  } = options

  const hitHeaders = createHitHeaders()
  const linesOf = createHeadLines()
  /** All that a target says; most were read a moment ago. */
  const readAsked = remembering((target) => {
    const parts = readQuoteTarget(target)
    return parts && { pair: parts.pair, ...readAmount(parts.query) }
  })

  function readRequest(exchange: Exchange): KeyedRequest {
    const { method, rawHeaders } = exchange.request
    if (method !== 'GET' && method !== 'HEAD') {
      throw new Problem('method-not-allowed', {
        detail: 'A quote is asked for with GET.',
        headers: { Allow: 'GET, HEAD, OPTIONS' },
      })
    }
    const { target } = exchange
    refuseLoop(rawHeaders)
    const keyedHeaders = quoteHeaders.keyed(exchange)
    const asked = readAsked(target)
    if (asked === undefined) throw new Problem('bad-target', { detail: 'This is not the path of a quote.' })
    if (asked.problem !== undefined) {
      throw new Problem('bad-amount', { detail: asked.problem, members: { parameter: 'amount' } })
    }
    const partition = partitionOf(exchange.client, rawHeaders)
    const request: QuoteRequest = {
      pair: asked.pair,
      canonicalAmount: asked.canonical,
      keyedHeaders,
      partition: partition ?? '',
      query: asked.otherParameters,
      target,
    }
    return { request, key: partition === undefined ? undefined : keyOf(request) }
  }

  function ownOfHit(exchange: Exchange, quote: StoredQuote, pair: string): HitHeaders {
    const own = hitHeaders(serveFor(pair, quote.expiresAtMs))
    exchange.cacheStatus = own.list[cacheStatusAt]
    return own
  }

  /** Undefined if Node would refuse to write it. */
  function hitHead(exchange: Exchange, quote: StoredQuote, own: HitHeaders): string | undefined {
    const received = linesOf(quote.headers)
    if (received === undefined) return undefined
    return `HTTP/1.1 200 OK\r\n${received}Content-Length: ${quote.body.length}\r\n${own.lines}X-Request-Id: ${exchange.id}\r\n${dateLine()}`
  }

  function answerHit(exchange: Exchange, quote: StoredQuote, pair: string): void {
    const { response } = exchange
    const own = ownOfHit(exchange, quote, pair)
    if (response instanceof TrafficResponse && exchange.rateLimit === undefined) {
      const head = hitHead(exchange, quote, own)
      if (head !== undefined && response.writeWhole(head, quote.body)) return
    }
    const headers = quote.headers.concat('Content-Length', String(quote.body.length), own.list)
    headers.push('X-Request-Id', exchange.id, ...rateLimitFields(exchange))
    response.writeHead(200, headers)
    // A latin1 string is joined with the head into one write, a Buffer is not.
    response.end(quote.body, 'latin1')
  }

  function answerServed(exchange: Exchange, served: Served, { request, key }: KeyedRequest): void {
    if (served.how === 'hit') {
      answerHit(exchange, served.quote, request.pair)
      return
    }
    const { answer, how } = served
    const { response } = exchange
    const detail = answer.notKept ?? (key === undefined ? 'unknown-client' : undefined)
    const bypass = `quotegate; fwd=bypass; detail=${detail}`
    // Not a quote: as the upstream said it, with a word on why it was not kept.
    let headers = [...answer.headers, 'Cache-Status', bypass]
    exchange.cacheStatus = bypass
    if (answer.quote !== undefined) {
      const ttl = serveFor(request.pair, answer.quote.expiryMs)
      const status =
        how === 'collapsed'
          ? 'quotegate; fwd=uri-miss; collapsed'
          : `quotegate; fwd=uri-miss; stored; ttl=${ttl}`
      // The exchange behind a shared quote was somebody else's: his request id and trace are not for this one.
      const received =
        how === 'collapsed' ? repeatableHeaders(answer.headers) : endToEndHeaders(answer.headers, isCaching)
      if (detail === undefined) exchange.cacheStatus = status
      headers = [...received, ...ownHeaders(ttl, exchange.cacheStatus)]
      if (how === 'collapsed') headers.push('X-Request-Id', exchange.id)
    }
    headers.push(...rateLimitFields(exchange, headers))
    response.sendDate = how === 'collapsed' && answer.quote !== undefined
    addLength(headers, answer)
    const { status, reason, body } = answer
    if (answerInOneWrite(response, { status, reason, headers }, body)) return
    writeReceivedHead(response, { status, reason, headers })
    response.end(body)
  }

  /** A quote whose time ran out between its arrival and the turn of this client's answer. */
  function isTooLate(served: Served): boolean {
    const expiresAtMs = served.how === 'hit' ? served.quote.expiresAtMs : served.answer.quote?.expiryMs
    return expiresAtMs !== undefined && isExpired(expiresAtMs, providerClock.latestMs())
  }

  /** The whole seconds that a quote has left as it goes out. */
  function serveFor(pair: string, expiresAtMs: number): number {
    const leftMs = Math.max(0, expiresAtMs - providerClock.latestMs())
    onServed(pair, leftMs)
    return Math.floor(leftMs / 1_000)
  }

  return {
    answer(exchange) {
      const keyed = readRequest(exchange)
      if (rateLimit?.countsHits) return rateLimit.count(exchange).then(() => fetchFor(exchange, keyed))
      const quote = liveQuote(exchange, keyed)
      return quote === undefined ? fetchFor(exchange, keyed) : answerHit(exchange, quote, keyed.request.pair)
    },
  }

  function liveQuote(exchange: Exchange, { request, key }: KeyedRequest): StoredQuote | undefined {
    return key === undefined ? undefined : cache.getLive(key, callFor(request, exchange))
  }

  function callFor(request: QuoteRequest, exchange: Exchange): MakeCall {
    const call: MakeCall = () => callUpstream(request, exchange)
    if (onFound !== undefined) call.onFound = (quote) => onFound(quote, request)
    return call
  }

  function fetchFor(exchange: Exchange, { request, key }: KeyedRequest): void {
    const { response } = exchange
    if (response.destroyed) return
    exchange.missed = true
    const refresh = callFor(request, exchange)
    const call: MakeCall = () => rateLimit?.countedCall(exchange, refresh) ?? refresh()
    call.onFound = refresh.onFound
    const ask = (again: boolean) =>
      key === undefined ? cache.fetchAlone(call, { again }) : cache.getOrFetch(key, call, { refresh, again })
    let asking = ask(false)
    let gone = false
    response.once('close', () => {
      if (isSent(response)) return
      gone = true
      asking.leave()
    })

    function serve(served: Served, askedTimes: number): void {
      if (gone) return
      if (isTooLate(served) && askedTimes < asksMost) {
        asking = ask(true)
        wait(askedTimes + 1)
        return
      }
      try {
        answerServed(exchange, served, { request, key })
      } catch (error) {
        fail(exchange, unwritable('swap', error))
      }
    }

    function wait(askedTimes: number): void {
      asking.served.then(
        (served) => serve(served, askedTimes),
        (error) => {
          if (gone) return
          if (!isAnothersRefusal(exchange, error)) {
            fail(exchange, error)
            return
          }
          // Each such round answers at least the one who was refused.
          asking = ask(true)
          wait(askedTimes)
        },
      )
    }
    wait(1)
  }
}

/** How often a client's quote may turn out to have expired while its answer waited for its turn. */
const asksMost = 3

interface HitHeaders {
  list: readonly string[]
  lines: string
}

/** The headers of a hit, which are the same for every quote with as many seconds left. */
function createHitHeaders(): (ttl: number) => HitHeaders {
  let lastTtl = -1
  let last: HitHeaders = { list: [], lines: '' }
  return (ttl) => {
    if (ttl === lastTtl) return last
    const list = ownHeaders(ttl, `quotegate; hit; ttl=${ttl}`)
    last = { list, lines: headLines(list) ?? '' }
    lastTtl = ttl
    return last
  }
}

const cacheStatusAt = 3

function ownHeaders(ttl: number, cacheStatus: string): string[] {
  // Without Age beside it: max-age is what is left from now, and a cache would take Age off once more.
  return ['Cache-Control', `private, max-age=${ttl}`, 'Cache-Status', cacheStatus]
}
