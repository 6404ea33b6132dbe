import { setTimeout as sleep } from 'node:timers/promises'
import type { RequestHandler, Response } from 'express'
import { cutAnswer, Refusal } from './answer.ts'
import type { FaultSettings, SandboxFaults } from './fault-settings.ts'

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
