import type { Span } from '../process/span.ts'

/** The trace that a request is sent in. */
export interface RequestTrace {
  readonly span: Span
  /** Whether the upstream is sent the `traceparent` of its own span. */
  readonly isCarried: boolean
  /** What may be shown of the target. */
  readonly shownTarget: string
}

/** Where a request goes, as its spans say it. */
export interface TracedTarget {
  readonly method: string
  readonly origin: URL
  /** Of its base URL. */
  readonly basePath: string
}

const noHeaders: readonly string[] = []

/** One try of a sampled request: its wait for a connection to be free, the connecting, and the call itself. */
export class TryTrace {
  /** To send along. */
  readonly headers: readonly string[]
  readonly #parent: Span
  readonly #call: Span
  #wait: Span | undefined
  #connecting: Span | undefined
  #hasStarted = false
  #isConnected = false
  #hasEnded = false
  #status = 0

  constructor(
    { span, isCarried, shownTarget }: RequestTrace,
    { method, origin, basePath }: TracedTarget,
    resends: number,
  ) {
    this.#parent = span
    this.#call = span.child(method, 'client')
    this.headers = isCarried ? ['traceparent', this.#call.traceparent] : noHeaders
    const { hostname, port, protocol } = origin
    this.#call.set('http.request.method', method)
    this.#call.set('server.address', hostname)
    this.#call.set('server.port', Number(port || (protocol === 'https:' ? 443 : 80)))
    this.#call.set('url.full', origin.origin + basePath + shownTarget)
    if (resends > 0) this.#call.set('http.request.resend_count', resends)
  }

  /** No connection is free. */
  waits(): void {
    this.#wait = this.#parent.child('wait for connection', 'internal')
    this.#wait.startedAtMs = this.#call.startedAtMs
  }

  /** It is out of the queue. `isOpen`: no connection has to be made for it. */
  starts(isOpen: boolean): void {
    this.#hasStarted = true
    this.#wait?.end()
    if (!isOpen) this.#connecting = this.#parent.child('connect', 'internal')
    this.#call.startedAtMs = performance.now()
  }

  connected(): void {
    this.#isConnected = true
    this.#connecting?.end()
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
    if (!this.#hasStarted) {
      this.#wait?.end(error)
      return
    }
    if (!this.#isConnected) this.#connecting?.end(error)
    if (this.#status !== 0) this.#call.set('http.response.status_code', this.#status)
    this.#call.end(error ?? (this.#status >= 400 ? String(this.#status) : undefined))
  }
}
