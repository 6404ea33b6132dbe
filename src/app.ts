import type { RequestListener } from 'node:http'
import express, { type NextFunction, type Request, type Response } from 'express'
import { Problem } from './problem.ts'
import type { Exchange, Exchanges } from './routes/exchange.ts'
import type { OrderRoute } from './routes/orders.ts'
import type { PassThroughRoute } from './routes/passthrough.ts'
import type { QuoteRoute } from './routes/quotes.ts'
import { keepRepeatedFields } from './routes/repeated-fields.ts'
import { screen } from './routes/screening.ts'

export interface Routes {
  quotes: QuoteRoute
  orders: OrderRoute
  passThrough: PassThroughRoute
}

/** Everything but quotes and new orders goes through as it is. */
export function passesThrough({ area, request: { method } }: Exchange): boolean {
  if (area === 'quote') return method === 'OPTIONS'
  if (area === 'float-order' || area === 'order') return method !== 'POST'
  return true
}

/** The whole service, complete by itself: what the fast lane does sooner is done here just the same. */
export function createApp(exchanges: Exchanges, routes: Routes): RequestListener {
  const app = express()
  app.disable('x-powered-by')
  app.disable('etag')
  app.set('query parser', false)

  app.use((request: Request, response: Response, next: NextFunction) => {
    // Only where this app is mounted in another: a client that left while that one was thinking.
    if (response.destroyed) return
    const exchange = exchanges.begin(request, response)
    exchanges.follow(exchange)
    response.locals.exchange = exchange
    if (!screen(exchange)) next()
  })
  // Areas, not Express paths, choose the route: Express folds case, strips slashes and decodes (area.ts).
  app.use((_request: Request, response: Response) => {
    const exchange: Exchange = response.locals.exchange
    if (passesThrough(exchange)) return routes.passThrough(exchange)
    if (exchange.area === 'quote') return routes.quotes.answer(exchange)
    if (exchange.area === 'float-order') return routes.orders.floatOrder(exchange)
    return routes.orders.plainOrder(exchange)
  })
  app.use((error: unknown, _request: Request, response: Response, _next: NextFunction) => {
    exchanges.fail(response.locals.exchange, error)
  })
  return (request, response) => {
    keepRepeatedFields(response)
    app(request as Request, response as Response, (error?: unknown) => {
      // Whatever Express gives up on before it has asked any of the above: its own answer would be a page of HTML.
      const exchange = exchanges.begin(request, response)
      exchanges.follow(exchange)
      const detail = 'The request target cannot be read.'
      exchanges.fail(exchange, error ?? new Problem('bad-target', { detail }))
    })
  }
}
