import { shownTarget, type TargetReading } from '../http/target.ts'
import type { Span } from '../process/span.ts'
import type { RequestKind } from './breakers.ts'
import type { SentBody } from './request-body.ts'

export interface UpstreamRequest {
  kind: RequestKind
  method: string
  /** As received. The base URL's path goes before it. */
  target: string
  headers: string[]
  body: SentBody | null
  /**
   * Called while the request waits for a connection, and just before each try is sent. Throws if it must not be sent
   * any more; else returns in how many milliseconds to call again.
   */
  recheckInMs?: (() => number) | undefined
  /** The Exchange that caused the request. Without it or its span nothing is traced. */
  cause?: { readonly span: Span | undefined; readonly reading: TargetReading }
  /**
   * By `performance.now()`: when the first try was sent, when its answer began, and when all was over, if the answer is
   * read whole.
   */
  times?: Record<'sentAtMs' | 'beganAtMs' | 'settledAtMs', number | undefined> | undefined
}

/** Receives the answer: header bytes as received, no copies, no promises. */
export interface Receiver {
  /** Called just before each try's first byte. If it throws, nothing is sent. */
  onSent?(): void
  /** Also for interim answers. `rawHeaders` and `reason` have a character for each byte. */
  onHead(status: number, rawHeaders: string[], reason: string): void
  /** False: nothing more is read until the call resumes. */
  onData(chunk: Buffer): boolean
  /** Called last. `error`: why the answer is missing or incomplete. */
  onEnd(error?: Error): void
}

/**
 * The tries of a sampled request. Each has spans for its wait for a connection, for connecting, and for the call
 * itself.
 */
export class CallTrace {
  readonly #span: Span
  readonly #request: UpstreamRequest
  #wait: Span | undefined
  #connecting: Span | undefined
  /** Undefined while the try is queued, or if it was never sent. */
  #call: Span | undefined

  constructor(span: Span, request: UpstreamRequest) {
    this.#span = span
    this.#request = request
  }

  /** Headers to send along with quotes and orders, once a try has begun. */
  get headers(): readonly string[] {
    return this.#call && this.#request.kind !== 'other'
      ? ['traceparent', this.#call.traceparent]
      : []
  }

  /** No connection is free. */
  waits(): void {
    this.#wait = this.#span.child('wait for connection', 'internal')
  }

  /** `isOpen`: no connection has to be made. `resends`: tries before this. */
  tries(
    { url, basePath }: { url: URL; basePath: string },
    { isOpen, resends }: { isOpen: boolean; resends: number },
  ): void {
    const { method, cause } = this.#request
    this.#wait?.end()
    if (!isOpen) this.#connecting = this.#span.child('connect', 'internal')
    const { hostname, port, protocol, origin } = url
    this.#call = this.#span.child(method, 'client')
    this.#call.set('http.request.method', method)
    this.#call.set('server.address', hostname)
    this.#call.set('server.port', Number(port || (protocol === 'https:' ? 443 : 80)))
    this.#call.set(
      'url.full',
      origin + basePath + ((cause && shownTarget(cause.reading)) ?? ''),
    )
    if (resends > 0) this.#call.set('http.request.resend_count', resends)
  }

  connected(): void {
    this.#connecting?.end()
  }

  unsent(): void {
    this.#call = undefined
  }

  /** `status`: the answer's, if its head has come. `error`: why it is not whole. Ended steps stay unchanged. */
  ends(status: number, error?: string): void {
    this.#wait?.end(error)
    this.#connecting?.end(error)
    if (status >= 200) this.#call?.set('http.response.status_code', status)
    this.#call?.end(error ?? (status >= 400 ? String(status) : undefined))
    this.#wait = undefined
    this.#connecting = undefined
    this.#call = undefined
  }
}
