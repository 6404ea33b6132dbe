import express, { type Express, type NextFunction, type Request, type Response } from 'express'
import type { Metrics } from '../metrics.ts'

export interface OperationsOptions {
  metrics: Metrics
  /** Whether both listeners accept; false again as soon as the gateway is asked to stop. */
  isReady(): boolean
}

/** What Prometheus and the person on call ask; never reachable on the traffic port. */
export function createOperationsApp({ metrics, isReady }: OperationsOptions): Express {
  const app = express()
  app.disable('x-powered-by')
  app.disable('etag')
  app.use((_request: Request, response: Response, next: NextFunction) => {
    response.setHeader('Cache-Control', 'no-store')
    next()
  })

  app.get('/healthz', (_request: Request, response: Response) => {
    response.json({ status: 'ok' })
  })
  app.get('/readyz', (_request: Request, response: Response) => {
    const ready = isReady()
    response.status(ready ? 200 : 503).json({ status: ready ? 'ready' : 'not ready' })
  })
  app.get('/metrics', async (_request: Request, response: Response) => {
    response.type(metrics.contentType).send(await metrics.render())
  })
  app.use((_request: Request, response: Response) => {
    response.status(404).json({ error: 'Here are /metrics, /healthz and /readyz.' })
  })
  app.use((_error: unknown, _request: Request, response: Response, _next: NextFunction) => {
    if (response.headersSent) response.destroy()
    else response.status(500).json({ error: 'The operations listener failed.' })
  })
  return app
}
