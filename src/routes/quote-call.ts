import type { Clock } from '../clock.ts'
import type { ProviderClock } from '../quotes/provider-clock.ts'
import type { QuoteAnswer } from '../quotes/quote-answer.ts'
import type { Call } from '../quotes/quote-cache.ts'
import type { QuoteRequest } from '../quotes/quote-key.ts'
import { type Fetch, fetchWhole } from '../upstream/fetch.ts'
import type { Upstream } from '../upstream/upstream.ts'
import type { Exchange } from './exchange.ts'
import type { QuoteHeaders } from './quote-request.ts'

export interface QuoteCallerOptions {
  upstream: Upstream
  clock: Clock
  totalTimeoutMs: number
  providerClock: Pick<ProviderClock, 'observe'>
  quoteHeaders: Pick<QuoteHeaders, 'call'>
  readAnswer(call: Fetch, request: QuoteRequest): Promise<QuoteAnswer>
  /** Told of each call that goes out. */
  onCalled(pair: string): void
}

/** Asks the provider for a quote, on behalf of the exchange that caused it. */
export function createQuoteCaller(options: QuoteCallerOptions) {
  const { upstream, clock, totalTimeoutMs, providerClock, quoteHeaders, readAnswer, onCalled } = options

  return function callUpstream(request: QuoteRequest, exchange: Exchange): Call {
    let counted = false
    const headers = quoteHeaders.call(request.keyedHeaders, exchange)
    const call = fetchWhole({
      upstream,
      clock,
      totalTimeoutMs,
      request: { method: 'GET', target: request.target, headers, body: null },
      // Not where the breaker is open, nor anew for a second try.
      beforeSend() {
        if (!counted) onCalled(request.pair)
        counted = true
      },
      // Before the body, or an answer with a slow one would tell its time after newer ones, as if our clock had been
      // set back. A refusal may be an edge's, by another clock.
      onHead(head) {
        if (head.status === 200) providerClock.observe(head)
      },
    })
    call.answer.then(
      (whole) => {
        exchange.upstreamMs = whole.receivedAtMs - whole.sentAtMs
      },
      () => {},
    )
    return { answer: readAnswer(call, request), abort: call.abort }
  }
}
