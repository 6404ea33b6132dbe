import type { Router } from 'express'
import { systemClock } from '../../src/clock.ts'
import { upstreamNames, upstreamTable } from '../../src/http/upstreams.ts'
import { FaultSettings } from '../../src/sandbox/faults.ts'
import { Payments } from '../../src/sandbox/payments.ts'
import { createSwapRouter } from '../../src/sandbox/swap.ts'
import { ofAnyRequest, ofAnyUpstream, ofSwap } from './problems.ts'
import { type Paths, parameter, swapPaths, upstreamAnswer } from './swap-paths.ts'

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
const swap = createSwapRouter({}, sources)
const described = Object.entries(swapPaths).flatMap(([path, operations]) =>
  Object.keys(operations).map((method) => `${method.toUpperCase()} ${path}`),
)

/** What the sandbox answers and no entry of its own describes. */
export const otherRoutes = [
  ...new Set([...routesOf(swap, '/v3'), ...routesOf(new Payments(sources).router)]),
]
  .filter((route) => !described.includes(route))
  .sort()

/** One entry for all else: the gateway reads nothing of these requests, so that it has nothing to describe. */
export const otherPaths: Paths = {
  '/{path}': {
    get: {
      operationId: 'passThrough',
      tags: upstreamNames.map((name) => upstreamTable[name].title),
      summary: 'Every other path: any depth, any method, any body',
      description:
        'Below `/v3` requests pass to SWAP_BASE_URL with one clean `Forwarded`, `Via`, `X-Request-Id` and the SWAP_ defaults. ' +
        'The paths in PAYMENTS_PATHS pass to PAYMENTS_BASE_URL, `/webhooks` and what is below it to WEBHOOKS_BASE_URL, both ' +
        'byte for byte, so that what the caller signed stays signed. Any other path, and every path below another ' +
        `\`/v<number>\`, is 404 \`not-found\`.\n\nThe sandbox answers:\n\n${otherRoutes.map((route) => `- \`${route}\``).join('\n')}`,
      parameters: [parameter('Path')],
      responses: { default: upstreamAnswer },
      security: [{}, { bearer: [] }],
      problems: [
        ...ofAnyRequest,
        ...ofSwap,
        ...ofAnyUpstream,
        ...new Set(upstreamNames.map((name) => upstreamTable[name].missing.slug)),
      ],
    },
  },
}
