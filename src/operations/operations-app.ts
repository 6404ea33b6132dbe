import type { IncomingMessage, ServerResponse } from 'node:http'
import { extname } from 'node:path'
import express, {
  type Express,
  type NextFunction,
  type Request,
  type Response,
} from 'express'
import { type Access, createAccess, type Level, Refused } from './access.ts'
import { createActions } from './actions.ts'
import { consoleFile, pageHeaders } from './console-files.ts'
import { countsOf } from './counts.ts'
import type { OperationsParts } from './parts.ts'
import { answerJson, healthy, isDegraded, readiness } from './probes.ts'
import { createSharedPage } from './shared-page.ts'
import { statusAnswer, statusOf } from './status.ts'
import { troublesOf } from './troubles.ts'

export type OperationsApp = ReturnType<typeof createOperationsApp>

/** Rendering takes at most a sixth of the event loop's time. */
const restFactor = 5
/** A process paused while rendering seems to have rendered for hours. Prometheus waits for ten seconds. */
const maxRestMs = 5_000
const statusEveryMs = 1_000
const tickMs = 1_000

/** Probes, metrics and the console, never reachable on the traffic port. */
export function createOperationsApp(parts: OperationsParts) {
  const { config, outages, recent, version } = parts
  const access = createAccess(config, parts.secrets)
  outages.watch(troublesOf(parts))
  recent.addEvent('note', `start of version ${version}`)
  const ticking = setInterval(() => tick(parts), tickMs)
  // A gateway in a test must not keep its process alive.
  ticking.unref()
  const app = express()
  app.disable('x-powered-by')
  app.disable('etag')
  app.use((_request: Request, response: Response, next: NextFunction) => {
    response.set(pageHeaders)
    next()
  })
  addProbes(app, parts)

  // All routes below refuse a Host that is not a name of this listener.
  app.use(access.refuseHost)
  addStatus(app, parts, access)
  app.use('/actions', createActions(parts, access))
  app.get(['/', '/:file'], answerFile)
  app.use(() => {
    throw new Refused(
      404,
      'Here are the console at /, /runbook, /status, /settings, /metrics, /openapi.json, /healthz and /readyz.',
    )
  })
  app.use(answerError)
  return {
    listener(request: IncomingMessage, response: ServerResponse) {
      // Called if Express cannot parse the target. Its own answer would be HTML.
      app(request as Request, response as Response, () =>
        answerJson(response, 400, unreadable),
      )
    },
    /** Settles once its files were read; never rejects. */
    filesRead: consoleFile('').catch(() => {}),
    close() {
      clearInterval(ticking)
    },
  }
}

/** Called once a second. */
function tick(parts: OperationsParts): void {
  parts.history.tick(countsOf(parts))
  parts.outages.look()
}

const unreadable = { error: 'The request cannot be read.' }

/** Served under any Host and without the token. */
function addProbes(app: Express, parts: OperationsParts): void {
  const { metrics } = parts
  const renderMetrics = async () => {
    const { text, tookMs } = await metrics.renderTimed()
    return { body: Buffer.from(text), tookMs }
  }
  const metricsPage = createSharedPage(renderMetrics, ({ tookMs }) =>
    Math.min(tookMs * restFactor, maxRestMs),
  )
  const get = (path: string, answer: (response: Response) => unknown) =>
    app.get(path, (_request: Request, response: Response) => answer(response))

  get('/healthz', (response) => response.json(healthy))
  get('/readyz', (response) => {
    const isReady = parts.isReady()
    response.status(isReady ? 200 : 503).json(readiness(isReady, isDegraded(parts)))
  })
  get('/metrics', async (response) =>
    response.type(metrics.contentType).send((await metricsPage()).body),
  )
  get('/openapi.json', async (response) =>
    response.type('json').send(await consoleFile('openapi.json')),
  )
  get('/runbook', async (response) =>
    response.type('html').send(await consoleFile('runbook.html')),
  )
}

/** Each open console asks once a second: one status serves all with the same rights. */
function addStatus(app: Express, parts: OperationsParts, access: Access): void {
  const shared = (level: Level) =>
    createSharedPage(
      async () => statusAnswer(statusOf(parts, level)),
      () => statusEveryMs,
    )
  const answers = { full: shared('full'), reading: shared('reading') }
  app.get('/status', async (request: Request, response: Response) => {
    const { body, etag } = await answers[access.levelOf(request)]()
    response.set('ETag', etag)
    // Express never answers 304 to a browser that asks with `no-store`.
    if (request.get('if-none-match')?.includes(etag)) response.status(304).end()
    else response.type('json').send(body)
  })
  // The settings do not change while the gateway runs.
  app.get('/settings', (request: Request, response: Response) => {
    access.levelOf(request)
    response.json(parts.settings)
  })
}

async function answerFile(
  request: Request,
  response: Response,
  next: NextFunction,
): Promise<void> {
  const place = request.path === '/' ? placeWithSlash(request.originalUrl) : undefined
  if (place !== undefined) return response.redirect(301, place)
  const name = String(request.params.file ?? 'index.html')
  const file = await consoleFile(name)
  if (file === undefined) next()
  else response.type(extname(name)).send(file)
}

/** Express recognises an error handler by its number of parameters. */
function answerError(
  error: { status?: number },
  _request: Request,
  response: Response,
  _next: NextFunction,
): void {
  const { status = 500 } = error
  if (response.headersSent) {
    response.destroy()
    return
  }
  // RFC 9110 15.5.2: a 401 names a scheme. For Bearer, browsers show no login dialog.
  if (status === 401) response.set('WWW-Authenticate', 'Bearer')
  const failed = status >= 500 ? { error: 'The operations listener failed.' } : unreadable
  response
    .status(status)
    .json(error instanceof Refused ? { error: error.message } : failed)
}

/**
 * A parent app's page may be requested without its final slash: a browser would look for files beside it. The place is
 * relative, because a proxy may have removed the path's beginning.
 */
function placeWithSlash(originalUrl: string): string | undefined {
  const [path = ''] = originalUrl.split('?', 1)
  const last = path.slice(path.lastIndexOf('/') + 1)
  return last === '' ? undefined : `./${last}/${originalUrl.slice(path.length)}`
}
