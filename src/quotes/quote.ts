import { isUtf8 } from 'node:buffer'
import { z } from 'zod'
import type { Now } from '../clock.ts'
import type { Events, NotKeptReason } from '../events.ts'
import {
  differsByOverAHundredth,
  isPositiveDecimal,
  parseDecimal,
} from '../http/decimal.ts'
import {
  answerHeaders,
  createOneList,
  droppingNames,
  linesOf,
  repeatableHeaders,
} from '../http/headers.ts'
import type { WholeAnswer } from '../upstream/fetch.ts'
import { type ClockDifference, type End, Ends, serveLeftMs } from './ends.ts'

/** A cached quote: the upstream's own bytes, and what is needed to serve them and to know whether they have expired. */
export interface StoredQuote {
  readonly id: string
  /** The body as received, one character a byte (latin1). */
  readonly body: string
  /** The upstream's end-to-end headers that a later answer repeats: names and values alternate. */
  readonly headers: readonly string[]
  /** For how long it was to be served when it came. Whole milliseconds, because V8 needs no object for them. */
  readonly lifeMs: number
  /** The quote's own `expiry`, an instant of the provider's clock. */
  readonly expiresAtMs: number
  readonly end: End
}

/** Every user is to have time to order: by default a fifth of the quote's life, and at most 5 s. */
const minLeftShare = 1 / 5
const maxMinLeftMs = 5_000

/** With less time left than this, the quote is fetched again. `settingMs`: QUOTE_MIN_VALIDITY_MS. */
export function minLeftMs({ lifeMs }: StoredQuote, settingMs?: number): number {
  return settingMs ?? Math.min(Math.floor(lifeMs * minLeftShare), maxMinLeftMs)
}

interface Received extends Pick<WholeAnswer, 'status' | 'reason' | 'body'> {
  /** End-to-end headers as received, without cookies. */
  readonly headers: readonly string[]
  /** Those that an answer to another client repeats. */
  readonly repeated: readonly string[]
}

/** What a quote call brought. */
export class QuoteAnswer {
  readonly received: Received
  /** When it came. */
  readonly at: Now
  /** The quote in it and when that is over, even if it is over already: orders are judged by it. */
  given: GivenQuote | undefined = undefined
  /**
   * What a client may take for a quote and cannot be read. Beside a given quote: that was over before it was asked for,
   * so it refuses only orders that name it.
   */
  lookalike: QuoteLookalike | undefined = undefined
  /** When the live quote in the body is over, whether it is cached or not; undefined: there is none. */
  end: End | undefined = undefined
  /** The quote as memory would keep it; undefined if it may not be cached. */
  stored: StoredQuote | undefined = undefined
  /** Why it is not in memory. */
  notKept: NotKeptReason | undefined = undefined
  /** Whether other clients whose request has the same key may get this answer; else the first gets it. */
  shared = true
  isTaken = false
  /** Another replica has fetched this quote, so it is answered as a hit. */
  found: StoredQuote | undefined = undefined

  constructor(received: Received, at: Now) {
    this.received = received
    this.at = at
  }

  /** A quote out of the cache that replicas share. */
  static found(quote: StoredQuote, at: Now): QuoteAnswer {
    const { headers } = quote
    const body = Buffer.alloc(0)
    const answer = new QuoteAnswer(
      { status: 200, reason: 'OK', body, headers, repeated: headers },
      at,
    )
    answer.found = quote
    answer.stored = quote
    answer.end = quote.end
    return answer
  }
}

export interface GivenQuote {
  readonly quote: Quote
  readonly end: End
}

export interface AnswerReaderParts {
  config: { quotes: { maxBytes: number } }
  events: Events
  clockDifference: Pick<ClockDifference, 'note'>
}

/** Reads the answer of a quote call: what to serve, whether to cache it, and whether other clients may share it. */
export class AnswerReader {
  readonly #maxBytes: number
  readonly #events: Events
  readonly #ends: Ends
  readonly #oneList = createOneList()
  #cacheControlWasIgnored = false

  constructor({ config, events, clockDifference }: AnswerReaderParts) {
    this.#maxBytes = config.quotes.maxBytes
    this.#events = events
    this.#ends = new Ends(clockDifference)
  }

  /** `asked`: the canonical amount that the quote was asked for. `at`: when it came. */
  read(whole: WholeAnswer, asked: string, at: Now): QuoteAnswer {
    const { status, reason, rawHeaders, body } = whole
    const [vary, cacheControl, contentCoding, date, age] = linesOf(rawHeaders, marks)
    const headers = answerHeaders(status, rawHeaders, dropsCookies)
    const repeated =
      status === 200 ? this.#oneList(repeatableHeaders(rawHeaders)) : headers
    const answer = new QuoteAnswer({ status, reason, headers, repeated, body }, at)
    const isCoded = membersOf(contentCoding).some((coding) => coding !== 'identity')
    if (status !== 200) {
      answer.notKept = 'status'
      // A proxy that changed a quote answers 203.
      if (status === 203) answer.lookalike = isCoded ? coded : readLookalike(body)
      return answer
    }
    this.#sayOnce(cacheControl)
    // Other values of Vary need no check: the upstream received only headers that are part of the key.
    const isPersonal = membersOf(vary).includes('*')
    answer.shared = !isPersonal && !isCoded
    if (isCoded) {
      answer.notKept = 'content-coding'
      answer.lookalike = coded
      return answer
    }
    const { quote, reason: unusable } = readQuote(body, asked)
    if (quote === undefined) {
      answer.notKept = unusable
      answer.lookalike = readLookalike(body)
      return answer
    }
    const { becomes, end } = this.#ends.fateOf({ ...whole, date, age }, quote.expiryMs)
    if (end !== undefined) answer.given = { quote, end }
    if (becomes === 'unreadable') {
      answer.notKept = quote.expiryMs > whole.receivedAtMs ? 'expiry-too-far' : 'expired'
      answer.lookalike = readLookalike(body)
      return answer
    }
    // Without an end it is relayed, whatever the time.
    if (becomes !== 'relayed') answer.end = end
    if (becomes !== 'kept' || serveLeftMs(end, at) <= 0) {
      answer.notKept = 'expired'
      return answer
    }
    if (isPersonal) answer.notKept = 'vary'
    else if (body.length > this.#maxBytes) answer.notKept = 'too-large'
    else {
      const text = body.toString('latin1')
      const lifeMs = Math.round(serveLeftMs(end, at))
      const id = sliceOf(text, quote.id)
      answer.stored = {
        id,
        body: text,
        headers: repeated,
        lifeMs,
        expiresAtMs: quote.expiryMs,
        end,
      }
    }
    return answer
  }

  /** A quote's own expiry decides. Many APIs say no-store on everything, which the log says once. */
  #sayOnce(cacheControl: string | undefined): void {
    if (this.#cacheControlWasIgnored) return
    const directive = membersOf(cacheControl).find((part) =>
      /^(?:no-store|private)(?:$|=)/.test(part),
    )
    if (directive === undefined) return
    this.#events.cacheControlIgnored(directive)
    this.#cacheControlWasIgnored = true
  }
}

/** Its body is not read. */
const coded: QuoteLookalike = { pairId: undefined, fromAmount: undefined }

// No cookie is ever sent on a quote call, so no quote depends on one.
const dropsCookies = droppingNames(['set-cookie', 'set-cookie2'])
const marks = ['vary', 'cache-control', 'content-encoding', 'date', 'age']

/** The text as a slice of `whole`, if it occurs there. V8 keeps a slice as a reference, without a copy of the bytes. */
function sliceOf(whole: string, text: string): string {
  const at = whole.indexOf(text)
  return at === -1 ? text : whole.slice(at, at + text.length)
}

/** The members of a list that is spread over the lines of one header. */
function membersOf(lines: string | undefined): readonly string[] {
  if (lines === undefined) return []
  return lines
    .toLowerCase()
    .split(/[,\n]/)
    .map((part) => part.trim())
    .filter((part) => part !== '')
}

/** `reason`: why it cannot be kept as a quote, whatever came with it. */
type QuoteReading =
  | { quote: Quote; reason?: undefined }
  | { quote?: undefined; reason: NotKeptReason }

// As milliseconds this is March 1973, as seconds the year 5138: no quote's expiry lies on the wrong side of it.
const minExpiryMs = 1e11

const identifier = z.string().min(1).max(256)
const amount = z.object({
  assetId: identifier,
  value: z.string().refine(isPositiveDecimal),
})
export const quoteWithoutExpiry = z.object({
  id: identifier,
  pairId: z.string().min(1),
  fromAmount: amount,
  toAmount: amount,
  expiry: z.unknown().optional(),
})

/** Amounts as the provider wrote them. */
export interface Quote extends Omit<z.infer<typeof quoteWithoutExpiry>, 'expiry'> {
  /** An instant of the provider's clock, not of ours: ends.ts says when the quote is over. */
  readonly expiryMs: number
}

/** `asked`: the canonical amount that the quote was asked for; without it, the quote may be for any amount. */
export function readQuote(body: Buffer, asked?: string): QuoteReading {
  // RFC 8259 8.1. Decoding would replace broken bytes, and two different ids could become one.
  const json = isUtf8(body) ? parseJson(body.toString('utf8')) : undefined
  if (json === undefined) return { reason: 'not-json' }
  const parsed = quoteWithoutExpiry.safeParse(json)
  if (!parsed.success) return { reason: 'not-a-quote' }

  const { id, pairId, fromAmount, toAmount, expiry } = parsed.data
  // Providers round amounts a little. One that reads `1e3` as 1 gives a quote that is not for `1000`.
  if (asked !== undefined && differsByOverAHundredth(fromAmount.value, asked))
    return { reason: 'other-amount' }
  if (typeof expiry !== 'number' || !Number.isInteger(expiry) || expiry <= 0)
    return { reason: 'no-expiry' }
  if (expiry < minExpiryMs) return { reason: 'expiry-in-seconds' }
  return { quote: { id, pairId, fromAmount, toAmount, expiryMs: expiry } }
}

/** The quote that is kept. Other programs can write to the store that replicas share: then it may be none. */
export function storedQuote({ body }: Pick<StoredQuote, 'body'>): Quote | undefined {
  return readQuote(Buffer.from(body, 'latin1')).quote
}

/** An answer that a client may use as a quote, though it cannot be kept: an object with a toAmount. */
const quoteLookalike = z.object({
  /** Undefined: it names no pair. */
  pairId: z.string().optional().catch(undefined),
  /** Canonical. Undefined: it states no fromAmount that can be read. */
  fromAmount: z.unknown().optional().transform(amountIn),
  toAmount: z.unknown().refine((stated) => stated !== undefined && stated !== null),
})
export type QuoteLookalike = Pick<z.infer<typeof quoteLookalike>, 'pairId' | 'fromAmount'>

function readLookalike(body: Buffer): QuoteLookalike | undefined {
  // As its client may read it: without a byte order mark, and with another character for each broken byte.
  return quoteLookalike.safeParse(parseJson(new TextDecoder().decode(body))).data
}

/** Of an Amount, or of a number or text in its place. */
function amountIn(stated: unknown): string | undefined {
  const value =
    typeof stated === 'object' && stated !== null && 'value' in stated
      ? stated.value
      : stated
  return typeof value === 'string' || typeof value === 'number'
    ? parseDecimal(String(value))
    : undefined
}

/** Repeated keys are not detected: the last one counts, as it does for the client that gets these bytes. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
