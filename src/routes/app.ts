import type { RequestListener } from 'node:http'
import express, { type Request, type Response } from 'express'
import { hasLeft } from '../http/has-left.ts'
import { Problem } from '../http/problem.ts'
import type { Exchange, Exchanges } from './exchange.ts'
import { type MessageClasses, messageClassesOf } from './message-classes.ts'
import { answeredByPolicy, plainMethods } from './method-policy.ts'
import { keepRepeatedFields } from './mounted-response.ts'
import type { OrderRoute } from './orders.ts'
import type { PassThroughRoute } from './passthrough.ts'
import type { QuoteRoute } from './quotes.ts'

export interface Routes {
  quotes: QuoteRoute
  orders: OrderRoute
  passThrough: PassThroughRoute
}

export interface App {
  listener: RequestListener
  /** The classes that a server makes its requests and responses of, so that Express need not change their prototypes. */
  messages: MessageClasses
}

/** The whole service as one Express app: for the traffic server, or mounted in another app. */
export function createApp(exchanges: Exchanges, routes: Routes): App {
  const app = express()
  app.disable('x-powered-by')
  app.disable('etag')
  app.set('query parser', false)
  const messages = messageClassesOf(app)

  // Areas, not Express paths, choose the route: Express folds case, strips slashes and decodes (area.ts).
  function dispatch(exchange: Exchange): void | Promise<void> {
    const { area, reading, request } = exchange
    const { method } = request
    if (area === 'quote' && (method === 'GET' || method === 'HEAD')) return routes.quotes.answer(exchange)
    const isPlain = 'target' in reading && area !== 'quote' && plainMethods.has(method ?? '')
    if (!isPlain && answeredByPolicy(exchange)) return
    if (method === 'POST' && area === 'float-order') return routes.orders.floatOrder(exchange)
    if (method === 'POST' && area === 'order') return routes.orders.plainOrder(exchange)
    return routes.passThrough(exchange)
  }

  app.use((request: Request, response: Response) => {
    // The client left while another app, in which this one is mounted, was busy.
    if (response.destroyed) return
    if (hasLeft(request.socket)) {
      request.socket.destroy()
      return
    }
    const exchange = exchanges.begin(request, response)
    try {
      dispatch(exchange)?.catch((error) => exchanges.fail(exchange, error))
    } catch (error) {
      exchanges.fail(exchange, error)
    }
    exchanges.follow(exchange)
  })

  return {
    messages,
    listener(request, response) {
      if (!(response instanceof messages.ServerResponse)) keepRepeatedFields(response)
      app(request as Request, response as Response, (error?: unknown) => {
        // Express gave up before it called the function above: its own answer would be a page of HTML.
        const exchange = exchanges.begin(request, response)
        exchanges.follow(exchange)
        const detail = 'The request target cannot be read.'
        exchanges.fail(exchange, error ?? new Problem('bad-target', { detail }))
      })
    },
  }
}
