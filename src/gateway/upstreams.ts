import type { Config } from '../config/config.ts'
import { forEachUpstream, type UpstreamName } from '../http/upstreams.ts'
import type { Metrics } from '../metrics/metrics.ts'
import type { Logger } from '../process/logger.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { Upstream } from '../upstream/types.ts'
import { createUpstream } from '../upstream/upstream.ts'

export type Upstreams = Readonly<Record<UpstreamName, Upstream | undefined>> & { readonly swap: Upstream }

export interface UpstreamParts {
  sandbox: Sandbox | undefined
  metrics: Metrics
  log: Logger
}

/** Every upstream of the table that has a base URL. */
export function createUpstreams(config: Config, parts: UpstreamParts): Upstreams {
  function create(
    name: UpstreamName,
    baseUrl: string,
    tls: Config['upstreams'][UpstreamName]['tls'],
  ): Upstream {
    const { sandbox, metrics, log } = parts
    const counts = metrics.upstreams[name]
    const upstream = createUpstream({
      name,
      baseUrl: baseUrl === 'sandbox' && sandbox ? sandbox.url : baseUrl,
      limits: config.upstream,
      tls,
      proxy: config.proxy,
      observer: {
        ...counts,
        breakerChanged(breaker, state) {
          counts.breakerChanged(breaker, state)
          log.warn(
            { upstream: name, breaker, state },
            `the breaker of the ${name} upstream (${breaker}) is ${state}`,
          )
        },
      },
    })
    counts.watch(upstream)
    return upstream
  }

  const upstreams = forEachUpstream((name) => {
    const { baseUrl, tls } = config.upstreams[name]
    return baseUrl === undefined ? undefined : create(name, baseUrl, tls)
  })
  const { swap } = upstreams
  if (swap === undefined) throw new TypeError('SWAP_BASE_URL is required')
  return { ...upstreams, swap }
}
