import { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Listener } from '../events.ts'
import { readTraceparent } from '../http/headers.ts'
import { shownTarget, type TargetReading } from '../http/target.ts'
import type { Verdict } from '../orders/guard.ts'
import type { Logger } from '../process/logger.ts'
import type { SummedLog } from '../process/summed-log.ts'
import { cutText, roundedMs } from '../process/text.ts'

export interface LogOptions {
  log: Logger
  /** For lines that callers and providers can provoke. */
  summedLog: SummedLog
  /** The App-Name that the swap API gets. */
  applicationOf(rawHeaders: readonly string[]): string | undefined
  readUser(
    peer: string | undefined,
    rawHeaders: readonly string[],
  ): { address: string | undefined }
  loggedAddress(address: string | undefined): string | undefined
  readTarget(rawTarget: string): TargetReading
}

const maxTextLength = 512

/** ACCESS_LOG: one line for each request at its end. */
export function createAccessLog(options: LogOptions): Listener {
  const { log, loggedAddress, readUser, readTarget } = options
  const swapApplicationOf = (reading: TargetReading, rawHeaders: readonly string[]) => {
    const isSwap = 'upstream' in reading && reading.upstream === 'swap'
    return isSwap ? loggedText(options.applicationOf(rawHeaders)) : undefined
  }
  return {
    requestEnded(exchange, status, durationMs) {
      const { request, reading, cache, problem } = exchange
      const { rawHeaders, socket } = request
      const { upstreamMs } = exchange.timeSpent(durationMs)
      // Reading the address here is not counted.
      const user = exchange.user ?? readUser(socket.remoteAddress, rawHeaders)
      log.info(
        {
          log: 'access',
          requestId: exchange.id,
          traceId: exchange.traceId,
          method: request.method,
          path: loggedText(shownTarget(reading)),
          status,
          problem,
          cache,
          replayed: exchange.outcome?.how === 'order-replayed' || undefined,
          upstream: 'upstream' in reading ? reading.upstream : undefined,
          durationMs: roundedMs(durationMs),
          upstreamMs: upstreamMs === null ? undefined : roundedMs(upstreamMs),
          application: swapApplicationOf(reading, rawHeaders),
          client: loggedAddress(user.address),
        },
        'request',
      )
    },
    requestRefused(problem, requestId, from) {
      const request = from instanceof IncomingMessage ? from : undefined
      const { remoteAddress } = request?.socket ?? (from as Socket)
      const rawHeaders = request?.rawHeaders ?? []
      const reading = readTarget(request?.url ?? '')
      log.info(
        {
          log: 'access',
          requestId,
          traceId: readTraceparent(rawHeaders)?.traceId,
          method: request?.method,
          path: loggedText(shownTarget(reading)),
          status: problem.status,
          problem: problem.slug,
          application: swapApplicationOf(reading, rawHeaders),
          client: loggedAddress(readUser(remoteAddress, rawHeaders).address),
        },
        'request refused',
      )
    },
  }
}

/** ACCESS_LOG=orders, and on: one line for each float order that is decided or held, without the user's address. */
export function createOrderLog({
  log,
  applicationOf,
}: Pick<LogOptions, 'log' | 'applicationOf'>): Listener {
  return {
    problemAnswered({ slug }, requestId, exchange) {
      if (slug !== 'held' || exchange?.area !== 'float-order') return
      const application = loggedText(applicationOf(exchange.request.rawHeaders))
      log.info({ log: 'orders', requestId, application, decision: slug }, slug)
    },
    orderDecided(exchange, decision, { terms, verdict, quote }) {
      const { quoteIds, pair, fromAmount, toAmount } = terms
      log.info(
        {
          log: 'orders',
          requestId: exchange.id,
          application: loggedText(applicationOf(exchange.request.rawHeaders)),
          pairId: loggedText(pair ?? quote?.pairId),
          fromAmount: loggedText(fromAmount?.text),
          toAmount: toAmount === 'unreadable' ? toAmount : loggedText(toAmount?.text),
          quoteId: loggedText(quote?.id ?? quoteIds[0]?.id),
          decision,
          rule: verdict.rule,
          lateMs: lateMsOf(verdict),
        },
        decision,
      )
    },
  }
}

/** How late an order was. */
export function lateMsOf(verdict: Verdict): number | undefined {
  return verdict.state === 'expired' ? Math.round(verdict.expiredForMs) : undefined
}

export function loggedText(text: string | undefined): string | undefined {
  return text && cutText(text, maxTextLength)
}
