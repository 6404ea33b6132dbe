import { UpstreamFailure, type UpstreamFault } from './failure.ts'

/**
 * Every answer that the gateway itself makes: its type, its status, and whether asking again is safe (RFC 9457).
 * docs/problems.md explains each.
 */
interface ProblemType {
  status: number
  title: string
  /** What follows on the connection can't be trusted or isn't wanted. */
  closes?: true
  /** Sending the same request again can't do anything twice, and may well work. */
  retryable?: true
}

export const problemTypes = {
  'malformed-request': { status: 400, title: 'The request is malformed', closes: true },
  'bad-target': {
    status: 400,
    title: 'The request target is not acceptable',
    closes: true,
  },
  'app-name-missing': { status: 400, title: 'The App-Name header is missing' },
  'bad-amount': { status: 400, title: 'The amount is not a positive decimal number' },
  'bad-order': { status: 400, title: 'The order cannot be read' },
  'bad-idempotency-key': { status: 400, title: 'The Idempotency-Key is not one key' },
  'not-found': { status: 404, title: 'This path is not served' },
  'no-payments-upstream': { status: 404, title: 'No payments upstream is configured' },
  'no-webhooks-upstream': { status: 404, title: 'No webhook receiver is configured' },
  'method-not-allowed': { status: 405, title: 'The method is not allowed here' },
  'quote-expired': { status: 409, title: 'The quote of this order has expired' },
  'quote-unknown': { status: 409, title: 'The order matches no quote seen here' },
  'float-order-required': {
    status: 409,
    title: 'An order for a quote must be a float order',
  },
  'order-in-progress': {
    status: 409,
    title: 'The order with this key is on its way',
    retryable: true,
  },
  'order-outcome-unknown': {
    status: 409,
    title: 'The order with this key was sent, its outcome is unknown',
  },
  'order-answered': {
    status: 409,
    title: 'The order with this key was answered, the answer is not kept',
  },
  'idempotency-key-reused': {
    status: 422,
    title: 'Another order was sent with this key',
  },
  'request-timeout': {
    status: 408,
    title: 'The request took too long to arrive',
    closes: true,
    retryable: true,
  },
  'order-too-large': { status: 413, title: 'The order is too large' },
  'target-too-long': {
    status: 414,
    title: 'The request target is too long',
    closes: true,
  },
  'content-coding': { status: 415, title: 'The order has a content coding' },
  'expectation-failed': {
    status: 417,
    title: 'The expectation cannot be met',
    closes: true,
  },
  'rate-limited': {
    status: 429,
    title: 'Too many requests from this application or user',
    retryable: true,
  },
  'provider-limit': {
    status: 429,
    title: 'The provider limits quotes, so none is requested for now',
    retryable: true,
  },
  'head-too-large': { status: 431, title: 'The request head is too large', closes: true },
  'internal-error': { status: 500, title: 'The gateway failed' },
  'body-already-read': {
    status: 500,
    title: 'The body was read before the gateway could',
  },
  'upstream-unreachable': { status: 502, title: 'The upstream cannot be reached' },
  'upstream-reset': { status: 502, title: 'The upstream broke the connection' },
  'upstream-invalid': { status: 502, title: 'The upstream sent an invalid answer' },
  'too-many-connections': {
    status: 503,
    title: 'Too many connections are open',
    closes: true,
    retryable: true,
  },
  held: {
    status: 503,
    title: 'The operators of the gateway hold such requests',
    retryable: true,
  },
  saturated: {
    status: 503,
    title: 'Too many requests are waiting for the upstream',
    retryable: true,
  },
  'breaker-open': {
    status: 503,
    title: 'The upstream keeps failing, so the request was not sent',
    retryable: true,
  },
  'upstream-timeout': { status: 504, title: 'The upstream did not answer in time' },
  'quote-expired-waiting': {
    status: 504,
    title: 'No quote lived long enough to be sent',
    retryable: true,
  },
  'loop-detected': {
    status: 508,
    title: 'The request has already passed through quotegate',
  },
} as const satisfies Record<string, ProblemType>

export type ProblemSlug = keyof typeof problemTypes
export const problemSlugs = Object.keys(problemTypes) as readonly ProblemSlug[]

/**
 * 5xx that are the gateway's own fault. Operators asked for `held`; all others are relayed, or come from a provider
 * that failed.
 */
export const ownProblems: ReadonlySet<ProblemSlug> = new Set([
  'internal-error',
  'body-already-read',
  'loop-detected',
])

export interface ProblemOptions {
  /** What the reader can do about it. */
  detail: string
  /** Further members of the body, such as `parameter`. */
  members?: Readonly<Record<string, unknown>>
  /** Further response headers. */
  headers?: Readonly<Record<string, string>>
  retryable?: boolean
  cause?: unknown
}

export class Problem extends Error {
  override readonly name = 'Problem'
  readonly slug: ProblemSlug
  readonly detail: string
  readonly status: number
  readonly closes: boolean
  readonly retryable: boolean
  readonly members: Readonly<Record<string, unknown>>
  readonly headers: Readonly<Record<string, string>>

  constructor(slug: ProblemSlug, options: ProblemOptions) {
    const type: ProblemType = problemTypes[slug]
    super(`${slug}: ${options.detail}`, { cause: options.cause })
    this.slug = slug
    this.detail = options.detail
    this.status = type.status
    this.closes = type.closes ?? false
    this.retryable = options.retryable ?? type.retryable ?? false
    this.members = options.members ?? {}
    this.headers = options.headers ?? {}
    // A stack keeps what its functions work on: under attack, refused orders held each other's bodies.
    this.stack = String(this)
  }
}

export function problemBody(problem: Problem, requestId: string): string {
  return JSON.stringify({
    type: `urn:quotegate:problem:${problem.slug}`,
    title: problemTypes[problem.slug].title,
    status: problem.status,
    detail: problem.detail,
    // Never the target, whose query may hold secrets.
    instance: `urn:quotegate:request:${encodeURIComponent(requestId)}`,
    requestId,
    retryable: problem.retryable,
    ...problem.members,
  })
}

/** `API` stands for the upstream's name. */
const problemOfFault: Record<UpstreamFault, { slug: ProblemSlug; detail: string }> = {
  connection_refused: {
    slug: 'upstream-unreachable',
    detail: 'The API refused the connection.',
  },
  destination_unavailable: {
    slug: 'upstream-unreachable',
    detail: 'No network path leads to the API.',
  },
  dns_error: {
    slug: 'upstream-unreachable',
    detail: 'The host name of the API cannot be resolved.',
  },
  tls_certificate_error: {
    slug: 'upstream-unreachable',
    detail: 'The certificate of the API is not trusted.',
  },
  tls_protocol_error: {
    slug: 'upstream-unreachable',
    detail: 'The TLS connection to the API failed.',
  },
  connection_terminated: {
    slug: 'upstream-reset',
    detail: 'The API closed the connection before it answered.',
  },
  http_response_incomplete: {
    slug: 'upstream-invalid',
    detail: 'The answer of the API was cut short.',
  },
  http_response_body_size: {
    slug: 'upstream-invalid',
    detail: 'The answer of the API is too large.',
  },
  http_protocol_error: {
    slug: 'upstream-invalid',
    detail: 'The answer of the API is not valid HTTP.',
  },
  connection_timeout: {
    slug: 'upstream-timeout',
    detail: 'No connection to the API was made in time.',
  },
  http_response_timeout: {
    slug: 'upstream-timeout',
    detail: 'The API took the request and did not answer in time.',
  },
  breaker_open: { slug: 'breaker-open', detail: 'The API keeps failing.' },
  connection_limit_reached: {
    slug: 'saturated',
    detail: 'All connections to the API are busy.',
  },
}

const safeMethods = new Set(['GET', 'HEAD', 'OPTIONS'])

/**
 * Turns any error into a problem without internal details. `lookup`: where the caller finds out what became of the
 * request.
 */
export function problemOf(error: unknown, method: string, lookup?: string): Problem {
  if (error instanceof Problem) return error
  if (error instanceof UpstreamFailure) {
    const { slug, detail: ofFault } = problemOfFault[error.fault]
    const detail = (error.outage ?? ofFault).replaceAll(
      'API',
      nameOfApi[error.upstream] ?? 'upstream',
    )
    const isRetryable = !error.maybeSeen || safeMethods.has(method)
    const retryAfter =
      problemTypes[slug].status === 503
        ? String(Math.max(1, Math.ceil(error.retryAfterMs / 1_000)))
        : undefined
    return new Problem(slug, {
      detail: `${detail} ${adviceOf(error, { isRetryable, retryAfter, lookup })}`,
      headers: {
        'Proxy-Status': `quotegate; error=${error.fault === 'breaker_open' ? 'destination_unavailable' : error.fault}`,
        ...(retryAfter === undefined ? {} : { 'Retry-After': retryAfter }),
      },
      members: { upstream: error.upstream, breaker: error.breaker, lookup },
      retryable: isRetryable,
      cause: error,
    })
  }
  return new Problem('internal-error', {
    detail: 'The gateway itself failed. Its log has the error under this request id.',
    cause: error,
  })
}

/** What became of the request, and what its caller can do. */
function adviceOf(
  { maybeSeen }: UpstreamFailure,
  {
    isRetryable,
    retryAfter,
    lookup,
  }: {
    isRetryable: boolean
    retryAfter: string | undefined
    lookup: string | undefined
  },
): string {
  if (!isRetryable) {
    const where = lookup === undefined ? '' : ' at `lookup`'
    return `The request may have been carried out: look it up${where} before you send it again.`
  }
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
