import express, { type NextFunction, type Request, type Response, Router } from 'express'
import { type Access, unlessRefused } from './access.ts'
import type { Recorder } from './recorder.ts'
import { BadTrial, tryIt } from './try-it.ts'
import type { OperationsView } from './view.ts'

const maxBody = '160kb'

/** The actions of the console, each a POST with a JSON object. */
export function createActions(
  view: OperationsView,
  access: Access,
  recorder: Pick<Recorder, 'noteDrop'>,
): Router {
  const router = Router()
  router.use(unlessRefused(access.refuseAction))
  router.use(express.json({ limit: maxBody }))
  router.use((request: Request, response: Response, next: NextFunction) => {
    if (isObject(request.body)) return next()
    response.status(415).json({ error: 'An action takes a JSON object, with its Content-Type.' })
  })

  router.post('/drop', (request: Request, response: Response) => {
    const { id } = request.body as { id?: unknown }
    if (typeof id !== 'string' || id === '') {
      response.status(400).json({ error: 'Which quote? Its id is missing.' })
      return
    }
    answerDropped(response, view.cache.drop(id))
  })
  router.post('/drop-all', (_request: Request, response: Response) => {
    answerDropped(response, view.cache.dropAll())
  })
  router.post('/explain', async (request: Request, response: Response) => {
    const { body, application } = request.body as { body?: unknown; application?: unknown }
    const text = (value: unknown) => (typeof value === 'string' ? value : '')
    response.json(await view.explainOrder(text(body), text(application)))
  })
  router.post('/try', async (request: Request, response: Response) => {
    try {
      response.json(await tryIt(request.body, view.traffic))
    } catch (error) {
      const status = error instanceof BadTrial ? 400 : 502
      response.status(status).json({ error: (error as Error).message })
    }
  })
  router.post('/faults', (request: Request, response: Response) => {
    if (view.sandbox === undefined) {
      response.status(404).json({ error: 'This gateway runs without a sandbox.' })
      return
    }
    try {
      response.json(view.sandbox.set(request.body))
    } catch (error) {
      response.status(400).json({ error: (error as Error).message })
    }
  })
  return router

  function answerDropped(response: Response, dropped: number): void {
    recorder.noteDrop(dropped)
    response.json({ dropped })
  }
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
