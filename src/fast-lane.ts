import type { IncomingMessage, ServerResponse } from 'node:http'
import { passesThrough, type Routes } from './app.ts'
import type { Exchanges } from './routes/exchange.ts'
import { screen } from './routes/screening.ts'

export type Listener = (request: IncomingMessage, response: ServerResponse) => void

/**
 * Serves the frequent cases by the same functions that the app's routes call, without Express, which costs
 * more than they do. Everything else goes to the app.
 */
export function createFastLane(app: Listener, exchanges: Exchanges, routes: Routes): Listener {
  return function fastLane(request, response) {
    if (request.method === 'OPTIONS') return app(request, response)
    const exchange = exchanges.begin(request, response)
    try {
      if (screen(exchange)) return
      if (passesThrough(exchange)) routes.passThrough(exchange)
      else if (exchange.area !== 'quote' || !routes.quotes.answerCached(exchange)) app(request, response)
    } catch (error) {
      exchanges.fail(exchange, error)
    }
  }
}
