import express, { type Express, type NextFunction, type Request, type Response } from 'express'
import type { Exchange, Exchanges } from './routes/exchange.ts'
import { screen } from './routes/screening.ts'

export interface Routes {
  passThrough(exchange: Exchange): void
}

/** The whole service, complete by itself: what the fast lane does sooner is done here just the same. */
export function createApp(exchanges: Exchanges, routes: Routes): Express {
  const app = express()
  app.disable('x-powered-by')
  app.disable('etag')
  app.set('query parser', false)

  app.use((request: Request, response: Response, next: NextFunction) => {
    const exchange = exchanges.begin(request, response)
    response.locals.exchange = exchange
    if (!screen(exchange)) next()
  })
  // Areas, not Express paths, choose the route: Express folds case, strips slashes and decodes (area.ts).
  app.use((_request: Request, response: Response) => {
    routes.passThrough(response.locals.exchange)
  })
  app.use((error: unknown, _request: Request, response: Response, _next: NextFunction) => {
    exchanges.fail(response.locals.exchange, error)
  })
  return app
}
