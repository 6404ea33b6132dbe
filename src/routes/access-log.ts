import type { IncomingMessage } from 'node:http'
import type { LoggedAddress, ReadClientAddress } from '../client/client-address.ts'
import type { ApplicationOf } from '../client/partition.ts'
import { traceIdOf } from '../http/ids.ts'
import type { Problem } from '../http/problem.ts'
import type { Logger } from '../process/logger.ts'
import type { TargetReading } from './area.ts'
import type { ExchangeWatcher, Outcome } from './exchange.ts'
import { shownTarget } from './exchange-log.ts'
import { timeSpent } from './upstream-times.ts'

export interface AccessLogOptions {
  log: Logger
  applicationOf: ApplicationOf
  readClientAddress: ReadClientAddress
  loggedAddress: LoggedAddress
  readTarget: (rawTarget: string) => TargetReading
}

export interface AccessLog {
  ended: ExchangeWatcher
  /** A request that never reached a route. `request`: undefined if it could not be read. */
  refused(refusal: {
    problem: Problem
    requestId: string
    request: IncomingMessage | undefined
    peer: string | undefined
  }): void
}

const noHeaders: readonly string[] = []

/** ACCESS_LOG: one line for each request, when it ends. */
export function createAccessLog(options: AccessLogOptions): AccessLog {
  const { log, readClientAddress, loggedAddress } = options

  function applicationOf(reading: TargetReading, rawHeaders: readonly string[]): string | undefined {
    const isSwap = 'upstream' in reading && reading.upstream === 'swap'
    return isSwap ? loggedText(options.applicationOf(rawHeaders)) : undefined
  }

  return {
    ended(exchange, { status, durationMs }) {
      const { request, reading, outcome, startedAtMs, upstreamTimes: times, missed } = exchange
      const { upstreamMs } = timeSpent({ startedAtMs, durationMs, times, waitedForOther: missed })
      const { rawHeaders, socket } = request
      // Not `exchange.client`, because reading that is counted, and only where a route needs it.
      const client = exchange.clientRead ?? readClientAddress(socket.remoteAddress, rawHeaders)
      log.info(
        {
          log: 'access',
          requestId: exchange.id,
          traceId: exchange.traceId,
          method: request.method,
          path: loggedText(shownTarget(exchange)),
          status,
          problem: outcome?.how === 'problem' ? outcome.problem : undefined,
          cache: cacheOf(outcome),
          upstream: 'upstream' in reading ? reading.upstream : undefined,
          durationMs: rounded(durationMs),
          upstreamMs: upstreamMs === null ? undefined : rounded(upstreamMs),
          application: applicationOf(reading, rawHeaders),
          client: loggedAddress(client.address),
        },
        'request',
      )
    },
    refused({ problem, requestId, request, peer }) {
      const rawHeaders = request?.rawHeaders ?? noHeaders
      const reading = options.readTarget(request?.url ?? '')
      log.info(
        {
          log: 'access',
          requestId,
          traceId: traceIdOf(rawHeaders),
          method: request?.method,
          path: loggedText(shownTarget({ reading })),
          status: problem.status,
          problem: problem.slug,
          application: applicationOf(reading, rawHeaders),
          client: loggedAddress(readClientAddress(peer, rawHeaders).address),
        },
        'request refused',
      )
    },
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

const maxLength = 512

/** A client's text, cut so that one request makes no long line. */
export function loggedText(text: string | undefined): string | undefined {
  return text === undefined || text.length <= maxLength ? text : `${text.slice(0, maxLength)}…`
}
