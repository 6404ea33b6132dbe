import { readFile } from 'node:fs/promises'
import type { RequestListener } from 'node:http'
import express, { type NextFunction, type Request, type Response } from 'express'
import { programFolder } from '../process/package-info.ts'
import { type AccessOptions, answerRefused, createAccess, type Level, unlessRefused } from './access.ts'
import { createActions } from './actions.ts'
import type { Activity } from './activity.ts'
import { createConsoleFiles, pageHeaders } from './console-files.ts'
import { createLiveStream } from './live-stream.ts'
import { answerProbe, failure, json, type Page, type Probe } from './probes.ts'
import { statusOf } from './status.ts'
import type { OperationsView } from './view.ts'

export interface OperationsOptions {
  /** The page that Prometheus reads. */
  page: { readonly contentType: string; render(): Promise<string> }
  view: OperationsView
  activity: Activity
  access: AccessOptions
  /** Whether both listeners accept; false again as soon as the gateway is asked to stop. */
  isReady(): boolean
}

/** Written by `npm run docs`. */
const openApiDocument = new URL('../docs/openapi.json', programFolder)

export interface OperationsApp {
  listener: RequestListener
  /** Ends the live streams, which would otherwise hold up the end of the listener. */
  close(): void
}

/** What Prometheus and the person on call ask; never reachable on the traffic port. */
export function createOperationsApp(options: OperationsOptions): OperationsApp {
  const { page, view, isReady } = options
  const access = createAccess(options.access)
  const live = createLiveStream({ ...options, needsToken: access.needsToken })
  const files = createConsoleFiles()
  const probes: ReadonlyMap<string, Probe> = new Map<string, Probe>([
    ['/healthz', () => json(200, { status: 'ok' })],
    ['/readyz', () => readiness(isReady(), view.store().up)],
    ['/metrics', async () => ({ status: 200, type: page.contentType, body: await page.render() })],
  ])
  const app = express()
  app.disable('x-powered-by')
  app.disable('etag')
  app.use((_request: Request, response: Response, next: NextFunction) => {
    response.setHeader('Cache-Control', 'no-store')
    next()
  })

  for (const [path, probe] of probes)
    app.get(path, (_request: Request, response: Response) => answerProbe(probe, response))
  app.get('/openapi.json', async (_request: Request, response: Response) => {
    response.type('json').send(await readFile(openApiDocument))
  })

  // From here on, nothing answers to a name that is not ours.
  app.use((_request: Request, response: Response, next: NextFunction) => {
    response.set(pageHeaders)
    next()
  }, unlessRefused(access.refuseHost))
  const leveled = (answer: (response: Response, level: Level) => void) => {
    return (request: Request, response: Response) => {
      const level = access.levelOf(request)
      if (typeof level === 'string') answer(response, level)
      else answerRefused(response, level)
    }
  }
  app.get(
    '/status',
    leveled((response, level) => {
      response.type('json').send(JSON.stringify(statusOf(options, level), null, 2))
    }),
  )
  app.get(
    '/stream',
    // It could not read a thing, but it could take every place.
    unlessRefused(access.refuseForeignPage),
    leveled((response, level) => {
      // Nothing would ever follow a head alone.
      if (response.req.method === 'HEAD') response.type('text/event-stream').end()
      else if (!live.join(response, level))
        response.status(503).json({ error: 'Too many look at this console already.' })
    }),
  )
  app.use('/actions', createActions(view, access))
  app.get(['/', '/:file'], async (request: Request, response: Response, next: NextFunction) => {
    const { file: name = 'index.html' } = request.params
    const file = typeof name === 'string' ? await files(name) : undefined
    if (file === undefined) next()
    else response.type(file.type).send(file.body)
  })
  app.use((_request: Request, response: Response) => {
    response
      .status(404)
      .json({ error: 'Here are the console at /, /status, /metrics, /openapi.json, /healthz and /readyz.' })
  })
  app.use((error: unknown, _request: Request, response: Response, _next: NextFunction) => {
    const { status = 500 } = error as { status?: number }
    if (response.headersSent) response.destroy()
    else if (status >= 500) response.status(failure.status).type(failure.type).send(failure.body)
    else response.status(status).type(unreadable.type).send(unreadable.body)
  })
  return {
    listener(request, response) {
      app(request as Request, response as Response, () => {
        // What Express gives up on before it has asked any of the above: its own answer would be a page of HTML.
        void answerProbe(() => unreadable, response)
      })
    },
    close: live.close,
  }
}

const unreadable = json(400, { error: 'The request cannot be read.' })

function readiness(ready: boolean, storeUp: boolean): Page {
  return json(ready ? 200 : 503, { status: ready ? 'ready' : 'not ready', degraded: !storeUp })
}
