import { setTimeout as sleep } from 'node:timers/promises'
import type { RequestHandler, Response } from 'express'
import { z } from 'zod'
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

/** Applies the current faults to each request. Requests that can still be answered go on to the routes. */
export function injectFaults(settings: FaultSettings, random: () => number): RequestHandler {
  return async (request, response, next) => {
    const { scope, latencyMs } = settings.current
    if (scope !== 'all' && scope !== areaOf(request.path)) return next()
    if (latencyMs > 0 && !(await hasWaited(response, latencyMs))) return
    switch (drawFault(settings.current, random)) {
      case 'reset':
        request.socket.resetAndDestroy()
        return
      case 'hang':
        return
      case 'error':
        throw new Refusal(503, 'SERVICE_UNAVAILABLE', 'the sandbox was asked to fail this request')
      case 'cut':
        cutAnswer(response)
        return next()
      case 'none':
        return next()
    }
  }
}

type Fault = 'reset' | 'hang' | 'error' | 'cut' | 'none'

function drawFault(faults: SandboxFaults, random: () => number): Fault {
  // A rate of 0 does not call `random`, so a test scripts random numbers only for the faults that it set.
  if (faults.resetRate > 0 && random() < faults.resetRate) return 'reset'
  if (faults.hangRate > 0 && random() < faults.hangRate) return 'hang'
  if (faults.errorRate > 0 && random() < faults.errorRate) return 'error'
  if (faults.cutRate > 0 && random() < faults.cutRate) return 'cut'
  return 'none'
}

function areaOf(path: string): 'swap' | 'payments' {
  return /^\/v3(\/|$)/i.test(path) ? 'swap' : 'payments'
}

/** False if the client left during the wait. Its timer is then cleared, so that it does not delay a shutdown. */
async function hasWaited(response: Response, latencyMs: number): Promise<boolean> {
  const clientGone = new AbortController()
  const onClose = () => clientGone.abort()
  response.once('close', onClose)
  try {
    await sleep(latencyMs, undefined, { signal: clientGone.signal })
    return true
  } catch {
    return false
  } finally {
    response.off('close', onClose)
  }
}
