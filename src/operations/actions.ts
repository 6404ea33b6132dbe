import express, { type NextFunction, type Request, type Response, Router } from 'express'
import { lookAt, type Now, orderLeftMs } from '../clock.ts'
import type { FloatOrder, FloatOrderDecision } from '../orders/float-order.ts'
import { type Access, unlessRefused } from './access.ts'
import type { OperationsParts } from './parts.ts'
import { BadTrial, type TrialTarget, tryIt } from './try-it.ts'

const maxBody = '160kb'

/** The actions of the console, each a POST with a JSON object. */
export function createActions(
  parts: OperationsParts,
  access: Access,
  trialTarget: () => TrialTarget,
): Router {
  const { cache, clock, floatOrders, notes, recent, sandbox } = parts
  const router = Router()
  router.use(unlessRefused(access.refuseAction))
  router.use(express.json({ limit: maxBody }))
  router.use((request: Request, response: Response, next: NextFunction) => {
    if (isObject(request.body)) return next()
    response.status(415).json({ error: 'An action takes a JSON object, with its Content-Type.' })
  })

  router.post('/drop', (request: Request, response: Response) => {
    const { id } = request.body as { id?: unknown }
    if (typeof id === 'string' && id !== '') answerDropped(response, id)
    else response.status(400).json({ error: 'Which quote? Its id is missing.' })
  })
  router.post('/drop-all', (_request: Request, response: Response) => {
    answerDropped(response)
  })
  router.post('/explain', async (request: Request, response: Response) => {
    const { body, application } = request.body as { body?: unknown; application?: unknown }
    const explained = await floatOrders.explain(Buffer.from(textOf(body)), textOf(application))
    response.json(
      explained.problem === undefined
        ? explanationOf(explained.order, explained.decision, lookAt(clock))
        : { decision: 'bad-order', detail: explained.problem },
    )
  })
  router.post('/try', async (request: Request, response: Response) => {
    try {
      response.json(await tryIt(request.body, trialTarget()))
    } catch (error) {
      const status = error instanceof BadTrial ? 400 : 502
      response.status(status).json({ error: (error as Error).message })
    }
  })
  router.post('/faults', (request: Request, response: Response) => {
    if (sandbox === undefined) {
      response.status(404).json({ error: 'This gateway runs without a sandbox.' })
      return
    }
    try {
      response.json(sandbox.faults(request.body))
    } catch (error) {
      response.status(400).json({ error: (error as Error).message })
    }
  })
  return router

  /** Without an id: all quotes. */
  function answerDropped(response: Response, id?: string): void {
    const found = [...cache.list()].filter(([, { quote }]) => id === undefined || quote.id === id)
    for (const [cacheKey, { quote }] of found) notes.drop({ ...quote, cacheKey })
    const dropped = found.length
    if (dropped > 0)
      recent.addEvent('note', `${dropped === 1 ? 'a quote was' : `${dropped} quotes were`} dropped`)
    response.json({ dropped })
  }
}

const details: Readonly<Record<FloatOrderDecision, string>> = {
  'forwarded-live': 'Forwarded: its quote is live.',
  'forwarded-unknown': 'Forwarded, though no quote seen here matches it.',
  'reported-expired': 'Sent and reported, because ORDER_EXPIRED_QUOTE is report: its quote is too old.',
  'refused-expired': '409 quote-expired: its quote is too old.',
  'refused-unknown': '409 quote-unknown: no quote seen here matches it.',
}

/** What the gateway would do with an order, and the quote that the order matches. */
function explanationOf({ terms, verdict }: FloatOrder, decision: FloatOrderDecision, now: Now) {
  const { pair, fromAmount, toAmount, quoteIds } = terms
  const order = {
    pair: pair ?? null,
    fromAmount: fromAmount?.text ?? null,
    toAmount: toAmount === 'unreadable' ? 'unreadable' : (toAmount?.text ?? null),
    quoteIds: quoteIds.map(({ id }) => id),
  }
  const explanation = { order, decision, detail: details[decision] }
  if (verdict.state === 'unknown') return explanation
  const { id, pairId, fromValue, requestedAmount, toValue, application, notedAtMs } = verdict.quote
  const quote = {
    ...{ id, pair: pairId, amount: fromValue, requestedAmount, toAmount: toValue, application },
    ageMs: Math.max(0, now.nowMs - notedAtMs),
    leftMs: Math.round(orderLeftMs(verdict.quote, now)),
  }
  return { ...explanation, matchedBy: verdict.rule, quote }
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
