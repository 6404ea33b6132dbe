import type { IncomingHttpHeaders } from 'node:http'
import type { GatewayClock as Clock } from '../clock.ts'

// The declarations of `quotegate/sandbox`. Declarations of other files import express and zod, which a user's compiler
// may not find.

/** A call of `startSandbox()` or `faults()` has an unexpected argument. */
export class SandboxError extends TypeError {
  override readonly name = 'SandboxError'
}

export const orderOutcomes = ['complete', 'failed', 'refunded', 'expired'] as const

/** How an order ends. `expired`: its deposit does not come by itself. */
export type OrderOutcome = (typeof orderOutcomes)[number]

export interface SandboxFaults {
  /** Delay before anything else happens to a request. */
  latencyMs: number
  /** 0 to 1: share of requests that get a 503. */
  errorRate: number
  /** 0 to 1: share of requests whose connection is reset instead of answered. */
  resetRate: number
  /** 0 to 1: share of answers that break off in the middle of their body. */
  cutRate: number
  /** 0 to 1: share of requests that are never answered. */
  hangRate: number
  quoteLifetimeMs: number
  /** Whether the amounts of a quote are JSON strings, as documented, or numbers. */
  quoteAmounts: 'strings' | 'numbers'
  /** How far the sandbox's clock is ahead of the real one, in `Date`, `expiry` and every other time that it sends. */
  clockOffsetMs: number
  /** A CIDR or an address whose clients are refused; empty for none. */
  restrictedPlace: string
  /**
   * How orders that are placed from now on end. `expired`: unless the client notes a transaction within ten seconds.
   */
  orderOutcome: OrderOutcome
  /** Which of the two APIs latency and the four rates apply to. */
  scope: 'all' | 'swap' | 'payments'
}

export interface SandboxOptions {
  /** Default: 127.0.0.1. */
  host?: string
  /** Default: any free port. */
  port?: number
  /** The time; tests pass a clock that they set themselves. */
  clock?: Clock
  /** Default: 30,000. */
  quoteLifetimeMs?: number
  /** The faults to begin with. */
  faults?: Partial<SandboxFaults>
  /** Fixed prices by pair id. The price of such a pair does not move; a pair that is not listed is added. */
  prices?: Record<string, number>
  /** Numbers from 0 to 1 that decide which requests a rate applies to. Default: Math.random. */
  random?: () => number
  /** Max requests kept in `requests`. Default: 1000. */
  recordRequests?: number
  /** Lets the process end while the sandbox is open. */
  unref?: boolean
}

/** A request as the sandbox received it. */
export interface RecordedRequest {
  method: string
  /** As in the request line. */
  target: string
  /** With names in lower case, as node:http has them. */
  headers: IncomingHttpHeaders
  /** As received: name, value, name, value. */
  rawHeaders: string[]
  /** At most the first MiB. Empty while the body is being read. If the client left, the part that had arrived. */
  body: Buffer
  /** By the clock in the options, without `clockOffsetMs`: the test's own time. */
  receivedAtMs: number
}
