import type { ApplicationOf } from '../client/application.ts'
import type { ReadClientAddress } from '../client/client-address.ts'
import type { LoggedAddress } from '../client/logged-address.ts'
import type { Logger } from '../process/logger.ts'
import type { ExchangeWatcher, Outcome } from './exchange.ts'
import { loggedPath } from './exchange-log.ts'
import { loggedText } from './logged-text.ts'

export interface AccessLogOptions {
  log: Logger
  applicationOf: ApplicationOf
  readClientAddress: ReadClientAddress
  loggedAddress: LoggedAddress
}

/** ACCESS_LOG: one line for each request, when it ends. */
export function createAccessLog(options: AccessLogOptions): ExchangeWatcher {
  const { log, applicationOf, readClientAddress, loggedAddress } = options

  return (exchange, { status, durationMs }) => {
    const { request, reading, outcome, upstreamMs } = exchange
    const { rawHeaders, socket } = request
    const upstream = 'upstream' in reading ? reading.upstream : undefined
    // Not `exchange.client`, because reading that is counted, and only where a route needs it.
    const client = exchange.clientRead ?? readClientAddress(socket.remoteAddress, rawHeaders)
    log.info(
      {
        log: 'access',
        requestId: exchange.id,
        traceId: exchange.traceId,
        method: request.method,
        path: loggedText(loggedPath(exchange)),
        status,
        problem: outcome?.how === 'problem' ? outcome.problem : undefined,
        cache: cacheOf(outcome),
        upstream,
        durationMs: rounded(durationMs),
        upstreamMs: upstreamMs === undefined ? undefined : rounded(upstreamMs),
        application: upstream === 'swap' ? loggedText(applicationOf(rawHeaders)) : undefined,
        client: loggedAddress(client.address),
      },
      'request',
    )
  }
}

export function cacheOf(outcome: Outcome | undefined): string | undefined {
  switch (outcome?.how) {
    case 'fetched':
      return 'miss'
    case 'hit':
    case 'collapsed':
    case 'bypass':
      return outcome.how
    default:
      return undefined
  }
}

function rounded(ms: number): number {
  return Math.round(ms * 1_000) / 1_000
}
