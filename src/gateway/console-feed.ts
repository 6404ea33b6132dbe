import type { Clock } from '../clock.ts'
import { headerValues } from '../http/headers.ts'
import { maskedAddress } from '../http/ip-address.ts'
import type { Activity, SeenRequest } from '../operations/activity.ts'
import type { Ended, Exchange, ExchangeWatcher } from '../routes/exchange.ts'
import { loggedPath } from '../routes/exchange-log.ts'
import type { DecidedOrder } from '../routes/order-decisions.ts'

/** Passes every exchange that ends on to the console; called only while a console is open. */
export function createConsoleFeed(activity: Activity, clock: Clock): ExchangeWatcher {
  return (exchange, ended) => {
    const { outcome, missed } = exchange
    activity.requestOver({
      durationMs: ended.durationMs,
      isQuote: missed || outcome?.how === 'hit',
      isHit: outcome?.how === 'hit',
    })
    if (activity.hasRoom(ended.status)) activity.keep(seen(exchange, ended, clock.nowMs()))
  }
}

function seen(exchange: Exchange, { status, durationMs }: Ended, at: number): SeenRequest {
  const { area, request, outcome, upstreamMs } = exchange
  const cacheStatus = outcome !== undefined && 'cacheStatus' in outcome ? outcome.cacheStatus : null
  const passed = area !== 'none' && outcome === undefined && status !== 0
  const why = outcome !== undefined && 'why' in outcome ? outcome.why : ''
  return {
    at,
    method: request.method ?? '',
    route: area,
    path: short(loggedPath(exchange) ?? ''),
    status,
    cacheStatus,
    durationMs: Math.round(durationMs * 1_000) / 1_000,
    upstreamMs: upstreamMs ?? null,
    requestId: exchange.id,
    // The console shows the client only if a route has read it: reading it is counted, and may log a warning.
    client: maskedAddress(exchange.clientRead?.address ?? request.socket.remoteAddress),
    application: short(headerValues(request.rawHeaders, 'app-name').join(', ')),
    why: passed ? 'Passed on to the upstream and answered by it.' : why,
  }
}

/** Adds a refused order to those that the console remembers. */
export function showRefusal(
  activity: Activity,
  { order, exchange, verdict, application, nowMs }: DecidedOrder & { application: string; nowMs: number },
): void {
  const expired = verdict.state === 'expired' ? verdict : undefined
  activity.orderRefused({
    at: nowMs,
    reason: expired === undefined ? 'unknown' : 'expired',
    pair: short(expired?.quote.pairId ?? order.pair ?? ''),
    amount: short(order.fromAmount?.text ?? ''),
    application: short(application),
    quoteId: expired?.quote.id ?? null,
    quoteAgeMs: expired === undefined ? null : Math.max(0, nowMs - expired.quote.notedAtMs),
    expiredForMs: expired === undefined ? null : Math.round(expired.expiredForMs),
    requestId: exchange.id,
  })
}

/** Cuts what a client may have made long, so that a row of the console stays a row. */
function short(text: string): string {
  return text.length <= 200 ? text : `${text.slice(0, 200)}…`
}
