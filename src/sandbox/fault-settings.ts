import { isIP } from 'node:net'
import { z } from 'zod'
import { type OrderOutcome, orderOutcomes } from './order-state.ts'
import { SandboxError } from './sandbox-error.ts'

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
  /** How far the sandbox's clock is ahead of the real one, in `Date`, `expiry` and every other time that it sends. */
  clockOffsetMs: number
  /** A CIDR or an address whose clients are refused; empty for none. */
  restrictedPlace: string
  /** How orders end that are placed from now on. `expired`: unless the client notes a transaction within ten seconds. */
  orderOutcome: OrderOutcome
  /** The side to which latency and the four rates apply. */
  scope: 'all' | 'swap' | 'payments'
}

const defaultFaults: SandboxFaults = {
  latencyMs: 0,
  errorRate: 0,
  resetRate: 0,
  cutRate: 0,
  hangRate: 0,
  quoteLifetimeMs: 30_000,
  clockOffsetMs: 0,
  restrictedPlace: '203.0.113.0/24',
  orderOutcome: 'complete',
  scope: 'all',
}

const rate = z.number().min(0).max(1)
const tenMinutesMs = 600_000
const oneDayMs = 86_400_000
const oneYearMs = 365 * oneDayMs

const faultsSchema = z
  .strictObject({
    latencyMs: z.number().min(0).max(tenMinutesMs),
    errorRate: rate,
    resetRate: rate,
    cutRate: rate,
    hangRate: rate,
    quoteLifetimeMs: z.int().min(0).max(oneDayMs),
    clockOffsetMs: z.int().min(-oneYearMs).max(oneYearMs),
    restrictedPlace: z
      .string()
      .refine(isPlace, 'must be a CIDR such as 203.0.113.0/24, or empty for no restricted place'),
    orderOutcome: z.enum(orderOutcomes),
    scope: z.enum(['all', 'swap', 'payments']),
  })
  .partial()

/** The current faults: set in code and through `PUT /sandbox/faults`, read by every request. */
export class FaultSettings {
  #current: SandboxFaults

  constructor(initial: Partial<SandboxFaults>) {
    this.#current = defaultFaults
    this.merge(initial)
  }

  get current(): Readonly<SandboxFaults> {
    return this.#current
  }

  /** Changes every given fault, or none: a bad value throws a SandboxError that says what is wrong. */
  merge(next: unknown): SandboxFaults {
    const parsed = faultsSchema.safeParse(next)
    if (!parsed.success) {
      const problems = parsed.error.issues.map(({ path, message }) => [...path, message].join(': '))
      throw new SandboxError(problems.join('; '))
    }
    const given = Object.entries(parsed.data).filter(([, value]) => value !== undefined)
    this.#current = { ...this.#current, ...Object.fromEntries(given) }
    return { ...this.#current }
  }
}

function isPlace(text: string): boolean {
  if (text === '') return true
  const [address = '', prefix, ...rest] = text.split('/')
  const family = isIP(address)
  if (family === 0 || address.includes('%') || rest.length > 0) return false
  if (prefix === undefined) return true
  return /^\d{1,3}$/.test(prefix) && Number(prefix) <= (family === 4 ? 32 : 128)
}
