import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { UserAddress, Users } from '../client/client-address.ts'
import { headerLines, readTraceparent } from '../http/headers.ts'
import type { ProblemSlug } from '../http/problem.ts'
import type { Area, TargetReading } from '../http/target.ts'
import type { Span, Tracing } from '../process/span.ts'

/** How a request ended: for logs and the console only. */
export type RequestEnd =
  | {
      readonly how: 'hit' | 'fetched' | 'collapsed' | 'bypass'
      readonly cacheStatus: string
    }
  | { readonly how: 'order-judged' | 'order-replayed'; readonly why: string }
  | { readonly how: 'problem'; readonly problem: ProblemSlug; readonly why: string }

export interface ExchangeMaker {
  readTarget(rawTarget: string): TargetReading
  /** Undefined: nothing is traced. */
  readonly tracing: Tracing | undefined
}

/**
 * Whether a client is gone though its connection may look open. If it reset the connection before its address was read,
 * the address is lost: its request would share no quote and slip past the provider's geolocation. A Unix socket has no
 * address at either end.
 */
export function hasLeft(socket: Socket): boolean {
  return (
    socket.destroyed ||
    (socket.remoteAddress === undefined && socket.localAddress !== undefined)
  )
}

const fitId = /^[A-Za-z0-9._~:/+=@-]{1,128}$/

export class Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly reading: TargetReading
  readonly area: Area
  /** In origin form, as received; empty if it cannot be used. */
  readonly target: string
  readonly startedAtMs = performance.now()
  /** The caller's request id if it may be shown and logged, else our own. */
  readonly id: string
  readonly hasCallersId: boolean
  /** Whether OTEL_EXPORTER_OTLP_ENDPOINT is set. */
  readonly isTracing: boolean
  /** Undefined: the request is not sampled, or nothing is traced. */
  readonly span: Span | undefined
  /** The trace of a request that is not sampled. */
  readonly #unsampledTraceId: string | undefined
  #user: UserAddress | undefined = undefined
  #outcome: RequestEnd | undefined = undefined
  #missed = false
  #times: UpstreamTimes | undefined = undefined
  /** Set once the request was counted. `fields`: the rate-limit headers of its answer. */
  rateLimit:
    | { readonly allowed: boolean; readonly fields: readonly string[] }
    | undefined = undefined

  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    { readTarget, tracing }: ExchangeMaker,
  ) {
    const { rawHeaders, socket, url = '' } = request
    this.request = request
    this.response = response
    const reading = readTarget(url)
    this.reading = reading
    this.area = 'area' in reading ? reading.area : 'none'
    this.target = 'target' in reading ? reading.target : ''
    const sentId = headerLines(rawHeaders, 'x-request-id')
    this.hasCallersId = sentId !== undefined && fitId.test(sentId)
    this.id = sentId !== undefined && this.hasCallersId ? sentId : nextRequestId()
    this.isTracing = tracing !== undefined
    const begun = tracing?.begin(rawHeaders, socket.remoteAddress, this.startedAtMs)
    this.span = typeof begun === 'string' ? undefined : begun
    this.#unsampledTraceId = typeof begun === 'string' ? begun : undefined
  }

  /** Undefined until a route asks whose request this is. */
  get user(): UserAddress | undefined {
    return this.#user
  }

  /** Identifies the user once, because the proxy headers are counted and may be logged. */
  identify(users: Pick<Users, 'identify'>): UserAddress {
    this.#user ??= users.identify(this.request)
    return this.#user
  }

  /** How the request ended, or would end by what is known so far. */
  get outcome(): RequestEnd | undefined {
    return this.#outcome
  }

  /** The latest call counts: an order may be judged again, and an answer may fail. */
  endsAs(outcome: RequestEnd): void {
    this.#outcome = outcome
  }

  /** True if the quote was not in memory. */
  get missed(): boolean {
    return this.#missed
  }

  misses(): void {
    this.#missed = true
  }

  /** Undefined: the request has made no call of its own. */
  get times(): UpstreamTimes | undefined {
    return this.#times
  }

  /** The call fills in the times. */
  asksUpstream(): UpstreamTimes {
    this.#times = new UpstreamTimes()
    return this.#times
  }

  /** Undefined: the request has no trace, and none is begun here. */
  get traceId(): string | undefined {
    return (
      this.span?.traceId ??
      this.#unsampledTraceId ??
      readTraceparent(this.request.rawHeaders)?.traceId
    )
  }

  get cache(): string | undefined {
    const how = this.outcome?.how
    if (how === 'problem' || how === 'order-judged' || how === 'order-replayed')
      return undefined
    return how === 'fetched' ? 'miss' : how
  }

  get problem(): ProblemSlug | undefined {
    return this.outcome?.how === 'problem' ? this.outcome.problem : undefined
  }

  /** Splits the duration into its parts. Null: nothing is known to have been spent on that part. */
  timeSpent(durationMs: number) {
    const { startedAtMs, times, missed } = this
    if (times === undefined) {
      // A miss without a call waited for another request's call.
      const ownMs = missed ? null : durationMs
      return { queueMs: null, upstreamMs: null, transferMs: null, ownMs }
    }
    const endedAtMs = startedAtMs + durationMs
    const { askedAtMs, sentAtMs, beganAtMs } = times
    // A call may go on though its caller has left.
    const settledAtMs = Math.min(times.settledAtMs ?? endedAtMs, endedAtMs)
    const queueMs = (sentAtMs ?? settledAtMs) - askedAtMs
    const upstreamMs =
      sentAtMs === undefined ? null : (beganAtMs ?? settledAtMs) - sentAtMs
    const transferMs = beganAtMs === undefined ? null : settledAtMs - beganAtMs
    const ownMs = durationMs - queueMs - (upstreamMs ?? 0) - (transferMs ?? 0)
    return { queueMs, upstreamMs, transferMs, ownMs: Math.max(0, ownMs) }
  }
}

/** A call's times by `performance.now()`, which does not jump with the wall clock. */
export class UpstreamTimes {
  readonly askedAtMs = performance.now()
  /** When the first try was sent: a failed try counts as the upstream's time. */
  sentAtMs: number | undefined = undefined
  beganAtMs: number | undefined = undefined
  /** Undefined for an answer that is streamed. */
  settledAtMs: number | undefined = undefined
}

const digitsOf = Array.from({ length: 256 }, (_, byte) =>
  byte.toString(16).padStart(2, '0'),
)

let idPrefix = ''
let issued = 0

/**
 * An id in the form of a UUID: a random prefix, and eight digits that differ for each id of this process and hide how
 * many came before. A random UUID costs ten times as much. The digits come from a table: V8 caches the text of each
 * number that it formats, and each text outlived its request.
 */
export function nextRequestId(): string {
  if (issued % 2 ** 32 === 0) idPrefix = randomUUID().slice(0, -8)
  issued += 1
  // Multiplied by an odd factor, all numbers below 2 ** 32 stay different.
  const mixed = Math.imul(issued, 0x9e3779b1)
  const upper = `${digitsOf[mixed >>> 24]}${digitsOf[(mixed >>> 16) & 0xff]}`
  const lower = `${digitsOf[(mixed >>> 8) & 0xff]}${digitsOf[mixed & 0xff]}`
  return `${idPrefix}${upper}${lower}`
}
