import { Router } from 'express'
import { answerJson } from './answer.ts'
import type { FaultSettings } from './fault-settings.ts'
import type { Payments } from './payments.ts'
import { bodyAsJsonObject, readBody } from './request-body.ts'

/** Controls for tests, demos and the console, mounted at `/sandbox`. The real upstreams have no such paths. */
export function createControlRouter(faults: FaultSettings, payments: Payments): Router {
  const router = Router()
  router.use(async (request, _response, next) => {
    if (await readBody(request)) next()
  })
  router.get('/faults', (_request, response) => answerJson(response, 200, faults.current))
  router.put('/faults', (request, response) => {
    answerJson(response, 200, faults.merge(bodyAsJsonObject(request)))
  })
  router.post('/checkouts/:id/complete', (request, response) => {
    answerJson(response, 200, payments.completeCheckout(request.params.id))
  })
  return router
}
