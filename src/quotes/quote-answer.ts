import { type Clock, lookAt } from '../clock.ts'
import type { Events } from '../events.ts'
import {
  answerHeaders,
  createHeaderPicker,
  createOneList,
  droppingNames,
  repeatableHeaders,
} from '../http/headers.ts'
import type { WholeAnswer } from '../upstream/fetch.ts'
import { type End, type Ends, serveLeftMs } from './ends.ts'
import { type NotKeptReason, type Quote, type QuoteLookalike, readLookalike, readQuote } from './quote.ts'
import type { QuoteRequest } from './quote-key.ts'
import type { StoredQuote } from './quote-store.ts'

/** The result of one quote call. */
export interface QuoteAnswer {
  status: number
  reason: string
  /** End-to-end headers as received, without cookies. */
  headers: readonly string[]
  body: Buffer
  /** When the live quote in the body is over, whether it is cached or not; undefined: there is none. */
  end: End | undefined
  /** The quote as the store would keep it; undefined if it may not be cached. */
  stored: StoredQuote | undefined
  notKept: NotKeptReason | undefined
  /** Whether other clients whose request has the same key may get this answer. */
  shared: boolean
  /** Settles when every replica can judge an order for the quote: no client may have the answer before. */
  noted?: Promise<void> | undefined
}

/** The answer, as soon as clients may have it. */
export function whenNoted<Answer extends { noted?: Promise<void> | undefined }>(
  answer: Answer,
): Promise<Answer> | Answer {
  return answer.noted?.then(() => answer) ?? answer
}

/** What the provider can tell two calls for the same quote apart by. */
export interface Asker {
  readonly target: string
  /** Undefined: the provider receives `unknown`, from all clients without an address alike. */
  readonly address: string | undefined
}

/** Whether a client that waited for another client's call may have its answer. */
export function isAnswerFor(client: Asker, { status, notKept }: QuoteAnswer, caller: Asker): boolean {
  // Another spelling of the amount may be read as the right amount, or not be refused.
  if (notKept !== 'other-amount' && !isRefusal(status)) return true
  if (client.target !== caller.target) return false
  // Whether a client is refused may depend on its place.
  return notKept === 'other-amount' || client.address === caller.address
}

/** 408 and 429 say that the call was too slow or one too many, and nothing of the client. */
function isRefusal(status: number): boolean {
  return status >= 400 && status < 500 && status !== 408 && status !== 429
}

/** Records the quotes that clients receive, so that orders can be matched with them. */
export interface QuoteRecorder {
  /** Records a readable quote, even if it is over. The answer is not served before this has settled (`noted`). */
  record(quote: Quote, end: End, request: QuoteRequest): Promise<void> | void
  /** Records a quote that another replica has fetched, and has recorded for all replicas. */
  recordFound(stored: StoredQuote, request: QuoteRequest): void
  /** Records an answer that its client may take for a quote and that cannot be read. It is not served before this has settled. */
  recordUnreadable(request: QuoteRequest, lookalike: QuoteLookalike): Promise<void>
}

export interface QuoteReaderOptions {
  clock: Clock
  ends: Ends
  maxBytes: number
  obeyCacheControl: boolean
  recorder: QuoteRecorder
  events: Events
}

/** Reads the answer of a quote call: what to serve, whether to cache it, and whether other clients may share it. */
export function createQuoteReader(options: QuoteReaderOptions) {
  const { clock, ends, maxBytes, recorder } = options
  let cacheControlWasIgnored = false
  const oneList = createOneList()

  return async function readAnswer(call: Promise<WholeAnswer>, request: QuoteRequest): Promise<QuoteAnswer> {
    const answer = await call
    const { status, reason, body } = answer
    const headers = answerHeaders(status, answer.rawHeaders, dropsCookies)
    const base = { status, reason, headers, body, end: undefined, stored: undefined, shared: true }
    const [vary, cacheControl, contentCoding] = pickMarks(answer.rawHeaders)
    const isCoded = membersOf(contentCoding).some((coding) => coding !== 'identity')
    if (status !== 200) {
      // A proxy that changed a quote answers 203.
      if (status === 203) await recordLookalike(request, isCoded ? coded : readLookalike(body))
      return { ...base, notKept: 'status' }
    }
    const personal = personalReason(vary, cacheControl)
    if (isCoded) {
      await recordLookalike(request, coded)
      return { ...base, notKept: 'content-coding', shared: false }
    }

    const reading = readQuote(body, request.canonicalAmount)
    const { quote } = reading
    const end = quote && ends.endOf(answer, quote.expiryMs)
    if (quote === undefined || end === undefined) {
      await recordLookalike(request, readLookalike(body))
      const notKept = reading.reason ?? untimely(reading.quote, answer)
      return { ...base, notKept, shared: personal === undefined }
    }
    // Not awaited here: the replicas' cache gets the quote in the same write to the store.
    const noted = recorder.record(quote, end, request) ?? undefined
    if (serveLeftMs(end, lookAt(clock)) <= 0)
      return { ...base, noted, notKept: 'expired', shared: personal === undefined }
    if (personal !== undefined) return { ...base, noted, end, notKept: personal, shared: false }
    if (body.length > maxBytes) return { ...base, noted, end, notKept: 'too-large' }
    // `base` is not spread here: this is the frequent case, and a spread costs as much as parsing the JSON.
    const stored = toStored(quote, end, answer)
    return { status, reason, headers, body, end, stored, notKept: undefined, shared: true, noted }
  }

  /** Why neither of the witnesses of its end is believed. */
  function untimely({ expiryMs }: Quote, { receivedAtMs }: WholeAnswer): NotKeptReason {
    return expiryMs > receivedAtMs ? 'expiry-too-far' : 'expired'
  }

  async function recordLookalike(
    request: QuoteRequest,
    lookalike: QuoteLookalike | undefined,
  ): Promise<void> {
    if (lookalike !== undefined) await recorder.recordUnreadable(request, lookalike)
  }

  /** Why only the client that asked may get the answer; undefined if others may get it too. */
  function personalReason(
    vary: string | undefined,
    cacheControl: string | undefined,
  ): 'vary' | 'cache-control' | undefined {
    // Other values of Vary need no check: the upstream received only headers that are part of the key.
    if (membersOf(vary).includes('*')) return 'vary'
    const directive = membersOf(cacheControl).find((part) => /^(?:no-store|private)(?:$|=)/.test(part))
    if (directive === undefined) return undefined
    if (options.obeyCacheControl) return 'cache-control'
    if (!cacheControlWasIgnored) options.events.cacheControlIgnored(directive)
    cacheControlWasIgnored = true
    return undefined
  }

  function toStored(quote: Quote, end: End, answer: WholeAnswer): StoredQuote {
    const body = answer.body.toString('latin1')
    return {
      id: sliceOf(body, quote.id),
      body,
      headers: oneList(repeatableHeaders(answer.rawHeaders)),
      lifeMs: Math.round(quote.expiryMs - clock.nowMs()),
      expiresAtMs: quote.expiryMs,
      end,
    }
  }
}

/** Its body is not read. */
const coded: QuoteLookalike = { pairId: undefined, fromAmount: undefined }

// No cookie is ever sent on a quote call, so no quote depends on one.
const dropsCookies = droppingNames(['set-cookie', 'set-cookie2'])
const pickMarks = createHeaderPicker(['vary', 'cache-control', 'content-encoding'])

/** The text as a slice of `whole`, if it occurs there. V8 keeps a slice as a reference, without a copy of the bytes. */
function sliceOf(whole: string, text: string): string {
  const at = whole.indexOf(text)
  return at === -1 ? text : whole.slice(at, at + text.length)
}

const noMembers: readonly string[] = []

/** The members of a list that is spread over the lines of one header. */
function membersOf(lines: string | undefined): readonly string[] {
  if (lines === undefined) return noMembers
  return lines
    .toLowerCase()
    .split(/[,\n]/)
    .map((part) => part.trim())
    .filter((part) => part !== '')
}
