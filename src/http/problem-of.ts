import { Problem, type ProblemSlug, problemTypes } from './problem.ts'
import { type OpenBreaker, UpstreamFailure, type UpstreamFault } from './upstream-failure.ts'

/** In `detail`, `API` stands for the name of the upstream. */
const problemOfFault: Record<UpstreamFault, { slug: ProblemSlug; detail: string }> = {
  connection_refused: { slug: 'upstream-unreachable', detail: 'The API refused the connection.' },
  destination_unavailable: { slug: 'upstream-unreachable', detail: 'No network path leads to the API.' },
  dns_error: { slug: 'upstream-unreachable', detail: 'The host name of the API cannot be resolved.' },
  tls_certificate_error: {
    slug: 'upstream-unreachable',
    detail: 'The certificate of the API is not trusted.',
  },
  tls_protocol_error: { slug: 'upstream-unreachable', detail: 'The TLS connection to the API failed.' },
  connection_terminated: {
    slug: 'upstream-reset',
    detail: 'The API closed the connection before it answered.',
  },
  http_response_incomplete: { slug: 'upstream-invalid', detail: 'The answer of the API was cut short.' },
  http_response_body_size: { slug: 'upstream-invalid', detail: 'The answer of the API is too large.' },
  http_protocol_error: { slug: 'upstream-invalid', detail: 'The answer of the API is not valid HTTP.' },
  connection_timeout: { slug: 'upstream-timeout', detail: 'No connection to the API was made in time.' },
  http_response_timeout: {
    slug: 'upstream-timeout',
    detail: 'The API took the request and did not answer in time.',
  },
  breaker_open: { slug: 'breaker-open', detail: 'The API keeps failing.' },
  connection_limit_reached: { slug: 'saturated', detail: 'All connections to the API are busy.' },
}

const safeMethods = new Set(['GET', 'HEAD', 'OPTIONS'])

/** Turns any thrown error into the problem that the client receives, without internal details. */
export function problemOf(error: unknown, method: string): Problem {
  if (error instanceof Problem) return error
  if (error instanceof UpstreamFailure) {
    const { slug, detail: ofFault } = problemOfFault[error.fault]
    const detail = (outageText(error) ?? ofFault).replace('API', nameOfApi[error.upstream] ?? 'upstream')
    const isRetryable = !error.maybeSeen || safeMethods.has(method)
    const retryAfter =
      problemTypes[slug].status === 503
        ? String(Math.max(1, Math.ceil(error.retryAfterMs / 1_000)))
        : undefined
    return new Problem(slug, {
      detail: `${detail}${servedText(error)} ${adviceOf(error, { isRetryable, retryAfter })}`,
      headers: {
        'Proxy-Status': `quotegate; error=${error.fault === 'breaker_open' ? 'destination_unavailable' : error.fault}`,
        ...(retryAfter === undefined ? {} : { 'Retry-After': retryAfter }),
      },
      members: {
        upstream: error.upstream,
        ...(error.breaker === undefined ? {} : { breaker: error.breaker }),
      },
      retryable: isRetryable,
      cause: error,
    })
  }
  return new Problem('internal-error', {
    detail: 'The gateway itself failed. Its log has the error under this request id.',
    cause: error,
  })
}

/** What became of the request, and what its client can do. */
function adviceOf(
  { maybeSeen }: UpstreamFailure,
  { isRetryable, retryAfter }: { isRetryable: boolean; retryAfter: string | undefined },
): string {
  if (!isRetryable) return 'The request may have been carried out: look it up before you send it again.'
  if (maybeSeen) return 'The request can be sent again.'
  return retryAfter === undefined
    ? 'Nothing was sent: the request can be sent again.'
    : `Nothing was sent: send the request again in ${retryAfter} s.`
}

const nameOfApi: Readonly<Record<string, string>> = {
  swap: 'swap API',
  payments: 'payments API',
  webhooks: 'webhook receiver',
}

const detailOfBreaker: Record<OpenBreaker, string> = {
  connections: 'Connections to the API keep failing.',
  orders: 'Orders keep failing at the API.',
  rest: 'Requests other than quotes and orders keep failing at the API.',
  pair: 'Quotes of this pair keep failing at the API.',
}

/** What has failed; undefined: no breaker is open. */
function outageText({ breaker, outage }: UpstreamFailure): string | undefined {
  if (breaker === undefined) return undefined
  if (outage?.pairsAskedFor === undefined) return detailOfBreaker[breaker]
  const { stoppedPairs, pairsAskedFor } = outage
  return `All quotes that were asked for fail at the API (${pairsText(stoppedPairs, pairsAskedFor)}).`
}

/** Of pairs that all fail, those that have stopped. */
export function pairsText(stopped: number, askedFor: number): string {
  const pairs = `${stopped} of ${askedFor} pair${askedFor === 1 ? '' : 's'}`
  return stopped < askedFor ? `${pairs} stopped` : pairs
}

/** Only what has succeeded since the outage began: a client would try the rest without success. */
function servedText({ upstream, breaker, outage }: UpstreamFailure): string {
  const names = (outage?.stillServed ?? []).map((traffic) => {
    if (traffic === 'quotes') return breaker === 'pair' ? 'quotes of other pairs' : 'quotes'
    return traffic === 'orders' ? 'orders' : `the rest of the ${nameOfApi[upstream] ?? 'upstream'}`
  })
  const listed = names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`
  return listed === '' ? '' : ` Still served: ${listed}.`
}
