import type { Ended, Exchange } from './exchange.ts'

/** A request that took long, without anything that its client chose. */
export interface SlowRequest {
  readonly area: string
  readonly method: string
  /** 0: the client left, or the answer broke off. */
  readonly status: number
  readonly durationMs: number
  readonly endedAtMs: number
  readonly requestId: string
  readonly traceId: string | undefined
  /** Whether its trace was recorded here. */
  readonly sampled: boolean
}

export interface Slowest {
  /** Called for each request, so that it costs a comparison for all but a few of them. */
  note(exchange: Exchange, ended: Ended): void
  /** Of the last minute, counted in twelfths. */
  find(): SlowRequest | undefined
}

const spans = 12
const spanMs = 60_000 / spans

export function createSlowest(nowMs = (): number => performance.now()): Slowest {
  const slowestBySpan: (SlowRequest | undefined)[] = Array.from({ length: spans })
  /** Of the current span. */
  let number = -1
  let longestMs = -1

  /** Forgets what is older than a minute. */
  function move(now: number): void {
    const current = Math.floor(now / spanMs)
    if (current === number) return
    for (let passed = Math.max(number + 1, current - spans + 1); passed <= current; passed += 1)
      slowestBySpan[passed % spans] = undefined
    number = current
    longestMs = -1
  }

  return {
    note(exchange, { status, durationMs }) {
      const endedAtMs = exchange.startedAtMs + durationMs
      move(endedAtMs)
      if (durationMs <= longestMs) return
      longestMs = durationMs
      const { area, request, id, traceId, span } = exchange
      slowestBySpan[number % spans] = {
        ...{ area, method: request.method ?? '', status, durationMs, endedAtMs },
        ...{ requestId: id, traceId, sampled: span !== undefined },
      }
    },
    find() {
      move(nowMs())
      let found: SlowRequest | undefined
      for (const one of slowestBySpan) if (one && one.durationMs > (found?.durationMs ?? -1)) found = one
      return found
    },
  }
}
