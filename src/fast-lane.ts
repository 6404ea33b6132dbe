import type { IncomingMessage, ServerResponse } from 'node:http'
import { passesThrough, type Routes } from './app.ts'
import type { Exchange, Exchanges } from './routes/exchange.ts'
import { screen } from './routes/screening.ts'

export type Listener = (request: IncomingMessage, response: ServerResponse) => void

/**
 * Serves the frequent cases, quotes and what passes through, by the same functions that the app's routes call,
 * without Express, which costs more than they do. Everything else goes to the app.
 */
export function createFastLane(app: Listener, exchanges: Exchanges, routes: Routes): Listener {
  return function fastLane(request, response) {
    if (request.method === 'OPTIONS') return app(request, response)
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
}
