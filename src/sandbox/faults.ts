import { setTimeout as sleep } from 'node:timers/promises'
import type { RequestHandler, Response } from 'express'
import { z } from 'zod'
import type { GatewayClock as Clock } from '../clock.ts'
import { parseAddressBlock } from '../http/ip-address.ts'
import { cutAnswer, issuesOf, Refusal } from './answer.ts'
import { orderOutcomes, SandboxError, type SandboxFaults } from './types.ts'

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
      .refine(
        (text) => text === '' || !('problem' in parseAddressBlock(text)),
        'must be a CIDR such as 203.0.113.0/24, or empty for no restricted place',
      ),
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
    if (!parsed.success) throw new SandboxError(issuesOf(parsed.error))
    const given = Object.entries(parsed.data).filter(([, value]) => value !== undefined)
    this.#current = { ...this.#current, ...Object.fromEntries(given) }
    return { ...this.#current }
  }
}

/** What the routes of both APIs go by. */
export interface Sources {
  /** The sandbox's time, `clockOffsetMs` included. */
  clock: Clock
  /** Unaffected by `clockOffsetMs`: a clock that is set back must not undo what time has completed. */
  elapsedClock: Clock
  faults: FaultSettings
}

/** Applies the current faults to each request. Requests that can still be answered go on to the routes. */
export function injectFaults(settings: FaultSettings, random: () => number): RequestHandler {
  // A rate of 0 does not call `random`, so a test scripts random numbers only for the faults that it set.
  const isHit = (rate: number) => rate > 0 && random() < rate
  return async (request, response, next) => {
    const { scope, latencyMs } = settings.current
    if (scope !== 'all' && scope !== areaOf(request.path)) return next()
    if (latencyMs > 0 && !(await hasWaited(response, latencyMs))) return
    const faults = settings.current
    if (isHit(faults.resetRate)) return void request.socket.resetAndDestroy()
    if (isHit(faults.hangRate)) return
    if (isHit(faults.errorRate)) {
      throw new Refusal(503, 'SERVICE_UNAVAILABLE', 'the sandbox was asked to fail this request')
    }
    if (isHit(faults.cutRate)) cutAnswer(response)
    next()
  }
}

function areaOf(path: string): 'swap' | 'payments' {
  return /^\/v3(\/|$)/i.test(path) ? 'swap' : 'payments'
}

/** False if the client left during the wait. Its timer is then cleared, so that it does not delay a shutdown. */
function hasWaited(response: Response, latencyMs: number): Promise<boolean> {
  const leaving = new AbortController()
  response.once('close', () => leaving.abort())
  return sleep(latencyMs, true, { signal: leaving.signal }).catch(() => false)
}
