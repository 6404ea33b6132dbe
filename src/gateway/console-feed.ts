import type { Clock } from '../clock.ts'
import { headerValues } from '../http/headers.ts'
import { maskedAddress } from '../http/ip-address.ts'
import { ownProblems } from '../metrics/requests.ts'
import { type Activity, type ErrorSource, isFailed, type SeenRequest } from '../operations/activity.ts'
import type { Ended, Exchange, ExchangeWatcher } from '../routes/exchange.ts'
import { shownTarget } from '../routes/exchange-log.ts'
import { type TimeSpent, timeSpent } from '../routes/upstream-times.ts'
import { short } from './console-orders.ts'

/** Passes failed requests on to the console, and while one is open every other. */
export function createConsoleFeed(activity: Activity, clock: Clock): ExchangeWatcher {
  let number = 0
  return (exchange, ended) => {
    const hasFailed = isFailed(ended.status)
    const { isWatched } = activity
    if (!isWatched && !hasFailed) return
    if (isWatched) activity.requestOver()
    const isListed = isWatched && activity.hasRoom(ended.status)
    if (!hasFailed && !isListed) return
    number += 1
    const request = seen(exchange, ended, { number, at: clock.nowMs() })
    if (hasFailed) activity.failed.keep(request)
    if (isListed) activity.keep(request)
  }
}

function seen(exchange: Exchange, ended: Ended, is: Pick<SeenRequest, 'number' | 'at'>): SeenRequest {
  const { area, request, outcome } = exchange
  const { status, durationMs } = ended
  const cacheStatus = outcome !== undefined && 'cacheStatus' in outcome ? outcome.cacheStatus : null
  const passed = area !== 'none' && outcome === undefined && status !== 0
  const why = outcome !== undefined && 'why' in outcome ? outcome.why : ''
  return {
    ...is,
    method: request.method ?? '',
    route: area,
    path: short(shownTarget(exchange) ?? ''),
    status,
    source: sourceOf(exchange, status),
    notSent: notSentOf(exchange),
    cacheStatus,
    durationMs: rounded(durationMs),
    ...spent(exchange, durationMs),
    requestId: exchange.id,
    // The console shows the client only if a route has read it: reading it is counted, and may log a warning.
    client: maskedAddress(exchange.clientRead?.address ?? request.socket.remoteAddress),
    application: short(headerValues(request.rawHeaders, 'app-name').join(', ')),
    why: passed ? 'Passed on to the upstream and answered by it.' : why,
  }
}

function spent({ startedAtMs, upstreamTimes, missed }: Exchange, durationMs: number): TimeSpent {
  const { queueMs, upstreamMs, transferMs, ownMs } = timeSpent({
    startedAtMs,
    durationMs,
    times: upstreamTimes,
    waitedForOther: missed,
  })
  const orNull = (ms: number | null) => (ms === null ? null : rounded(ms))
  return {
    queueMs: orNull(queueMs),
    upstreamMs: orNull(upstreamMs),
    transferMs: orNull(transferMs),
    ownMs: orNull(ownMs),
  }
}

/** Who caused an error: for a 5xx as in the metric of server errors. */
function sourceOf({ outcome }: Exchange, status: number): ErrorSource | null {
  if (!isFailed(status)) return null
  const problem = outcome?.how === 'problem' ? outcome.problem : undefined
  if (problem !== undefined && ownProblems.has(problem)) return 'gateway'
  // An answer that the upstream broke off.
  if (status === 0) return problem === undefined ? 'client' : 'provider'
  const isProvidersLimit = status === 429 && problem !== 'rate-limited'
  return status >= 500 || isProvidersLimit ? 'provider' : 'client'
}

function notSentOf({ outcome }: Exchange): SeenRequest['notSent'] {
  const problem = outcome?.how === 'problem' ? outcome.problem : undefined
  if (problem === 'breaker-open') return 'breaker'
  return problem === 'saturated' ? 'saturated' : null
}

function rounded(ms: number): number {
  return Math.round(ms * 1_000) / 1_000
}
