import type { Clock } from '../clock.ts'
import { answerHeaders, endToEndHeaders, headerLines } from '../http/headers.ts'
import { remembering } from '../http/memoize.ts'
import { createOneList } from '../http/one-list.ts'
import type { Fetch, WholeAnswer } from '../upstream/fetch.ts'
import type { ProviderClock } from './provider-clock.ts'
import { type Quote, readQuote } from './quote.ts'
import type { QuoteRequest } from './quote-key.ts'
import type { StoredQuote } from './quote-store.ts'

/** Why an answer is not kept. */
export const notKeptReasons = [
  'status',
  'not-json',
  'not-a-quote',
  'no-expiry',
  'expiry-in-seconds',
  'expiry-too-far',
  'expired',
  'content-coding',
  'vary',
  'cache-control',
  'too-large',
] as const

type NotKeptReason = (typeof notKeptReasons)[number]

/** What one quote call brought. */
export interface QuoteAnswer {
  status: number
  reason: string
  /** End-to-end headers as received, less cookies. */
  headers: readonly string[]
  body: Buffer
  /** A live quote, kept or not. */
  quote: Quote | undefined
  /** What goes into the store, if anything does. */
  stored: StoredQuote | undefined
  notKept: NotKeptReason | undefined
  /** Whether it may be given to others who asked the same. */
  shared: boolean
}

export interface QuoteReaderOptions {
  clock: Clock
  providerClock: ProviderClock
  maxBytes: number
  obeyCacheControl: boolean
  /** Told of every quote that was read, expired ones too. The answer waits for it. */
  onQuote(quote: Quote, request: QuoteRequest): Promise<void> | void
  /** Told of an answer that its caller may take for a quote, and that cannot be read here. */
  onUnread(request: QuoteRequest): void
  /** Told of a mark in Cache-Control that is not obeyed. */
  onIgnoredCacheControl(directive: string): void
}

/** Turns the answer of a quote call into what may be served, kept and shared. */
export function createQuoteReader(options: QuoteReaderOptions) {
  const { clock, providerClock, maxBytes } = options
  const oneList = createOneList()

  return async function readAnswer(call: Fetch, request: QuoteRequest): Promise<QuoteAnswer> {
    const answer = await call.answer
    const { status, reason, body } = answer
    const headers = answerHeaders(status, answer.rawHeaders, isCookie)
    const base = { status, reason, headers, body, quote: undefined, stored: undefined, shared: true }
    if (status !== 200) {
      // Its caller may take it for a quote, such as a 203 of a proxy that has changed it.
      if (status > 200 && status < 300) options.onUnread(request)
      return { ...base, notKept: 'status' }
    }
    const personal = personalReason(answer)
    if (hasContentCoding(answer)) {
      options.onUnread(request)
      return { ...base, notKept: 'content-coding', shared: false }
    }

    const reading = readQuote(body, providerClock.latestMs())
    if (reading.quote === undefined) options.onUnread(request)
    else await options.onQuote(reading.quote, request)
    if (reading.reason !== undefined)
      return { ...base, notKept: reading.reason, shared: personal === undefined }
    const { quote } = reading
    if (personal !== undefined) return { ...base, quote, notKept: personal, shared: false }
    if (body.length > maxBytes) return { ...base, quote, notKept: 'too-large' }
    // Written out, because this is the frequent case and a spread costs as much as reading the JSON.
    const stored = toStored(quote, answer)
    return { status, reason, headers, body, quote, stored, notKept: undefined, shared: true }
  }

  /** Why an answer is for one caller alone. */
  function personalReason({ rawHeaders }: WholeAnswer): 'vary' | 'cache-control' | undefined {
    // Any other Vary needs nothing: the upstream only saw headers that are part of the key.
    if (listedIn(rawHeaders, 'vary').includes('*')) return 'vary'
    const directive = listedIn(rawHeaders, 'cache-control').find((part) =>
      /^(?:no-store|private)(?:$|=)/.test(part),
    )
    if (directive === undefined) return undefined
    if (options.obeyCacheControl) return 'cache-control'
    options.onIgnoredCacheControl(directive)
    return undefined
  }

  function toStored(quote: Quote, answer: WholeAnswer): StoredQuote {
    const body = answer.body.toString('latin1')
    return {
      id: partOf(body, quote.id),
      body,
      headers: oneList(repeatableHeaders(answer.rawHeaders)),
      lifeMs: Math.round(quote.expiryMs - clock.nowMs()),
      expiresAtMs: quote.expiryMs,
    }
  }
}

function isCookie(lowerCaseName: string): boolean {
  return lowerCaseName === 'set-cookie' || lowerCaseName === 'set-cookie2'
}

/** The same text without bytes of its own, if it stands in the whole as it is: V8 keeps a slice as a reference. */
function partOf(whole: string, text: string): string {
  const at = whole.indexOf(text)
  return at === -1 ? text : whole.slice(at, at + text.length)
}

/** Those that are as true of a later answer with the same quote, or of another client's, as of the first. */
export function repeatableHeaders(rawHeaders: readonly string[]): string[] {
  return endToEndHeaders(rawHeaders, isOfOneExchange)
}

function hasContentCoding({ rawHeaders }: WholeAnswer): boolean {
  return listedIn(rawHeaders, 'content-encoding').some((coding) => coding !== 'identity')
}

const nothing: readonly string[] = []

function listedIn(rawHeaders: readonly string[], lowerCaseName: string): readonly string[] {
  const lines = headerLines(rawHeaders, lowerCaseName)
  if (lines === undefined) return nothing
  return lines
    .toLowerCase()
    .split(/[,\n]/)
    .map((part) => part.trim())
    .filter((part) => part !== '')
}

const caching = new Set([
  'age',
  'cache-control',
  'edge-control',
  'expires',
  'pragma',
  'surrogate-control',
  'x-accel-expires',
])

/**
 * Whether it tells a cache how long to keep the answer. A cache goes by what is meant for it in particular, such as
 * CDN-Cache-Control, and not by our Cache-Control (RFC 9213 2.2).
 */
export function isCaching(lowerCaseName: string): boolean {
  return caching.has(lowerCaseName) || lowerCaseName.endsWith('-cache-control')
}

const ofOneExchange = new Set(
  `alt-svc b3 baggage cache-status cf-cache-status cf-ray cf-request-id content-length date
  fly-request-id nel proxy-status report-to request-id retry-after sentry-trace server-timing
  set-cookie set-cookie2 traceparent traceresponse tracestate uber-trace-id via x-amz-id-2 x-amz-request-id
  x-azure-ref x-cache x-cache-hits x-cloud-trace-context x-correlation-id x-envoy-upstream-service-time
  x-fastly-request-id x-ms-request-id x-rate-limit x-ratelimit x-request-id x-response-time x-runtime x-served-by
  x-timer x-vercel-id`.split(/\s+/),
)
const ofOneExchangePrefixes = [
  'ratelimit',
  'x-ratelimit-',
  'x-rate-limit-',
  'x-amz-cf-',
  'x-amzn-',
  'x-b3-',
  'x-trace',
  'x-datadog-',
]

/** Says something of the one exchange that brought the quote, and would be false of a later one. */
const isOfOneExchange = remembering(
  (lowerCaseName) =>
    isCaching(lowerCaseName) ||
    ofOneExchange.has(lowerCaseName) ||
    ofOneExchangePrefixes.some((prefix) => lowerCaseName.startsWith(prefix)),
)
