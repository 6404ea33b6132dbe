import { IncomingMessage, ServerResponse } from 'node:http'
import express, { type Express, type Request, type Response } from 'express'
import type { Events } from '../events.ts'
import {
  answerProblem,
  cutOff,
  destroyUnlessRead,
  hasBegun,
  isAnsweredWithProblem,
  TrafficResponse,
} from '../http/answer.ts'
import { headerValues } from '../http/headers.ts'
import { Problem, problemOf } from '../http/problem.ts'
import { inSpan } from '../process/span.ts'
import { Exchange, type ExchangeMaker, hasLeft } from './exchange.ts'
import type { MessageClasses } from './traffic-server.ts'

/** Answers a request, or throws what `#fail` turns into an answer. */
type AnswerExchange = (exchange: Exchange) => void | Promise<void>

interface Routes {
  readonly quotes: { answer: AnswerExchange }
  /** Undefined: rates pass like the rest of the swap API. */
  readonly rates: { answer: AnswerExchange } | undefined
  readonly orders: { answerFloat: AnswerExchange; answerPlain: AnswerExchange }
  readonly passThrough: { answer: AnswerExchange }
}

/** Runs a gateway's exchanges, and reports how each ended. */
export class Exchanges {
  readonly #maker: ExchangeMaker
  readonly #events: Events
  /** Requests without a complete answer. */
  inFlight = 0

  constructor(maker: ExchangeMaker, events: Events) {
    this.#maker = maker
    this.#events = events
  }

  serve(
    request: IncomingMessage,
    response: ServerResponse,
    answer: AnswerExchange,
  ): void {
    // The client left while a parent app was busy.
    if (response.destroyed) return
    if (hasLeft(request.socket)) {
      request.socket.destroy()
      return
    }
    // In a parent's server a pipelined request waits for the answers before its own. Served now, a quote would go out
    // later without another check, and no event would report a client that leaves meanwhile.
    if (response.socket === null) {
      response.once('socket', () => this.serve(request, response, answer))
      return
    }
    this.inFlight += 1
    const exchange = new Exchange(request, response, this.#maker)
    let isDone = true
    try {
      const answered = exchange.isTracing
        ? inSpan(exchange.span, () => answer(exchange))
        : answer(exchange)
      isDone = answered === undefined
      answered?.catch((error) => this.#fail(exchange, error))
    } catch (error) {
      this.#fail(exchange, error)
    }
    if (isDone && isSent(response)) this.#end(exchange, response.statusCode)
    else
      response.on('close', () =>
        this.#end(exchange, isSent(response) ? response.statusCode : 0),
      )
  }

  #end(exchange: Exchange, status: number): void {
    this.inFlight -= 1
    this.#events.requestEnded(exchange, status, performance.now() - exchange.startedAtMs)
  }

  /** The one place where what a route throws becomes an answer. */
  #fail(exchange: Exchange, error: unknown): void {
    const { request, response, id } = exchange
    // The client has left; the request is counted as broken off.
    if (response.destroyed) return
    // A later error of the same request, such as a body that never ends.
    if (isAnsweredWithProblem(response)) return
    const problem = problemOf(error, request.method ?? '')
    exchange.endsAs({
      how: 'problem',
      problem: problem.slug,
      why: `${problem.slug}: ${problem.detail}`,
    })
    this.#events.problemAnswered(problem, id, exchange)
    // Only a broken connection shows that the answer is incomplete (as Go's ErrAbortHandler).
    if (hasBegun(response)) cutOff(response)
    else
      answerProblem(request, response, {
        problem,
        requestId: id,
        fields: exchange.rateLimit?.fields ?? [],
      })
  }
}

/** Whether the whole answer was sent. A response that closes earlier was cut off. */
function isSent(response: ServerResponse): boolean {
  return (
    response.writableFinished ||
    (response instanceof TrafficResponse && response.whole === 'sent')
  )
}

/** The service as one Express app, for the traffic server or for a parent app. */
export function createApp(exchanges: Exchanges, routes: Routes) {
  const app = express()
  app.disable('x-powered-by')
  app.disable('etag')
  app.set('query parser', false)
  const messages = messageClassesOf(app)

  // Areas, not Express paths, choose the route: Express folds case, strips slashes and decodes (area.ts).
  function dispatch(exchange: Exchange): void | Promise<void> {
    const { area, reading } = exchange
    const { method } = exchange.request
    if (area === 'quote' && (method === 'GET' || method === 'HEAD'))
      return routes.quotes.answer(exchange)
    if (answeredByPolicy(exchange)) return
    const isForRates = 'rates' in reading && reading.rates !== undefined
    if (method === 'GET' && isForRates && routes.rates !== undefined)
      return routes.rates.answer(exchange)
    if (method === 'POST' && area === 'float-order')
      return routes.orders.answerFloat(exchange)
    if (method === 'POST' && area === 'order') return routes.orders.answerPlain(exchange)
    return routes.passThrough.answer(exchange)
  }

  app.use((request: Request, response: Response) =>
    exchanges.serve(request, response, dispatch),
  )

  return {
    /** Classes for a server's messages, which spare Express the change of prototypes. */
    messages,
    listener(request: IncomingMessage, response: ServerResponse): void {
      if (!(response instanceof messages.ServerResponse)) keepRepeatedFields(response)
      app(request as Request, response as Response, (error?: unknown) =>
        exchanges.serve(request, response, () => {
          // Express gave up before the function above. Its own answer would be a page of HTML.
          throw (
            error ??
            new Problem('bad-target', { detail: 'The request target cannot be read.' })
          )
        }),
      )
    },
  }
}

// Keeps the methods that Express gives a response.
Object.setPrototypeOf(TrafficResponse.prototype, express.response)

/** Express makes `locals` for each response that has none. Nothing here reads them. */
const noLocals = Object.freeze(Object.create(null))

/**
 * Express sets the prototypes of each request and response to its app's, which is nearly all of its cost: V8 then drops
 * its knowledge of the object. Messages of these classes have the right prototypes from the start.
 */
function messageClassesOf(app: Express): MessageClasses {
  class AppRequest extends IncomingMessage {}
  Object.setPrototypeOf(AppRequest.prototype, express.request)
  class AppResponse extends TrafficResponse {}
  const own = (value: unknown) => ({ value, writable: true, configurable: true })
  Object.defineProperty(AppRequest.prototype, 'app', own(app))
  Object.defineProperties(AppResponse.prototype, { app: own(app), locals: own(noLocals) })
  Object.assign(app, { request: AppRequest.prototype, response: AppResponse.prototype })
  return { IncomingMessage: AppRequest, ServerResponse: AppResponse }
}

/**
 * If any header was set before the head is written, Node 20 keeps only the last of several fields of one name, such as
 * Set-Cookie. A parent app may set one, even while the head is written. Later versions append, as this does. A wrapper
 * round `writeHead` may also misread a list of fields: `on-headers` before 1.1, which sessions and compression use,
 * reads it as pairs and throws.
 */
function keepRepeatedFields(response: ServerResponse): void {
  const isUntouched = response.writeHead === ServerResponse.prototype.writeHead
  if (isUntouched && response.getHeaderNames().length === 0) return
  const writeHead = response.writeHead.bind(response) as (
    status: number,
    ...rest: unknown[]
  ) => ServerResponse
  const writeHeadField = (status: number, ...rest: unknown[]): ServerResponse => {
    const fields = rest.at(-1)
    if (!Array.isArray(fields)) return writeHead(status, ...rest)
    for (let at = 0; at < fields.length; at += 2)
      if (response.hasHeader(fields[at])) response.removeHeader(fields[at])
    for (let at = 0; at < fields.length; at += 2)
      response.appendHeader(fields[at], fields[at + 1])
    return writeHead(status, ...rest.slice(0, -1))
  }
  response.writeHead = writeHeadField as ServerResponse['writeHead']
}

const everyMethod = 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS'

/**
 * Refuses bad targets and methods that are never passed on, and answers OPTIONS to the gateway itself. True if
 * answered.
 */
function answeredByPolicy({ request, response, reading, area }: Exchange): boolean {
  const { method } = request
  if ('problem' in reading) throw new Problem('bad-target', { detail: reading.problem })
  if (method === 'TRACE' || method === 'CONNECT') {
    throw new Problem('method-not-allowed', {
      detail: `${method} is not relayed.`,
      headers: { Allow: everyMethod },
    })
  }
  if ('asterisk' in reading && method !== 'OPTIONS') {
    throw new Problem('bad-target', {
      detail: 'The target "*" is allowed with OPTIONS only.',
    })
  }
  if (area === 'quote' && method !== 'OPTIONS') {
    throw new Problem('method-not-allowed', {
      detail: 'Request a quote with GET.',
      headers: { Allow: 'GET, HEAD, OPTIONS' },
    })
  }
  // RFC 9110 7.6.2: with Max-Forwards: 0 this is the last recipient that the request may reach.
  const isForUs =
    'asterisk' in reading ||
    (method === 'OPTIONS' &&
      /^0+$/.test(headerValues(request.rawHeaders, 'max-forwards')[0] ?? ''))
  if (!isForUs) return false
  response.writeHead(204, ['Allow', everyMethod])
  response.end()
  destroyUnlessRead(request)
  return true
}
