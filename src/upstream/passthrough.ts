import type { IncomingMessage, ServerResponse } from 'node:http'
import { Problem, UpstreamFailure } from '../problem.ts'
import { destroyUnlessRead } from '../problem-answer.ts'
import { faultOf } from './failure.ts'
import { endToEndHeaders, latin1Headers } from './headers.ts'
import { ClientGone, hasBody, RequestBody } from './request-body.ts'
import type { Upstream, UpstreamHandler } from './upstream.ts'

export interface PassThroughOptions {
  upstream: Upstream
  request: IncomingMessage
  response: ServerResponse
  target: string
  /** The request's headers as the upstream is to see them. */
  headers: string[]
  bodyIdleTimeoutMs: number
  /** Told of whatever keeps the upstream's answer from the client; the client having left is not told. */
  onFailure(error: unknown): void
}

/** Streams one request to one upstream and its answer back, with back-pressure both ways. */
export function passThrough(options: PassThroughOptions): void {
  const { request, upstream } = options
  upstream.dispatch(
    {
      method: request.method ?? 'GET',
      target: options.target,
      headers: options.headers,
      body: hasBody(request) ? new RequestBody(request, options.bodyIdleTimeoutMs) : null,
    },
    new Relay(options),
  )
}

const noBytes = Buffer.alloc(0)

class Relay implements UpstreamHandler {
  readonly #options: PassThroughOptions
  #abort: ((reason?: Error) => void) | undefined
  #clientGone = false
  #ended = false
  #began = false
  #bodyBegan = false

  constructor(options: PassThroughOptions) {
    this.#options = options
    options.response.once('close', () => {
      if (this.#ended) return
      this.#clientGone = true
      this.#abort?.(new ClientGone('the client left before it had its answer'))
    })
  }

  onConnect(abort: (reason?: Error) => void): void {
    // A client that left while its request was waiting for a connection costs the upstream nothing.
    if (this.#clientGone || this.#ended) throw new ClientGone('the client left before its request was sent')
    this.#abort = abort
    this.#began = true
  }

  onHeaders(status: number, rawHeaders: Buffer[], _resume: () => void, reason: string): boolean {
    if (status < 200) return true
    const { response } = this.#options
    // Something else answered already, such as a refusal of the request's own broken body.
    if (response.headersSent) throw new ClientGone('answered already')
    const headers = endToEndHeaders(latin1Headers(rawHeaders), (name) =>
      // RFC 9110 8.6: a 204 has no length; some upstreams send one.
      status === 204 ? name === 'content-length' : false,
    )
    response.sendDate = false
    response.writeHead(status, reasonBytes(reason), headers)
    // The head goes out at once unless a body comes with it. flushHeaders() would turn latin1 bytes into
    // UTF-8; an empty write does not.
    process.nextTick(() => {
      if (!this.#bodyBegan && !this.#ended) response.write(noBytes)
    })
    response.on('drain', _resume)
    return true
  }

  onData(chunk: Buffer): boolean {
    this.#bodyBegan = true
    return this.#options.response.write(chunk)
  }

  onComplete(): void {
    this.#ended = true
    this.#options.response.end()
    destroyUnlessRead(this.#options.request)
  }

  onError(error: Error): void {
    if (this.#ended) return
    this.#ended = true
    if (this.#clientGone || error instanceof ClientGone) return
    const { onFailure, upstream } = this.#options
    const fault = faultOf(error, this.#began)
    onFailure(
      error instanceof Problem
        ? error
        : new UpstreamFailure(upstream.name, { fault, maybeSeen: this.#began, cause: error }),
    )
  }
}

/** undici reads the reason phrase as UTF-8; the bytes it came as are latin1 to Node. */
function reasonBytes(reason: string): string {
  return /^[\x20-\x7e\t]*$/.test(reason) ? reason : Buffer.from(reason, 'utf8').toString('latin1')
}
