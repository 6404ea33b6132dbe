import type { IncomingHttpHeaders } from 'node:http'
import type { GatewayClock as Clock } from '../clock.ts'

// The declarations of `quotegate/sandbox`: other files import express and zod, which a user's compiler may not find.

/** Thrown if `startSandbox()` or `faults()` gets an unexpected argument. */
export class SandboxError extends TypeError {
  override readonly name = 'SandboxError'
}

export const orderOutcomes = ['complete', 'failed', 'refunded', 'expired'] as const

/** `expired`: no deposit comes by itself. */
export type OrderOutcome = (typeof orderOutcomes)[number]

export interface SandboxFaults {
  /** Delay before all else. */
  latencyMs: number
  /** 0 to 1: share of requests that get a 503. */
  errorRate: number
  /** 0 to 1: share of requests whose connection is reset. */
  resetRate: number
  /** 0 to 1: share of answers that break off within their body. */
  cutRate: number
  /** 0 to 1: share of requests without an answer. */
  hangRate: number
  quoteLifetimeMs: number
  /** Amounts of quotes as JSON strings, as documented, or as numbers. */
  quoteAmounts: 'strings' | 'numbers'
  /** How far the sandbox's clock is ahead of the real one, in `Date`, `expiry` and every other time that it sends. */
  clockOffsetMs: number
  /** A CIDR or an address whose users are refused; empty for none. */
  restrictedPlace: string
  /** How new orders end. `expired`: unless a transaction is noted within ten seconds. */
  orderOutcome: OrderOutcome
  /** The API that latency and the four rates apply to. */
  scope: 'all' | 'swap' | 'payments'
}

export interface SandboxOptions {
  /** Default: 127.0.0.1. */
  host?: string
  /** Default: any free port. */
  port?: number
  /** The time; tests pass a clock that they set. */
  clock?: Clock
  /** Default: 30,000. */
  quoteLifetimeMs?: number
  /** The faults to begin with. */
  faults?: Partial<SandboxFaults>
  /** Fixed prices by pair id. Pairs that are not listed are added. */
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
  /** The target as in the request line. */
  target: string
  /** Names in lower case, as in node:http. */
  headers: IncomingHttpHeaders
  /** As received: name, value, name, value. */
  rawHeaders: string[]
  /** At most the first MiB. Empty while the body is being read; if the caller left, the part that had come. */
  body: Buffer
  /** The time by the clock in the options, without `clockOffsetMs`. */
  receivedAtMs: number
}
