import type { Clock } from '../clock.ts'
import { answerHeaders, createHeaderPicker, createOneList, droppingNames } from '../http/headers.ts'
import { repeatableHeaders } from '../http/one-exchange-headers.ts'
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

/** Remembers the quotes that go out, so that orders can be matched with them. */
export interface QuoteRecorder {
  /** A quote that was read, also one that has expired. Its answer waits until it is recorded. */
  record(quote: Quote, request: QuoteRequest): Promise<void> | void
  /** A quote that another replica fetched, and recorded for all. */
  recordFound(stored: StoredQuote, request: QuoteRequest): void
  /** An answer that its client may take for a quote, but that cannot be read here. */
  recordUnreadable(request: QuoteRequest): void
}

export interface QuoteReaderOptions {
  clock: Clock
  providerClock: ProviderClock
  maxBytes: number
  obeyCacheControl: boolean
  recorder: QuoteRecorder
  /** Called with the first mark in Cache-Control that is not obeyed. */
  cacheControlIgnored(directive: string): void
}

/** Turns the answer of a quote call into what may be served, kept and shared. */
export function createQuoteReader(options: QuoteReaderOptions) {
  const { clock, providerClock, maxBytes, recorder } = options
  let cacheControlWasIgnored = false
  const oneList = createOneList()

  return async function readAnswer(call: Fetch, request: QuoteRequest): Promise<QuoteAnswer> {
    const answer = await call.answer
    const { status, reason, body } = answer
    const headers = answerHeaders(status, answer.rawHeaders, dropsCookies)
    const base = { status, reason, headers, body, quote: undefined, stored: undefined, shared: true }
    if (status !== 200) {
      // The client may take such an answer for a quote: a 203 of a proxy that has changed it.
      if (status > 200 && status < 300) recorder.recordUnreadable(request)
      return { ...base, notKept: 'status' }
    }
    const [vary, cacheControl, contentCoding] = pickMarks(answer.rawHeaders)
    const personal = personalReason(vary, cacheControl)
    if (listed(contentCoding).some((coding) => coding !== 'identity')) {
      recorder.recordUnreadable(request)
      return { ...base, notKept: 'content-coding', shared: false }
    }

    const reading = readQuote(body, providerClock.latestMs())
    if (reading.quote === undefined) recorder.recordUnreadable(request)
    else await recorder.record(reading.quote, request)
    if (reading.reason !== undefined)
      return { ...base, notKept: reading.reason, shared: personal === undefined }
    const { quote } = reading
    if (personal !== undefined) return { ...base, quote, notKept: personal, shared: false }
    if (body.length > maxBytes) return { ...base, quote, notKept: 'too-large' }
    // Written out, because this is the frequent case and a spread costs as much as reading the JSON.
    const stored = toStored(quote, answer)
    return { status, reason, headers, body, quote, stored, notKept: undefined, shared: true }
  }

  /** Why an answer is for one client alone. */
  function personalReason(
    vary: string | undefined,
    cacheControl: string | undefined,
  ): 'vary' | 'cache-control' | undefined {
    // Any other Vary needs nothing: the upstream only saw headers that are part of the key.
    if (listed(vary).includes('*')) return 'vary'
    const directive = listed(cacheControl).find((part) => /^(?:no-store|private)(?:$|=)/.test(part))
    if (directive === undefined) return undefined
    if (options.obeyCacheControl) return 'cache-control'
    if (!cacheControlWasIgnored) options.cacheControlIgnored(directive)
    cacheControlWasIgnored = true
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

// No cookie is ever sent on a quote call, so no quote depends on one.
const dropsCookies = droppingNames(['set-cookie', 'set-cookie2'])
const pickMarks = createHeaderPicker(['vary', 'cache-control', 'content-encoding'])

/** The same text without bytes of its own, if it stands in the whole as it is: V8 keeps a slice as a reference. */
function partOf(whole: string, text: string): string {
  const at = whole.indexOf(text)
  return at === -1 ? text : whole.slice(at, at + text.length)
}

const nothing: readonly string[] = []

function listed(lines: string | undefined): readonly string[] {
  if (lines === undefined) return nothing
  return lines
    .toLowerCase()
    .split(/[,\n]/)
    .map((part) => part.trim())
    .filter((part) => part !== '')
}
