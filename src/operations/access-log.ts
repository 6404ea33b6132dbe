import { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Events, Listener } from '../events.ts'
import { traceIdOf } from '../http/ids.ts'
import type { Problem } from '../http/problem.ts'
import { shownTarget, type TargetReading } from '../http/target.ts'
import type { Logger } from '../process/logger.ts'
import type { SummedLog } from '../process/summed-log.ts'
import { cutText, roundedMs } from '../process/text.ts'

type Seen<Name extends keyof Events> = Parameters<Events[Name]>

export interface LogOptions {
  log: Logger
  /** For the lines that clients and providers can provoke. */
  summedLog: SummedLog
  /** App-Name as the swap upstream sees it. */
  applicationOf(rawHeaders: readonly string[]): string | undefined
  readClient(peer: string | undefined, rawHeaders: readonly string[]): { address: string | undefined }
  /** By LOG_CLIENT_ADDRESS. */
  loggedAddress(address: string | undefined): string | undefined
  readTarget(rawTarget: string): TargetReading
}

type AccessLogOptions = Omit<LogOptions, 'summedLog'>

const noHeaders: readonly string[] = []
const maxTextLength = 512

/** ACCESS_LOG: one line for each request, when it ends. */
export class AccessLog implements Listener {
  readonly #options: AccessLogOptions

  constructor(options: AccessLogOptions) {
    this.#options = options
  }

  requestEnded(...[exchange, status, durationMs]: Seen<'requestEnded'>): void {
    const { log, loggedAddress, readClient } = this.#options
    const { request, reading, cache, problem } = exchange
    const { rawHeaders, socket } = request
    const { upstreamMs } = exchange.timeSpent(durationMs)
    // Where no route has read it, that is not counted here.
    const client = exchange.client ?? readClient(socket.remoteAddress, rawHeaders)
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
        application: this.#applicationOf(reading, rawHeaders),
        client: loggedAddress(client.address),
      },
      'request',
    )
  }

  requestRefused(problem: Problem, requestId: string, from: IncomingMessage | Duplex): void {
    const { log, loggedAddress, readClient, readTarget } = this.#options
    const request = from instanceof IncomingMessage ? from : undefined
    const { remoteAddress } = request?.socket ?? (from as Socket)
    const rawHeaders = request?.rawHeaders ?? noHeaders
    const reading = readTarget(request?.url ?? '')
    log.info(
      {
        log: 'access',
        requestId,
        traceId: traceIdOf(rawHeaders),
        method: request?.method,
        path: loggedText(shownTarget(reading)),
        status: problem.status,
        problem: problem.slug,
        application: this.#applicationOf(reading, rawHeaders),
        client: loggedAddress(readClient(remoteAddress, rawHeaders).address),
      },
      'request refused',
    )
  }

  #applicationOf(reading: TargetReading, rawHeaders: readonly string[]): string | undefined {
    const isSwap = 'upstream' in reading && reading.upstream === 'swap'
    return isSwap ? loggedText(this.#options.applicationOf(rawHeaders)) : undefined
  }
}

/** ACCESS_LOG=orders, and on: one line for each decision about a float order. It has no client's address. */
export class OrderLog implements Listener {
  readonly #options: Pick<AccessLogOptions, 'log' | 'applicationOf'>

  constructor(options: Pick<AccessLogOptions, 'log' | 'applicationOf'>) {
    this.#options = options
  }

  orderDecided(...[exchange, decision, { terms, verdict }]: Seen<'orderDecided'>): void {
    const { log, applicationOf } = this.#options
    const { quoteIds, pair, fromAmount, toAmount } = terms
    const quoteId = 'quote' in verdict ? verdict.quote.id : quoteIds[0]?.id
    log.info(
      {
        log: 'orders',
        requestId: exchange.id,
        application: loggedText(applicationOf(exchange.request.rawHeaders)),
        pairId: loggedText(pair ?? ('quote' in verdict ? verdict.quote.pairId : undefined)),
        fromAmount: loggedText(fromAmount?.text),
        toAmount: toAmount === 'unreadable' ? toAmount : loggedText(toAmount?.text),
        quoteId: loggedText(quoteId),
        decision,
        rule: verdict.rule,
        lateMs: verdict.state === 'expired' ? Math.round(verdict.expiredForMs) : undefined,
      },
      decision,
    )
  }
}

const loggedText = (text: string | undefined) => text && cutText(text, maxTextLength)
