import type { Router } from 'express'
import { systemClock } from '../../src/clock.ts'
import { FaultSettings } from '../../src/sandbox/faults.ts'
import { Payments } from '../../src/sandbox/payments.ts'
import { createSwapRouter } from '../../src/sandbox/swap.ts'

/** As `GET /v3/pairs/{pairId}`. */
function routesOf(router: Router, prefix = ''): string[] {
  return router.stack.flatMap(({ route }) => {
    if (route === undefined) return []
    const path = prefix + route.path.replaceAll(/:(\w+)/g, '{$1}')
    return route.stack.map(({ method }) => `${method.toUpperCase()} ${path}`)
  })
}

const sources = {
  clock: systemClock,
  elapsedClock: systemClock,
  faults: new FaultSettings(),
}
const swap = routesOf(createSwapRouter({}, sources), '/v3')
const payments = routesOf(new Payments(sources).router)

/** What the sandbox answers. */
export const sandboxRoutes = [...new Set([...swap, ...payments])].sort()
