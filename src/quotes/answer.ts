import type { Now } from '../clock.ts'
import type { Events } from '../events.ts'
import {
  answerInOneWrite,
  dateLine,
  headLines,
  TrafficResponse,
  writeReceivedHead,
} from '../http/answer.ts'
import { UpstreamFailure } from '../http/failure.ts'
import {
  addLength,
  endToEndHeaders,
  headerValues,
  isCaching,
  othersHeaders,
  ownRequestId,
  wireName,
} from '../http/headers.ts'
import type { Exchange, RequestEnd } from '../server/exchange.ts'
import { rateLimitFields } from '../server/rate-limit.ts'
import { unwritable } from '../upstream/fault.ts'
import { type End, serveLeftMs } from './ends.ts'
import { endOf, type ProviderAnswer, type Quote, type QuoteAnswer } from './quote.ts'
import type { QuoteRequest } from './request.ts'

export class QuoteWriter {
  readonly #events: Events
  /** The request headers that select a quote: they go into Vary. */
  readonly #chosenBy: readonly string[]
  /** What a hit repeats of a quote's headers. Nearly all quotes share one list of headers. */
  readonly #repeated = new WeakMap<readonly string[], ReturnType<typeof written>>()
  /** The headers of the last hit, reused while the seconds left are equal. */
  #own = hitHeaders(0)

  /** `chosenBy`: in lower case. */
  constructor(chosenBy: readonly string[], events: Events) {
    this.#chosenBy = [...new Set(chosenBy)].map(wireName)
    this.#events = events
  }

  /** A quote from memory or from another replica. `countAs`: as in `events.quoteServed`. */
  hit(
    exchange: Exchange,
    quote: Quote,
    { pair }: QuoteRequest,
    at: Now,
    countAs?: 'hit',
  ): void {
    const ttl = this.#serve(pair, quote.end, at, countAs)
    if (ttl !== this.#own.ttl) this.#own = hitHeaders(ttl)
    this.#again(exchange, quote, this.#own)
  }

  /** The live quote in memory, because the call for a younger one brought none. */
  old(
    exchange: Exchange,
    quote: Quote,
    { pair }: QuoteRequest,
    at: Now,
    { answer, hasJoined }: { answer: QuoteAnswer | Error; hasJoined: boolean },
  ): void {
    const ttl = this.#serve(pair, quote.end, at)
    const went = wentForward(answer)
    const how = hasJoined ? 'collapsed' : 'fetched'
    const from = hasJoined ? `fwd=stale; ${went}; collapsed` : `fwd=stale; ${went}`
    const own = went === undefined ? hitHeaders(ttl) : againHeaders(ttl, how, from)
    this.#again(exchange, quote, own)
  }

  #again(exchange: Exchange, quote: Quote, own: ReturnType<typeof againHeaders>): void {
    const { response } = exchange
    const received = this.#ofQuote(quote.headers)
    exchange.endsAs(own.outcome)
    const isPlain = exchange.rateLimit === undefined && received.lines !== undefined
    if (isPlain && response instanceof TrafficResponse) {
      const length = `Content-Length: ${quote.body.length}\r\n`
      const id = `X-Request-Id: ${exchange.id}\r\n`
      const head = `HTTP/1.1 200 OK\r\n${received.lines}${length}${own.lines}${id}${dateLine()}`
      if (response.writeWhole(head, quote.body)) return
    }
    const headers = received.list.concat(
      'Content-Length',
      String(quote.body.length),
      own.list,
    )
    headers.push('X-Request-Id', exchange.id, ...rateLimitFields(exchange))
    response.writeHead(200, headers)
    // Node joins a latin1 string with the head into one write, but not a Buffer.
    response.end(quote.body, 'latin1')
  }

  /** An answer that has just come. `how`: whether this exchange made the call. */
  fresh(
    exchange: Exchange,
    answer: ProviderAnswer,
    how: 'fetched' | 'collapsed',
    { pair, key }: QuoteRequest,
    at: Now,
  ): void {
    const { response } = exchange
    const { status, reason, body, headers: all, repeated } = answer.received
    const end = endOf(answer)
    const unknown = key === undefined ? 'unknown-client' : undefined
    const detail = answer.kind === 'not-kept' ? answer.why : unknown
    const bypass = `quotegate; fwd=bypass; detail=${detail}`
    exchange.endsAs({ how: 'bypass', cacheStatus: bypass })
    // The call was made by another exchange, whose request id and trace are not for this caller.
    const isOthers = how === 'collapsed'
    let headers: string[]
    if (end === undefined) {
      // Not a quote: relayed as it came, with the reason why it is not kept.
      headers = [...(isOthers ? othersHeaders(all) : all), 'Cache-Status', bypass]
    } else {
      const ttl = this.#serve(pair, end, at)
      const kept = isOthers ? 'collapsed' : `stored; ttl=${ttl}`
      const cacheStatus =
        detail === undefined ? `quotegate; fwd=uri-miss; ${kept}` : bypass
      if (detail === undefined) exchange.endsAs({ how, cacheStatus })
      const own = ownHeaders(ttl, cacheStatus)
      const received = isOthers ? repeated : endToEndHeaders(all, isCaching)
      headers = [...withVary(received, this.#chosenBy), ...own]
    }
    headers.push(...ownRequestId(headers, exchange.id))
    if (exchange.rateLimit !== undefined)
      headers.push(...rateLimitFields(exchange, headers))
    // Adds our Date to a quote that has none. Another answer gets none added.
    response.sendDate = end !== undefined && headerValues(headers, 'date').length === 0
    addLength(headers, { status, body })
    try {
      if (answerInOneWrite(response, { status, reason, headers }, body)) return
      writeReceivedHead(response, { status, reason, headers })
      response.end(body)
    } catch (error) {
      throw unwritable('swap', error)
    }
  }

  /** Counts a quote that is served now. Returns the whole seconds that it has left. */
  #serve(pair: string, end: End, at: Now, countAs?: 'hit'): number {
    const leftMs = Math.max(0, serveLeftMs(end, at))
    this.#events.quoteServed(pair, leftMs, at.nowMs, countAs)
    return Math.floor(leftMs / 1_000)
  }

  #ofQuote(received: readonly string[]) {
    const known = this.#repeated.get(received)
    if (known !== undefined) return known
    const repeated = written(withVary(received, this.#chosenBy))
    this.#repeated.set(received, repeated)
    return repeated
  }
}

/** `lines`: the headers as text; undefined if Node would refuse to write one of them. */
function written(list: readonly string[]) {
  return { list, lines: headLines(list) }
}

/** What Cache-Status says of a call that brought nothing. Undefined: the provider cannot have seen it. */
function wentForward(answer: QuoteAnswer | Error): string | undefined {
  if (answer instanceof Error)
    return answer instanceof UpstreamFailure && answer.maybeSeen
      ? 'detail=failed'
      : undefined
  return answer.kind === 'found' ? undefined : `fwd-status=${answer.received.status}`
}

function hitHeaders(ttl: number) {
  return againHeaders(ttl, 'hit', 'hit')
}

/** `from`: the source of the quote, in the words of Cache-Status (RFC 9211). */
function againHeaders(ttl: number, how: 'hit' | 'fetched' | 'collapsed', from: string) {
  const cacheStatus = `quotegate; ${from}; ttl=${ttl}`
  const outcome: RequestEnd = { how, cacheStatus }
  return { ttl, outcome, ...written(ownHeaders(ttl, cacheStatus)) }
}

function ownHeaders(ttl: number, cacheStatus: string): string[] {
  // Without Age: max-age counts from now, and a cache would subtract Age again.
  return ['Cache-Control', `private, max-age=${ttl}`, 'Cache-Status', cacheStatus]
}

/**
 * Adds names to the Vary of an answer (RFC 9110 section 12.5.5), on one line at the end, each name once. `Vary: *` is
 * not changed, because it says more than any name.
 */
export function withVary(headers: readonly string[], names: readonly string[]): string[] {
  const lines = headerValues(headers, 'vary')
  if (lines.length === 0) return [...headers, 'Vary', names.join(', ')]
  const received = lines
    .flatMap((line) => line.split(','))
    .map((member) => member.trim())
    .filter((member) => member !== '')
  if (received.includes('*')) return [...headers]
  const byLowerCase = new Map(
    [...names, ...received].map((name) => [name.toLowerCase(), name]),
  )
  const others = headers.filter(
    (_, index) => headers[index - (index % 2)]?.toLowerCase() !== 'vary',
  )
  return [...others, 'Vary', [...byLowerCase.values()].join(', ')]
}
