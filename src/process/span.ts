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
  /** Links a step of another request, if this step waited for it. */
  linkTo(other: Span): void
  /** Only a step that has ended is exported. `error`: the kind of its failure, from a closed set. */
  end(error?: string): void
}

/** Until the first `inSpan`, reading this costs only a comparison. */
const spans = new AsyncLocalStorage<Span | undefined>()

/** The span of the request on whose behalf this code runs. Undefined: the request is not sampled, or there is none. */
export function currentSpan(): Span | undefined {
  return spans.getStore()
}

/** Runs this, and what it begins, on behalf of this span's request. Without tracing nothing is stored. */
export function inSpan<Result>(span: Span | undefined, run: () => Result): Result {
  return span === currentSpan() ? run() : spans.run(span, run)
}

/** Decides which requests are traced. */
export interface Tracing {
  /**
   * Begins the span of a request that came at this time of `performance.now()`. A request that is not sampled has only
   * the id of its trace.
   */
  begin(
    rawHeaders: readonly string[],
    peerAddress: string | undefined,
    startedAtMs: number,
  ): Span | string
  /**
   * Sends the spans that have ended. A collector that takes longer than this, or than two seconds, does not get them.
   */
  close(leftMs: number): Promise<void>
}
