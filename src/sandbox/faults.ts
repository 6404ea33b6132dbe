import { isIP } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { RequestHandler, Response } from 'express'
import { z } from 'zod'
import { cutAnswer, Refusal } from './answer.ts'

export interface SandboxFaults {
  /** Waited before anything else happens to a request. */
  latencyMs: number
  /** 0 to 1: how many requests get a 503. */
  errorRate: number
  /** 0 to 1: how many connections are reset instead of answered. */
  resetRate: number
  /** 0 to 1: how many answers break off in the middle of their body. */
  cutRate: number
  /** 0 to 1: how many requests are never answered. */
  hangRate: number
  quoteLifetimeMs: number
  /** How far the sandbox's clock is ahead of the real one: shows in `Date`, `expiry` and every other instant. */
  clockOffsetMs: number
  /** A CIDR (or one address) whose clients are refused; empty for none. */
  restrictedPlace: string
  /** Which side latency and the four rates apply to. */
  scope: 'all' | 'swap' | 'payments'
}

export const defaultFaults: SandboxFaults = {
  latencyMs: 0,
  errorRate: 0,
  resetRate: 0,
  cutRate: 0,
  hangRate: 0,
  quoteLifetimeMs: 30_000,
  clockOffsetMs: 0,
  restrictedPlace: '203.0.113.0/24',
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
    scope: z.enum(['all', 'swap', 'payments']),
  })
  .partial()

/** The faults that are on now: set in code and through `PUT /sandbox/faults`, read by every request. */
export class FaultSettings {
  #current: SandboxFaults

  constructor(initial: Partial<SandboxFaults>) {
    this.#current = defaultFaults
    this.merge(initial)
  }

  get current(): Readonly<SandboxFaults> {
    return this.#current
  }

  /** All or nothing: throws a Refusal that says what is wrong, and then nothing has changed. */
  merge(next: unknown): SandboxFaults {
    const parsed = faultsSchema.safeParse(next)
    if (!parsed.success) {
      const problems = parsed.error.issues.map(({ path, message }) => [...path, message].join(': '))
      throw new Refusal(400, 'BAD_FAULTS', problems.join('; '))
    }
    const given = Object.entries(parsed.data).filter(([, value]) => value !== undefined)
    this.#current = { ...this.#current, ...Object.fromEntries(given) }
    return { ...this.#current }
  }
}

/** Lets the faults that are on befall each request, then passes on those that survived. */
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
  // A rate of 0 draws nothing, so that a test with a scripted `random` scripts only the faults it set.
  if (faults.resetRate > 0 && random() < faults.resetRate) return 'reset'
  if (faults.hangRate > 0 && random() < faults.hangRate) return 'hang'
  if (faults.errorRate > 0 && random() < faults.errorRate) return 'error'
  if (faults.cutRate > 0 && random() < faults.cutRate) return 'cut'
  return 'none'
}

function areaOf(path: string): 'swap' | 'payments' {
  return /^\/v3(\/|$)/i.test(path) ? 'swap' : 'payments'
}

/** False if the client left meanwhile: then its timer is gone too and holds up no shutdown. */
async function hasWaited(response: Response, latencyMs: number): Promise<boolean> {
  const left = new AbortController()
  const leave = () => left.abort()
  response.once('close', leave)
  try {
    await sleep(latencyMs, undefined, { signal: left.signal })
    return true
  } catch {
    return false
  } finally {
    response.off('close', leave)
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
