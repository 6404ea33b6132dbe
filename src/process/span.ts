import { AsyncLocalStorage } from 'node:async_hooks'

/** One sampled step of a request. */
export interface Span {
  readonly traceId: string
  /** The `traceparent` of a request that is sent in this step. */
  readonly traceparent: string
  rename(name: string): void
  /** Begins a step of this span. `client`: a request to another service. */
  child(name: string, kind: 'client' | 'internal'): Span
  /** Undefined values are left out. */
  set(attribute: string, value: string | number | undefined): void
  /** Links a step of another request that this one waited for. */
  linkTo(other: Span): void
  /** Only a step that has ended is exported. `error`: what it failed with, of a closed set. */
  end(error?: string): void
}

/** Until the first `inSpan`, looking into it costs a comparison. */
const spans = new AsyncLocalStorage<Span | undefined>()

/** The span of the request on whose behalf this code runs; undefined if it is not sampled, or for no request. */
export function currentSpan(): Span | undefined {
  return spans.getStore()
}

/**
 * Runs this, and what it begins, on behalf of this span's request. Without tracing nothing has to be remembered for it.
 */
export function inSpan<Result>(span: Span | undefined, run: () => Result): Result {
  return span === currentSpan() ? run() : spans.run(span, run)
}

/** Decides which requests are traced. */
export interface Tracing {
  /** The span of a request that began then, by `performance.now()`; if it is not sampled, the id of its trace. */
  begin(
    rawHeaders: readonly string[],
    peerAddress: string | undefined,
    startedAtMs: number,
  ): Span | string
  /** Sends what has ended; a collector that takes longer than this, or than two seconds, does not get it. */
  close(leftMs: number): Promise<void>
}
