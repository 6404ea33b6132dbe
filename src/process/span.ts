import { AsyncLocalStorage } from 'node:async_hooks'

/** One sampled step of a request. */
export interface Span {
  readonly traceId: string
  /** The `traceparent` for a request in this step. */
  readonly traceparent: string
  rename(name: string): void
  /** `client`: a request to another service. */
  child(name: string, kind: 'client' | 'internal'): Span
  set(attribute: string, value: string | number | undefined): void
  /** Links another request's step, because this step waited for it. */
  linkTo(other: Span): void
  /** Only an ended step is exported. `error`: the kind of failure, from a closed set. */
  end(error?: string): void
}

/** Until the first `inSpan`, reading this costs only a comparison. */
const spans = new AsyncLocalStorage<Span | undefined>()

/** The span of the current request. Undefined: it is not sampled, or there is none. */
export function currentSpan(): Span | undefined {
  return spans.getStore()
}

/** Runs this, and what it begins, for this span's request. Without tracing nothing is stored. */
export function inSpan<Result>(span: Span | undefined, run: () => Result): Result {
  return span === currentSpan() ? run() : spans.run(span, run)
}

/** Decides which requests are traced. */
export interface Tracing {
  /** `startedAtMs`: by `performance.now()`. Returns only a trace id if the request is not sampled. */
  begin(
    rawHeaders: readonly string[],
    peerAddress: string | undefined,
    startedAtMs: number,
  ): Span | string
  /** Sends the ended spans. A collector that takes longer than this, or than two seconds, does not get them. */
  close(leftMs: number): Promise<void>
}
