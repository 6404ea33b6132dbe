import type { IncomingMessage, ServerResponse } from 'node:http'
import { passesThrough, type Routes } from './app.ts'
import type { Exchange, Exchanges } from './routes/exchange.ts'
import { screen } from './routes/screening.ts'

export type Listener = (request: IncomingMessage, response: ServerResponse) => void

export interface FastLane {
  listener: Listener
  /**
   * Answers a request that differs from an earlier one of its connection, which was a hit, in its target alone. False,
   * and nothing is done, unless it is a hit as well.
   */
  answerAgain(earlier: IncomingMessage, target: string): boolean
}

/**
 * Serves the frequent cases, quotes and what passes through, by the same functions that the app's routes call,
 * without Express, which costs more than they do. Everything else goes to the app.
 */
export function createFastLane(app: Listener, exchanges: Exchanges, routes: Routes): FastLane {
  function listener(request: IncomingMessage, response: ServerResponse): void {
    if (request.method === 'OPTIONS') {
      app(request, response)
      return
    }
    const exchange = exchanges.begin(request, response)
    try {
      serve(exchange)
    } catch (error) {
      exchanges.fail(exchange, error)
    }
    exchanges.follow(exchange)
  }

  function serve(exchange: Exchange): void {
    if (screen(exchange)) return
    if (passesThrough(exchange)) routes.passThrough(exchange)
    else if (exchange.area !== 'quote') app(exchange.request, exchange.response)
    else routes.quotes.answer(exchange)?.catch((error) => exchanges.fail(exchange, error))
  }

  function answerAgain(earlier: IncomingMessage, target: string): boolean {
    const exchange = exchanges.again(earlier, target)
    if (exchange?.area !== 'quote') return false
    try {
      if (!routes.quotes.answerAgain(exchange)) return false
    } catch {
      // Whatever is wrong with it is told by the listener.
      return false
    }
    exchanges.over(exchange)
    return true
  }

  return { listener, answerAgain }
}
