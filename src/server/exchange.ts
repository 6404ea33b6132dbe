import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { ClientAddress, Clients } from '../client/client-address.ts'
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

/** What all exchanges of a gateway are made with. */
export interface ExchangeMaker {
  readTarget(rawTarget: string): TargetReading
  /** Undefined: nothing is traced. */
  readonly tracing: Tracing | undefined
}

/**
 * Whether a client is gone whose connection may still look open. If it reset its connection before its address
 * was read, the address is lost. Its request, if served, would share no quote and slip past the provider's
 * geolocation. A Unix socket has no address at either end.
 */
export function hasLeft(socket: Socket): boolean {
  return (
    socket.destroyed ||
    (socket.remoteAddress === undefined && socket.localAddress !== undefined)
  )
}

const fitId = /^[A-Za-z0-9._~:/+=@-]{1,128}$/

/** One request on its way through the gateway. */
export class Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly reading: TargetReading
  readonly area: Area
  /** In origin form, as received; empty if it cannot be used. */
  readonly target: string
  readonly startedAtMs = performance.now()
  /** The client's request id if it may be shown and logged, else one that is made here. */
  readonly id: string
  readonly hasClientsId: boolean
  /** Whether OTEL_EXPORTER_OTLP_ENDPOINT is set. */
  readonly isTracing: boolean
  /** Undefined: the request is not sampled, or nothing is traced. */
  readonly span: Span | undefined
  /** The trace of a request that is not sampled. */
  readonly #unsampledTraceId: string | undefined
  #client: ClientAddress | undefined = undefined
  #outcome: RequestEnd | undefined = undefined
  #missed = false
  #times: UpstreamTimes | undefined = undefined
  /** Set once the request was counted against a rate limit. `fields`: what its answer says of the limit. */
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
    this.hasClientsId = sentId !== undefined && fitId.test(sentId)
    this.id = sentId !== undefined && this.hasClientsId ? sentId : nextRequestId()
    this.isTracing = tracing !== undefined
    const begun = tracing?.begin(rawHeaders, socket.remoteAddress, this.startedAtMs)
    this.span = typeof begun === 'string' ? undefined : begun
    this.#unsampledTraceId = typeof begun === 'string' ? begun : undefined
  }

  /** Whose request it is; undefined if no route has needed it so far. */
  get client(): ClientAddress | undefined {
    return this.#client
  }

  /** Whose request it is, read once: what it says of its proxy is counted, and may be logged. */
  identify(clients: Pick<Clients, 'identify'>): ClientAddress {
    this.#client ??= clients.identify(this.request)
    return this.#client
  }

  /** How it ended, or would end by what is known so far. */
  get outcome(): RequestEnd | undefined {
    return this.#outcome
  }

  /** The latest word counts: an order may be judged again, and an answer may fail. */
  endsAs(outcome: RequestEnd): void {
    this.#outcome = outcome
  }

  /** Whether its quote was not in memory, whatever became of the request. */
  get missed(): boolean {
    return this.#missed
  }

  misses(): void {
    this.#missed = true
  }

  /** Undefined: it did not ask its upstream, or waits for a call of another request. */
  get times(): UpstreamTimes | undefined {
    return this.#times
  }

  /** The exchange calls its upstream now. The call fills in the times. */
  asksUpstream(): UpstreamTimes {
    this.#times = new UpstreamTimes()
    return this.#times
  }

  /** The id of the request's trace. Undefined: the request has none, and none is begun here. */
  get traceId(): string | undefined {
    return (
      this.span?.traceId ??
      this.#unsampledTraceId ??
      readTraceparent(this.request.rawHeaders)?.traceId
    )
  }

  /** What the cache made of it, in one word. */
  get cache(): string | undefined {
    const how = this.outcome?.how
    if (how === 'problem' || how === 'order-judged' || how === 'order-replayed')
      return undefined
    return how === 'fetched' ? 'miss' : how
  }

  /** The problem that it was answered with. */
  get problem(): ProblemSlug | undefined {
    return this.outcome?.how === 'problem' ? this.outcome.problem : undefined
  }

  /** Where the time of a request went, given how long it took. Null: no time is known to have gone there. */
  timeSpent(durationMs: number) {
    const { startedAtMs, times, missed } = this
    if (times === undefined) {
      // A miss that made no call waited for that of another request.
      const ownMs = missed ? null : durationMs
      return { queueMs: null, upstreamMs: null, transferMs: null, ownMs }
    }
    const endedAtMs = startedAtMs + durationMs
    const { askedAtMs, sentAtMs, beganAtMs } = times
    // A call may go on though its client has left.
    const settledAtMs = Math.min(times.settledAtMs ?? endedAtMs, endedAtMs)
    const queueMs = (sentAtMs ?? settledAtMs) - askedAtMs
    const upstreamMs =
      sentAtMs === undefined ? null : (beganAtMs ?? settledAtMs) - sentAtMs
    const transferMs = beganAtMs === undefined ? null : settledAtMs - beganAtMs
    const ownMs = durationMs - queueMs - (upstreamMs ?? 0) - (transferMs ?? 0)
    return { queueMs, upstreamMs, transferMs, ownMs: Math.max(0, ownMs) }
  }
}

/** When an exchange asked its upstream, by `performance.now()`, which goes on evenly when the wall clock is set. */
export class UpstreamTimes {
  readonly askedAtMs = performance.now()
  /** When the first try was sent: a failed try counts as the upstream's time. */
  sentAtMs: number | undefined = undefined
  /** The head of the answer was received. */
  beganAtMs: number | undefined = undefined
  /** The upstream has answered, or failed; undefined for an answer that is streamed. */
  settledAtMs: number | undefined = undefined
}

/** The two hex digits of every byte. */
const digitsOf = Array.from({ length: 256 }, (_, byte) =>
  byte.toString(16).padStart(2, '0'),
)

let idPrefix = ''
let issued = 0

/**
 * An id in the form of a UUID that no other process creates: a random prefix, and eight digits that differ for
 * each id and do not tell how many ids came before. A random UUID for every request costs ten times as much. The digits
 * come from a table, because V8 caches the text of every number it formats, and each cached text outlived its request.
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
