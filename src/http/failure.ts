/** The faults of an upstream, by the error types of Proxy-Status (RFC 9209 2.3). */
export type UpstreamFault =
  | 'connection_refused'
  | 'connection_timeout'
  | 'connection_terminated'
  | 'connection_limit_reached'
  | 'destination_unavailable'
  | 'dns_error'
  | 'tls_certificate_error'
  | 'tls_protocol_error'
  | 'http_response_timeout'
  | 'http_response_incomplete'
  | 'http_response_body_size'
  | 'http_protocol_error'
  /** Our own type: not sent, because the upstream kept failing. Sent as destination_unavailable. */
  | 'breaker_open'

export class UpstreamFailure extends Error {
  override readonly name = 'UpstreamFailure'
  readonly upstream: string
  readonly fault: UpstreamFault
  /** If the upstream may have seen the request, a POST must not be sent again. */
  readonly maybeSeen: boolean
  readonly retryAfterMs: number
  /** With `breaker_open`: which breaker. */
  readonly breaker: OpenBreaker | undefined
  /** With `breaker_open`: what fails, and what is still served. `API` stands for the upstream's name. */
  readonly outage: string | undefined

  constructor(
    upstream: string,
    options: {
      fault: UpstreamFault
      maybeSeen: boolean
      cause?: unknown
      retryAfterMs?: number
      breaker?: OpenBreaker
      outage?: string
    },
  ) {
    super(`${upstream} upstream: ${options.fault}`, { cause: options.cause })
    this.upstream = upstream
    this.fault = options.fault
    this.maybeSeen = options.maybeSeen
    this.retryAfterMs = options.retryAfterMs ?? 0
    this.breaker = options.breaker
    this.outage = options.outage
  }
}

/** What the breaker is for: connections, one traffic, or one pair's quotes. */
export type OpenBreaker = 'connections' | 'orders' | 'rest' | 'pair'

/** The client left before its request or its answer was whole. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone'
  readonly maybeSeen: boolean

  constructor(message: string, { maybeSeen }: { maybeSeen: boolean }) {
    super(message)
    this.maybeSeen = maybeSeen
  }
}
