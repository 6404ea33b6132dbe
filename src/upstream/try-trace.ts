import type { Span } from '../process/span.ts'

/** The trace that a request is sent in. */
export interface RequestTrace {
  readonly span: Span
  /** Whether the upstream is sent the `traceparent` of its own span. */
  readonly isCarried: boolean
  /** What may be shown of the target. */
  readonly shownTarget: string
}

/** Where requests go, as their spans say it. */
export interface TracedUpstream {
  readonly url: URL
  /** The path of its base URL, which goes before every target. */
  readonly basePath: string
}

const noHeaders: readonly string[] = []

/** One try of a sampled request: its wait for a connection to be free, the connecting, and the call itself. */
export class TryTrace {
  readonly #trace: RequestTrace
  readonly #method: string
  readonly #upstream: TracedUpstream
  readonly #resends: number
  #wait: Span | undefined
  #connecting: Span | undefined
  /** Undefined while it is in the queue. */
  #call: Span | undefined
  #hasEnded = false
  #status = 0

  constructor(trace: RequestTrace, method: string, upstream: TracedUpstream, resends: number) {
    this.#trace = trace
    this.#method = method
    this.#upstream = upstream
    this.#resends = resends
  }

  /** To send along, once it has started. */
  get headers(): readonly string[] {
    if (!this.#trace.isCarried || this.#call === undefined) return noHeaders
    return ['traceparent', this.#call.traceparent]
  }

  /** No connection is free. */
  waits(): void {
    this.#wait = this.#trace.span.child('wait for connection', 'internal')
  }

  /** It is out of the queue. `isOpen`: no connection has to be made for it. */
  starts(isOpen: boolean): void {
    const { span, shownTarget } = this.#trace
    this.#wait?.end()
    if (!isOpen) this.#connecting = span.child('connect', 'internal')
    const { url, basePath } = this.#upstream
    const { hostname, port, protocol, origin } = url
    this.#call = span.child(this.#method, 'client')
    this.#call.set('http.request.method', this.#method)
    this.#call.set('server.address', hostname)
    this.#call.set('server.port', Number(port || (protocol === 'https:' ? 443 : 80)))
    this.#call.set('url.full', origin + basePath + shownTarget)
    if (this.#resends > 0) this.#call.set('http.request.resend_count', this.#resends)
  }

  connected(): void {
    this.#connecting?.end()
    this.#connecting = undefined
  }

  answered(status: number): void {
    if (status >= 200) this.#status = status
  }

  /** It had its connection and was not sent, so nothing was called. */
  unsent(): void {
    this.#hasEnded = true
  }

  /** `error`: why the answer is not whole. */
  ends(error?: string): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    if (this.#call === undefined) {
      this.#wait?.end(error)
      return
    }
    this.#connecting?.end(error)
    if (this.#status !== 0) this.#call.set('http.response.status_code', this.#status)
    this.#call.end(error ?? (this.#status >= 400 ? String(this.#status) : undefined))
  }
}
