import type { Config } from '../config/config.ts'
import { forEachUpstream, type UpstreamName } from '../http/upstreams.ts'
import type { Metrics } from '../metrics/metrics.ts'
import type { History } from '../operations/history.ts'
import { durationText } from '../operations/outages.ts'
import type { CallEnd } from '../operations/recent-calls.ts'
import type { Logger } from '../process/logger.ts'
import type { SummedLog } from '../process/summed-log.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { BreakerName } from '../upstream/breakers.ts'
import type { CountedFailure, Outcome, UpstreamObserver } from '../upstream/types.ts'
import { Upstream } from '../upstream/upstream.ts'

export type Upstreams = Readonly<Record<UpstreamName, Upstream | undefined>> & { readonly swap: Upstream }

interface UpstreamParts {
  sandbox: Sandbox | undefined
  metrics: Metrics
  log: Logger
  summedLog: SummedLog
  history: Pick<History, 'callEnded'>
  /** Called once a breaker has opened or closed. */
  breakerChanged(): void
}

/** Every upstream of the table that has a base URL. */
export function createUpstreams(config: Config, parts: UpstreamParts): Upstreams {
  function create(
    name: UpstreamName,
    baseUrl: string,
    tls: Config['upstreams'][UpstreamName]['tls'],
  ): Upstream {
    const { sandbox, metrics } = parts
    const counts = metrics.upstreams[name]
    const noteBreaker = createBreakerNotes(name, parts)
    const upstream = new Upstream({
      name,
      baseUrl: baseUrl === 'sandbox' && sandbox ? sandbox.url : baseUrl,
      limits: config.upstream,
      tls,
      proxy: config.proxy,
      observer: {
        ...counts,
        requestEnded(outcome, durationMs, traffic, status) {
          counts.requestEnded(outcome, durationMs)
          parts.history.callEnded(name, traffic, callEndOf(outcome, durationMs, status))
        },
        breakerChanged(breaker, state, failure) {
          counts.breakerChanged(breaker, state, failure)
          noteBreaker(breaker, state, failure)
          parts.breakerChanged()
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

function callEndOf(outcome: Outcome, durationMs: number, status: number): CallEnd {
  const byBreaker = outcome === 'breaker_open'
  const wasSent = !byBreaker && outcome !== 'connection_limit_reached'
  const failure = outcome === 'failed-status' ? status : outcome
  const isError = failure !== 'answered' && failure !== 'given-up' && !byBreaker
  return {
    durationMs: wasSent ? durationMs : undefined,
    error: isError ? failureText(failure, durationMs) : undefined,
  }
}

/** Says in the log when a breaker of one upstream opens, and why, and when it closes. */
function createBreakerNotes(
  upstream: UpstreamName,
  { log, summedLog }: { log: Logger; summedLog: SummedLog },
): UpstreamObserver['breakerChanged'] {
  const nameOf = (breaker: BreakerName) => `the breaker of the ${upstream} upstream (${breaker})`

  return function breakerChanged(breaker, state, failure) {
    const members = { upstream, breaker, state }
    switch (state) {
      case 'open': {
        const message = `${nameOf(breaker)} is open, so requests are not sent: they kept failing, the last with ${failure}`
        summedLog.say({ level: 'warn', cause: { ...members, failure }, message })
        return
      }
      // Tried again and again while an outage lasts.
      case 'half-open':
        log.debug(members, `${nameOf(breaker)} lets one request try`)
        return
      case 'closed':
        summedLog.say({ level: 'warn', cause: members, message: `${nameOf(breaker)} is closed again` })
        return
    }
  }
}

/** How a request failed, as a person says it: `503`, `connection refused`, `timeout after 10 s`. */
export function failureText(failure: CountedFailure, afterMs: number): string {
  switch (failure) {
    case 'http_response_timeout':
      return `timeout after ${durationText(afterMs)}`
    case 'connection_timeout':
      return `connection timeout after ${durationText(afterMs)}`
    case 'connection_limit_reached':
      return 'no free connection'
    default:
      return String(failure)
        .replaceAll('_', ' ')
        .replace(/^(dns|http|tls) /, (name) => name.toUpperCase())
  }
}
