import type { Heard, Listener } from '../events.ts'
import { hasBegun } from '../http/answer.ts'
import { UpstreamFailure } from '../http/failure.ts'
import { shownTarget } from '../http/target.ts'
import { roundedMs } from '../process/text.ts'
import { type LogOptions, lateMsOf, loggedText } from './access-log.ts'
import { logHolds } from './holds.ts'

export function createEventLog(
  options: Pick<LogOptions, 'log' | 'summedLog' | 'loggedAddress'>,
): Listener {
  const { log, summedLog, loggedAddress } = options
  return {
    ...logHolds(log),
    ...logOrders(summedLog),
    ...logBreakers(log),
    ...logDisk(log),

    requestEnded: (...ended) => debugRequest(log, ...ended),

    problemAnswered: (...answered) => sayProblem(summedLog, ...answered),

    coolDownBegan(application, address, forMs) {
      const isWhole = address === undefined
      const whose = `this application ${isWhole ? 'at any address' : 'at this address'}`
      const message = `the provider answered a quote with 429: quotes of ${whose} are not requested until its wait is over`
      const cause = { coolDown: isWhole ? 'application' : 'address' }
      const client = isWhole ? 'all addresses' : loggedAddress(address)
      summedLog.say({ level: 'warn', cause, message }, () => {
        return { application, client, forMs }
      })
    },

    cacheControlIgnored(directive) {
      log.info(
        { directive },
        'the provider marks its quotes with Cache-Control; their own expiry decides',
      )
    },
  }
}

function logOrders(summedLog: LogOptions['summedLog']): Listener {
  return {
    orderDecided({ id: requestId }, decision, { terms, verdict, quote, why }) {
      if (decision !== 'refused-expired' && decision !== 'refused-unknown') return
      const { rule } = verdict
      const line = { level: 'info', cause: { decision, rule } } as const
      const message = `a float order was refused and not sent: ${why}`
      summedLog.say({ ...line, message }, () => ({
        requestId,
        pairId: loggedText(quote?.pairId ?? terms.pair),
        quoteId: loggedText(quote?.id ?? terms.quoteIds[0]?.id),
        lateMs: lateMsOf(verdict),
      }))
    },

    quoteOrderedAgain({ id: requestId }, { quote, verdict }) {
      const message =
        'a second order went out for a quote that an order of the same user had used: an Idempotency-Key prevents that'
      const line = { level: 'warn', cause: { repeated: 'order' }, message } as const
      summedLog.say(line, () => ({ requestId, quoteId: quote?.id, rule: verdict.rule }))
    },
  }
}

function logBreakers(log: LogOptions['log']): Listener {
  /** The logged failure of each open breaker. */
  const opened = new Map<string, unknown>()
  return {
    breakerChanged(upstream, { name: breaker, state }, failure) {
      const members = { upstream, breaker, state }
      const which = `the breaker of the ${upstream} upstream (${breaker})`
      if (state === 'closed') {
        opened.delete(which)
        return log.info(members, `${which} is closed again`)
      }
      if (state === 'half-open')
        return log.debug(members, `${which} lets one request try`)
      // During an outage the breaker opens again and again.
      const level = opened.get(which) === failure ? 'debug' : 'warn'
      opened.set(which, failure)
      const why = `so requests are not sent: they kept failing, the last with ${failure}`
      log[level]({ ...members, failure }, `${which} is open, ${why}`)
    },
  }
}

/** Only for the disk: for the stream, the store logs the reason. */
function logDisk(log: LogOptions['log']): Listener {
  return {
    journalAway(part, operation, cause) {
      if (part === 'stream') return
      log.error(
        {
          operation,
          ...(typeof cause === 'number' ? { longerThanMs: cause } : { cause }),
        },
        'STATE_DIRECTORY cannot be written to: requests are served, but a restart now forgets the newest quotes, and keys ' +
          'of orders',
      )
    },

    journalBack(part, forMs) {
      if (part === 'disk') log.info({ forMs }, 'STATE_DIRECTORY is written to again')
    },
  }
}

/** The level is read each time, because an application may change its logger's. */
function debugRequest(
  log: LogOptions['log'],
  ...[exchange, status, durationMs]: Heard<'requestEnded'>
): void {
  if (!log.isLevelEnabled('debug')) return
  const { area, request, response, reading } = exchange
  log.debug(
    {
      requestId: exchange.id,
      area,
      method: request.method,
      path: shownTarget(reading),
      status: hasBegun(response) ? response.statusCode : undefined,
      durationMs: roundedMs(durationMs),
    },
    status === 0 ? 'request broken off' : 'request',
  )
}

/** Logs each cause's first problem in full, and counts the others. */
function sayProblem(
  summedLog: LogOptions['summedLog'],
  ...[problem, requestId, exchange]: Heard<'problemAnswered'>
): void {
  const { slug, status, message } = problem
  // The order's own line says more.
  if (slug === 'quote-expired' || slug === 'quote-unknown') return
  if (exchange === undefined) {
    const cause = { problem: slug, at: 'the head of a request' }
    summedLog.say({ level: 'info', cause, message }, () => ({ requestId, status }))
    return
  }
  const level = status < 500 ? 'info' : slug === 'internal-error' ? 'error' : 'warn'
  const failure = problem.cause instanceof UpstreamFailure ? problem.cause : undefined
  const cause = failure === undefined ? problem.cause : failure.cause
  const common = {
    problem: slug,
    area: exchange.area,
    upstream: failure?.upstream,
    fault: failure?.fault,
    breaker: failure?.breaker,
    // An expired certificate and a wrong name are two outages.
    code: failure?.fault.startsWith('tls_') ? codeOf(cause) : undefined,
    // One defect must not hide another.
    at: slug === 'internal-error' ? placeOf(cause) : undefined,
  }
  const { request, reading } = exchange
  summedLog.say({ level, cause: common, message }, () => ({
    requestId,
    method: request.method,
    path: shownTarget(reading),
    status,
    cause,
  }))
}

/** A code such as CERT_HAS_EXPIRED, by Node or OpenSSL. The message may hold what the upstream sent. */
function codeOf(error: unknown): string | undefined {
  const { code } = (error ?? {}) as { code?: unknown }
  return typeof code === 'string' ? code : undefined
}

/** Where in the code an error was thrown. */
function placeOf(error: unknown): string | undefined {
  const stack = error instanceof Error ? error.stack : undefined
  return stack?.match(/^ +at (.+)$/m)?.[1]
}
