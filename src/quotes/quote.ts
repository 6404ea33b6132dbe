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

/** What the body of a quote states. A list of rates has an expiry, and empty texts. */
interface Stated {
  readonly id: string
  readonly pairId: string
  /** Amounts as the provider wrote them, or the shortest decimals of its numbers. */
  readonly fromValue: string
  readonly toValue: string
  /** Whether one of them is a JSON number. An order may then state any decimal with the same nearest double. */
  readonly hasNumbers: boolean
  readonly toAsset: string
  /** The quote's own `expiry`, by the provider's clock. `end` says when the quote is over by ours. */
  readonly expiresAtMs: number
}

/** Made once when its answer comes, and never changed. */
export interface Quote extends Stated {
  /** The body as received, one character a byte (latin1). */
  readonly body: string
  /** The provider's end-to-end headers that a hit repeats: names and values alternate. */
  readonly headers: readonly string[]
  /** How long it was to be served when it came. Whole milliseconds, because V8 needs no object for them. */
  readonly lifeMs: number
  readonly end: End
}

/** Every quote is made here, so that all have one shape in V8: each hit reads one. */
export function quoteOf(
  stated: Stated,
  { body, headers, lifeMs, end }: Omit<Quote, keyof Stated>,
): Quote {
  return {
    id: stated.id,
    pairId: stated.pairId,
    fromValue: stated.fromValue,
    toValue: stated.toValue,
    hasNumbers: stated.hasNumbers,
    toAsset: stated.toAsset,
    expiresAtMs: stated.expiresAtMs,
    body,
    headers,
    lifeMs,
    end,
  }
}

/** Every user should have time to order: by default a fifth of the quote's life, at most 5 s. */
const minLeftShare = 1 / 5
const maxMinLeftMs = 5_000

/** With less time left than this, the quote is fetched again. `settingMs`: QUOTE_MIN_VALIDITY_MS. */
export function minLeftMs({ lifeMs }: Quote, settingMs?: number): number {
  return settingMs ?? Math.min(Math.floor(lifeMs * minLeftShare), maxMinLeftMs)
}

interface Received extends Pick<WholeAnswer, 'status' | 'reason' | 'body'> {
  /** End-to-end headers as received, without cookies. */
  readonly headers: readonly string[]
  /** The headers that a joined request gets. */
  readonly repeated: readonly string[]
}

export type ProviderAnswer =
  /** A quote for any request with the same key. */
  | { readonly kind: 'quote'; readonly quote: Quote; readonly received: Received }
  /** Only requests that wait for the call get it. */
  | {
      readonly kind: 'not-kept'
      readonly why: NotKeptReason
      /** The end of the live quote in it, if it has one. */
      readonly end: End | undefined
      /** Whether all who wait may get it; otherwise only the first does. */
      readonly isForAll: boolean
      readonly received: Received
    }

/** The outcome of a quote call. `found`: another replica has fetched the quote, so it is answered as a hit. */
export type QuoteAnswer =
  | ProviderAnswer
  | { readonly kind: 'found'; readonly quote: Quote }

export function endOf(answer: QuoteAnswer): End | undefined {
  return answer.kind === 'not-kept' ? answer.end : answer.quote.end
}

/** What an answer holds: what is relayed, and what orders are judged by. */
interface ReadAnswer {
  readonly answer: ProviderAnswer
  /** The quote in it, even if it is over. */
  readonly quote: Quote | undefined
  /** Set beside a quote that was over before it was requested, and so refuses only orders that name it. */
  readonly lookalike: Lookalike | undefined
}

export interface AnswerReaderParts {
  config: { quotes: { maxBytes: number } }
  events: Events
  clockDifference: Pick<ClockDifference, 'note'>
}

export class AnswerReader {
  readonly #maxBytes: number
  readonly #readBody: typeof readQuote
  readonly #events: Events
  readonly #ends: Ends
  readonly #oneList = createOneList()
  #cacheControlWasIgnored = false
  /** Nearly every answer has the same value. */
  #lastCacheControl: string | undefined

  constructor(
    { config, events, clockDifference }: AnswerReaderParts,
    readBody: typeof readQuote = readQuote,
  ) {
    this.#maxBytes = config.quotes.maxBytes
    this.#readBody = readBody
    this.#events = events
    this.#ends = new Ends(clockDifference)
  }

  /** `asked`: the canonical amount that was requested. `at`: when the answer came. */
  read(whole: WholeAnswer, asked: string, at: Now): ReadAnswer {
    const { status, reason, rawHeaders, body } = whole
    const [vary, cacheControl, contentCoding, date, age] = linesOf(rawHeaders, marks)
    const headers = answerHeaders(status, rawHeaders, dropsCookies)
    const repeated =
      status === 200 ? this.#oneList(repeatableHeaders(rawHeaders)) : headers
    const received = { status, reason, headers, repeated, body }
    const isCoded = membersOf(contentCoding).some((coding) => coding !== 'identity')
    if (status !== 200) {
      const answer = notKept(received, { why: 'status' })
      // 203: a proxy has changed the answer.
      if (status !== 203) return { answer, quote: undefined, lookalike: undefined }
      return {
        answer,
        quote: undefined,
        lookalike: isCoded ? coded : readLookalike(body),
      }
    }
    this.#sayOnce(cacheControl)
    // Other values of Vary need no check: the provider received only headers that are part of the key.
    const isPersonal = membersOf(vary).includes('*')
    const isForAll = !isPersonal && !isCoded
    if (isCoded) {
      const answer = notKept(received, { why: 'content-coding', isForAll })
      return { answer, quote: undefined, lookalike: coded }
    }
    const stated = this.#readBody(body, asked)
    if (typeof stated === 'string') {
      const answer = notKept(received, { why: stated, isForAll })
      return { answer, quote: undefined, lookalike: readLookalike(body) }
    }
    const { becomes, end } = this.#ends.fateOf(
      { ...whole, date, age },
      stated.expiresAtMs,
    )
    const text = body.toString('latin1')
    const quote =
      end &&
      quoteOf(stated, {
        body: text,
        headers: repeated,
        lifeMs: Math.round(serveLeftMs(end, at)),
        end,
      })
    if (becomes === 'unreadable' || quote === undefined) {
      const isOver = stated.expiresAtMs <= whole.receivedAtMs
      const why = isOver ? 'expired' : 'expiry-too-far'
      const answer = notKept(received, { why, isForAll })
      return { answer, quote, lookalike: readLookalike(body) }
    }
    const answer = this.#answerWith(quote, { becomes, received, isPersonal, at })
    return { answer, quote, lookalike: undefined }
  }

  #answerWith(
    quote: Quote,
    {
      becomes,
      received,
      isPersonal,
      at,
    }: {
      becomes: 'kept' | 'ended' | 'relayed'
      received: Received
      isPersonal: boolean
      at: Now
    },
  ): ProviderAnswer {
    const { end } = quote
    const isForAll = !isPersonal
    // No `end` is passed, so it is relayed whatever the time.
    if (becomes === 'relayed') return notKept(received, { why: 'expired', isForAll })
    if (becomes === 'ended' || serveLeftMs(end, at) <= 0)
      return notKept(received, { why: 'expired', end, isForAll })
    if (isPersonal) return notKept(received, { why: 'vary', end, isForAll })
    if (received.body.length > this.#maxBytes)
      return notKept(received, { why: 'too-large', end })
    return { kind: 'quote', quote, received }
  }

  /** Cache-Control is not obeyed: a quote's own expiry decides, and many APIs send no-store with everything. */
  #sayOnce(cacheControl: string | undefined): void {
    if (this.#cacheControlWasIgnored || cacheControl === this.#lastCacheControl) return
    this.#lastCacheControl = cacheControl
    const directive = membersOf(cacheControl).find((part) =>
      /^(?:no-store|private)(?:$|=)/.test(part),
    )
    if (directive === undefined) return
    this.#events.cacheControlIgnored(directive)
    this.#cacheControlWasIgnored = true
  }
}

export function notKept(
  received: Received,
  {
    why,
    end,
    isForAll = true,
  }: { why: NotKeptReason; end?: End | undefined; isForAll?: boolean },
): ProviderAnswer {
  return { kind: 'not-kept', why, end, isForAll, received }
}

/** An answer with a content coding, whose body is not read. */
const coded: Lookalike = { pairId: undefined, fromAmount: undefined }

// No cookie is ever sent on a quote call, so no quote depends on one.
const dropsCookies = droppingNames(['set-cookie', 'set-cookie2'])
const marks = ['vary', 'cache-control', 'content-encoding', 'date', 'age']

/** The members of a list in the lines of one header. */
function membersOf(lines: string | undefined): readonly string[] {
  if (lines === undefined) return []
  return lines
    .toLowerCase()
    .split(/[,\n]/)
    .map((part) => part.trim())
    .filter((part) => part !== '')
}

// 1e11 ms is in March 1973, and 1e11 s in the year 5138: a smaller expiry is in seconds.
const minExpiryMs = 1e11

const identifier = z.string().min(1).max(256)
const amount = z.object({
  assetId: identifier,
  value: z
    .union([z.string(), z.number()])
    .refine((value) => isPositiveDecimal(String(value))),
})
export const quoteWithoutExpiry = z.object({
  id: identifier,
  pairId: z.string().min(1),
  fromAmount: amount,
  toAmount: amount,
  expiry: z.unknown().optional(),
})

/**
 * What the body states, or why it cannot be kept as a quote. `asked`: the canonical amount that was requested, if it
 * matters.
 */
export function readQuote(body: Buffer, asked?: string): Stated | NotKeptReason {
  const json = jsonIn(body)
  if (json === undefined) return 'not-json'
  const parsed = quoteWithoutExpiry.safeParse(json)
  if (!parsed.success) return 'not-a-quote'

  const { id, pairId, fromAmount, toAmount, expiry } = parsed.data
  const values = [fromAmount.value, toAmount.value]
  const hasNumbers = values.some((value) => typeof value === 'number')
  const [fromValue = '', toValue = ''] = values.map(String)
  // Providers round amounts a little. But a provider that reads `1e3` as 1 gives a quote for the wrong amount.
  if (asked !== undefined && differsByOverAHundredth(fromValue, asked))
    return 'other-amount'
  const expiresAtMs = readExpiry(expiry)
  if (typeof expiresAtMs === 'string') return expiresAtMs
  const toAsset = toAmount.assetId
  return { id, pairId, fromValue, toValue, hasNumbers, toAsset, expiresAtMs }
}

const rateList = z.array(z.object({ expiry: z.unknown().optional() })).min(1)

/** A list of rates ends with the first of its rates. It is not kept if one has no expiry. */
export function readRates(body: Buffer): Stated | NotKeptReason {
  const json = jsonIn(body)
  if (json === undefined) return 'not-json'
  const parsed = rateList.safeParse(json)
  if (!parsed.success) return 'not-a-quote'
  const ends = parsed.data.map(({ expiry }) => readExpiry(expiry))
  const known = ends.filter((end) => typeof end === 'number')
  const unknown = ends.find((end) => typeof end === 'string')
  if (unknown !== undefined) return unknown
  const nothing = { id: '', pairId: '', fromValue: '', toValue: '', toAsset: '' }
  return { ...nothing, hasNumbers: false, expiresAtMs: Math.min(...known) }
}

/** For what replicas share. */
export function readEither(body: Buffer): Stated | NotKeptReason {
  const quote = readQuote(body)
  return quote === 'not-a-quote' ? readRates(body) : quote
}

function readExpiry(expiry: unknown): number | NotKeptReason {
  if (typeof expiry !== 'number' || !Number.isInteger(expiry) || expiry <= 0)
    return 'no-expiry'
  return expiry < minExpiryMs ? 'expiry-in-seconds' : expiry
}

/** JSON is UTF-8 (RFC 8259 section 8.1). Decoding replaces broken bytes, so that two ids could become one. */
function jsonIn(body: Buffer): unknown {
  return isUtf8(body) ? parseJson(body.toString('utf8')) : undefined
}

/** An answer that a caller may use as a quote, though it cannot be kept: an object with a toAmount. */
const lookalike = z.object({
  /** Undefined: it names no pair. */
  pairId: z.string().optional().catch(undefined),
  /** Canonical. Undefined: it states no fromAmount that can be read. */
  fromAmount: z.unknown().optional().transform(amountIn),
  toAmount: z.unknown().refine((stated) => stated !== undefined && stated !== null),
})
export type Lookalike = Pick<z.infer<typeof lookalike>, 'pairId' | 'fromAmount'>

function readLookalike(body: Buffer): Lookalike | undefined {
  // Decoded leniently, as a caller may: without a byte order mark, and with broken bytes replaced.
  return lookalike.safeParse(parseJson(new TextDecoder().decode(body))).data
}

function amountIn(stated: unknown): string | undefined {
  const value =
    typeof stated === 'object' && stated !== null && 'value' in stated
      ? stated.value
      : stated
  return typeof value === 'string' || typeof value === 'number'
    ? parseDecimal(String(value))
    : undefined
}

/** Repeated keys are not detected: the last one counts, as it does for most callers. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
