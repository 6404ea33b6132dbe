import { UpstreamFailure, type UpstreamFault } from '../http/failure.ts'
import { currentSpan, type Span } from '../process/span.ts'
import type { NotKeptReason } from './quote.ts'
import { type Asker, type QuoteAnswer, whenNoted } from './quote-answer.ts'
import type { StoredQuote } from './quote-store.ts'

/** Brings the quote of one key, on behalf of one client. */
export interface QuoteSource {
  /** This client, as the provider sees it. */
  readonly asker: Asker
  /** Asks the provider, for this client. The signal: no client waits for the answer any more. */
  call(signal: AbortSignal): Promise<QuoteAnswer>
  /** Asks the provider in the background, to replace a quote that is still live. */
  refresh(): Promise<QuoteAnswer>
  /** Whether a call for this client would be refused now, because the provider answered 429. */
  readonly isRefused: boolean
  /** Another replica has fetched the quote. */
  found(quote: StoredQuote): void
}

/** What a call brought: an answer of the upstream, or a quote that another replica has fetched. */
export type SharedAnswer =
  | QuoteAnswer
  | { found: true; stored: StoredQuote; notKept: undefined; noted?: undefined }

export interface ShareOptions {
  signal: AbortSignal
  /** Called if another replica's call is waited for first. */
  waited?(): void
  /** The quote that a refresh is to replace. */
  known?: StoredQuote | undefined
  /** False: a quote that is in the store is used, but another replica's call is not waited for. */
  waits?: boolean
}

/** Makes one call of what several replicas call. */
export type Share = (
  key: string,
  call: () => Promise<QuoteAnswer>,
  options: ShareOptions,
) => Promise<SharedAnswer>

const timeFaults: ReadonlySet<UpstreamFault> = new Set(['connection_timeout', 'http_response_timeout'])

/** Whether a call failed because some time limit was over: what its client is answered 504 for. */
export function failedByTime(error: unknown): boolean {
  return error instanceof UpstreamFailure && timeFaults.has(error.fault)
}

/** For a client whose own time is over, though the call that it waits for may go on. */
export function failureByTime(reason: string): UpstreamFailure {
  const cause = new Error(`no quote within the time of the request: ${reason}`)
  return new UpstreamFailure('swap', { fault: 'http_response_timeout', maybeSeen: true, cause })
}

const never: Promise<never> = new Promise(() => {})
const nothing = () => {}

/** One upstream call and the clients who wait for it. */
export class Flight {
  /** For clients who find the flight in the table: once it has landed there is none. */
  answer: Promise<SharedAnswer>
  /** Why its quote is not in memory, once it has landed. */
  notKept: NotKeptReason | undefined = undefined
  /** Whether it waited for another replica's call first. */
  waited = false
  /** On whose behalf the call is made. */
  readonly caller: Asker
  /** Of the request that caused the call. */
  span: Span | undefined = currentSpan()
  #leaving: AbortController | undefined = new AbortController()
  #takeOut: () => void
  /** A refresh goes on although no client waits for it. */
  readonly #isRefresh: boolean
  #waiting = 0
  #claimed = false
  #landed = false

  /** `takeOut` takes the flight out of the table. */
  constructor(
    call: (signal: AbortSignal) => Promise<SharedAnswer>,
    { source, isRefresh, takeOut }: { source: QuoteSource; isRefresh: boolean; takeOut: () => void },
  ) {
    this.caller = source.asker
    this.#isRefresh = isRefresh
    this.#takeOut = takeOut
    this.answer = call((this.#leaving as AbortController).signal).then(whenNoted)
  }

  join(): void {
    this.#waiting += 1
  }

  leave(): void {
    this.#waiting -= 1
    if (this.#waiting > 0 || this.#isRefresh || this.#landed) return
    // Out of the table first: a new client must not join a call that is being given up.
    const leaving = this.#leaving
    this.land()
    leaving?.abort()
  }

  /**
   * Drops the call and its answer. A Map that grows leaves its old table behind with all that was in it, and once
   * one such table is in V8's old space, everything that it points to looks alive until a major collection: with whole
   * requests in it a minor collection took twice as long.
   */
  land(): void {
    this.#landed = true
    this.#takeOut()
    this.answer = never
    this.#leaving = undefined
    this.span = undefined
    this.#takeOut = nothing
  }

  /** An answer that may not be shared goes to the first client that claims it. */
  claim(): boolean {
    const isFirst = !this.#claimed
    this.#claimed = true
    return isFirst
  }
}
