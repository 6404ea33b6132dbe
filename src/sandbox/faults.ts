import { setTimeout as sleep } from 'node:timers/promises'
import type { RequestHandler, Response } from 'express'
import { z } from 'zod'
import type { GatewayClock as Clock } from '../clock.ts'
import { parseAddressBlock } from '../http/ip-address.ts'
import { isPlainObject, kindOf } from '../process/arguments.ts'
import { issuesOf, Refusal } from './answer.ts'
import { orderOutcomes, SandboxError, type SandboxFaults } from './types.ts'

const rate = z.number().min(0).max(1).default(0)
const tenMinutesMs = 600_000
const oneDayMs = 86_400_000
const oneYearMs = 365 * oneDayMs

const faultsSchema = z.strictObject({
  latencyMs: z.number().min(0).max(tenMinutesMs).default(0),
  errorRate: rate,
  resetRate: rate,
  cutRate: rate,
  hangRate: rate,
  quoteLifetimeMs: z.int().min(0).max(oneDayMs).default(30_000),
  quoteAmounts: z.enum(['strings', 'numbers']).default('strings'),
  clockOffsetMs: z.int().min(-oneYearMs).max(oneYearMs).default(0),
  restrictedPlace: z
    .string()
    .refine(
      (text) => text === '' || !('problem' in parseAddressBlock(text)),
      'must be a CIDR such as 203.0.113.0/24, or empty for no restricted place',
    )
    .default('203.0.113.0/24'),
  orderOutcome: z.enum(orderOutcomes).default('complete'),
  scope: z.enum(['all', 'swap', 'payments']).default('all'),
})

/** Set in code and through `PUT /sandbox/faults`. */
export class FaultSettings {
  current: Readonly<SandboxFaults> = faultsSchema.parse({})

  /** Changes all given faults, or none: a bad value throws a SandboxError. */
  merge(next: object): SandboxFaults {
    if (!isPlainObject(next))
      throw new SandboxError(
        `faults must be an object such as { latencyMs: 100 }, not ${kindOf(next)}`,
      )
    const given = Object.entries(next).filter(([, value]) => value !== undefined)
    const { data, error } = faultsSchema.safeParse({
      ...this.current,
      ...Object.fromEntries(given),
    })
    if (error !== undefined) throw new SandboxError(issuesOf(error))
    this.current = data
    return { ...data }
  }
}

export interface Sources {
  /** The sandbox's time, with `clockOffsetMs`. */
  clock: Clock
  /** The time without `clockOffsetMs`: a clock set back must not undo what time has completed. */
  elapsedClock: Clock
  faults: FaultSettings
}

/** Applies the current faults. Requests that can still be answered go on to the routes. */
export function injectFaults(
  settings: FaultSettings,
  random: () => number,
): RequestHandler {
  // A rate of 0 does not call `random`, so a test scripts numbers only for its own faults.
  const isHit = (rate: number) => rate > 0 && random() < rate
  return async (request, response, next) => {
    const { scope, latencyMs } = settings.current
    if (scope !== 'all' && scope !== areaOf(request.path)) return next()
    if (latencyMs > 0 && !(await hasWaited(response, latencyMs))) return
    const faults = settings.current
    if (isHit(faults.resetRate)) return void request.socket.resetAndDestroy()
    if (isHit(faults.hangRate)) return
    if (isHit(faults.errorRate))
      throw new Refusal(
        503,
        'SERVICE_UNAVAILABLE',
        'the sandbox was asked to fail this request',
      )
    if (isHit(faults.cutRate)) cut(response)
    next()
  }
}

/** Promises the whole length, sends half of the body and breaks off. */
function cut(response: Response): void {
  response.end = (whole: unknown) => {
    const bytes = whole as Buffer
    response.write(bytes.subarray(0, bytes.length / 2), () => response.destroy())
    return response
  }
}

function areaOf(path: string): 'swap' | 'payments' {
  return /^\/v3(\/|$)/i.test(path) ? 'swap' : 'payments'
}

/** False if the caller left. The timer is then cleared, so that it delays no shutdown. */
function hasWaited(response: Response, latencyMs: number): Promise<boolean> {
  const leaving = new AbortController()
  response.once('close', () => leaving.abort())
  return sleep(latencyMs, true, { signal: leaving.signal }).catch(() => false)
}
