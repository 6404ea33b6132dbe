import { hasBegun } from '../http/answer.ts'
import { UpstreamFailure } from '../http/failure.ts'
import type { Problem } from '../http/problem.ts'
import type { Logger } from '../process/logger.ts'
import type { SummedLog } from '../process/summed-log.ts'
import type { Ended, Exchange } from './exchange.ts'

/** The target, as logs, the console and traces show it: of quotes and the rest of the swap API alone with a query. */
export function shownTarget({ reading }: Pick<Exchange, 'reading'>): string | undefined {
  if (!('target' in reading)) return undefined
  const { area, path, target } = reading
  const hasShownQuery = (area === 'quote' || area === 'swap') && target.length > path.length
  return hasShownQuery ? `${path}?${shownQuery(target.slice(path.length + 1))}` : path
}

export function logEnd(log: Logger, exchange: Exchange, { status, durationMs }: Ended): void {
  const { area, request, response } = exchange
  log.debug(
    {
      requestId: exchange.id,
      area,
      method: request.method,
      path: shownTarget(exchange),
      status: hasBegun(response) ? response.statusCode : undefined,
      durationMs: Math.round(durationMs * 1000) / 1000,
    },
    status === 0 ? 'request broken off' : 'request',
  )
}

/** In full for the first of a cause; the others are counted. */
export function logProblem(log: SummedLog, exchange: Exchange, problem: Problem): void {
  const level = problem.status < 500 ? 'info' : problem.slug === 'internal-error' ? 'error' : 'warn'
  const failure = problem.cause instanceof UpstreamFailure ? problem.cause : undefined
  const cause = failure === undefined ? problem.cause : failure.cause
  const line = {
    level,
    cause: {
      problem: problem.slug,
      area: exchange.area,
      upstream: failure?.upstream,
      fault: failure?.fault,
      breaker: failure?.breaker,
      // An expired certificate and a wrong name are two outages.
      code: failure?.fault.startsWith('tls_') ? codeOf(cause) : undefined,
      // One defect must not hide another.
      at: problem.slug === 'internal-error' ? placeOf(cause) : undefined,
    },
    message: problem.message,
  } as const
  log.say(line, () => ({
    requestId: exchange.id,
    method: exchange.request.method,
    path: shownTarget(exchange),
    status: problem.status,
    cause,
  }))
}

/** Such as CERT_HAS_EXPIRED, by Node or OpenSSL; its message may hold what the upstream sent. */
function codeOf(error: unknown): string | undefined {
  const { code } = (error ?? {}) as { code?: unknown }
  return typeof code === 'string' ? code : undefined
}

/** The first line of the stack: where in the code an error was thrown. */
function placeOf(error: unknown): string | undefined {
  const stack = error instanceof Error ? error.stack : undefined
  return stack?.match(/^ +at (.+)$/m)?.[1]
}

/** Parameters of the swap API that say what is asked for, and nothing of who asks. */
const harmless: ReadonlySet<string> = new Set([
  'amount',
  'from',
  'to',
  'toAsset',
  'networks',
  'limit',
  'page',
  'format',
])
/** As these are spelled. Some servers also end a parameter at ";", and one that decodes twice at "%26". */
const plainValue = /^(?:[\w.,:+-]|%2c){0,64}$/i
/** A longer one, or one with other characters, may be a value without its name. */
const plainName = /^[\w.[\]-]{1,32}$/

/** A query for people's eyes: of any other parameter the value may be an address, a name or a key. */
export function shownQuery(query: string): string {
  return query.split('&').map(shownParameter).join('&')
}

function shownParameter(parameter: string): string {
  const equalsAt = parameter.indexOf('=')
  if (equalsAt === -1) return plainName.test(parameter) || parameter === '' ? parameter : '…'
  const name = parameter.slice(0, equalsAt)
  const value = parameter.slice(equalsAt + 1)
  if (harmless.has(name) && plainValue.test(value)) return parameter
  return `${plainName.test(name) ? name : '…'}=…`
}
