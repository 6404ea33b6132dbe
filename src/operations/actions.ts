import express, { type NextFunction, type Request, type Response, Router } from 'express'
import type { FloatOrderDecision } from '../orders/guard.ts'
import { isPlainObject } from '../process/arguments.ts'
import { type Access, Refused } from './access.ts'
import { hold, release } from './holds.ts'
import type { OperationsParts } from './parts.ts'
import { shownOrder } from './recent.ts'
import { trafficOf, tryIt } from './try-it.ts'

const maxBody = '160kb'

/** Each action is a POST with a JSON object. */
export function createActions(parts: OperationsParts, access: Access): Router {
  const { holds, orders, sandbox, secrets } = parts
  const router = Router()
  router.use(access.refuseForeignPage, access.refuseAction)
  router.use(express.json({ limit: maxBody }))
  router.use(({ body }: Request, _response: Response, next: NextFunction) => {
    if (isPlainObject(body)) return next()
    throw new Refused(415, 'An action takes a JSON object, with its Content-Type.')
  })

  on('drop', ({ id }) => {
    if (typeof id !== 'string' || id === '')
      throw new Refused(400, 'Which quote? Its id is missing.')
    return drop(parts, id)
  })
  on('drop-all', () => drop(parts))
  on('explain', async ({ body = '', application = '' }) => {
    const explained = await orders.explain(Buffer.from(String(body)), String(application))
    if (explained.problem !== undefined)
      return { decision: 'bad-order', detail: explained.problem }
    if (explained.held !== undefined)
      return { decision: 'held', detail: `503 held: ${explained.held.reason}` }
    const { order, decision } = explained
    return { decision, detail: details[decision], ...shownOrder(order) }
  })
  on('hold', (body) => hold(holds, body))
  on('release', (body) => release(holds, body))
  on('read-secrets', (body) => {
    const [name] = Object.keys(body)
    if (name !== undefined) throw new Refused(400, 'It has no members: {}.')
    return secrets.readAgain()
  })
  on('try', (trial) => tryIt(trial, trafficOf(parts)))
  on('faults', (changes) => {
    if (sandbox === undefined)
      throw new Refused(404, 'This gateway runs without a sandbox.')
    const before = { ...sandbox.faults() }
    try {
      const after = sandbox.faults(changes)
      noteFaults(parts.recent, before, after)
      return after
    } catch (error) {
      throw new Refused(400, (error as Error).message)
    }
  })
  return router

  function on(name: string, act: (body: Record<string, unknown>) => unknown): void {
    router.post(`/${name}`, async (request: Request, response: Response) => {
      response.json(await act(request.body))
    })
  }
}

function noteFaults(
  recent: OperationsParts['recent'],
  before: object,
  after: object,
): void {
  const old = new Map(Object.entries(before))
  const changed = Object.entries(after).filter(
    ([name, value]) => String(value) !== String(old.get(name)),
  )
  const texts = changed.map(([name, value]) => `${name} ${old.get(name)} to ${value}`)
  if (texts.length > 0) recent.addEvent('note', `sandbox: ${texts.join(', ')}`)
}

/** Drops the quotes with this id; without an id, all quotes. */
function drop(
  { cache, notes, recent }: Pick<OperationsParts, 'cache' | 'notes' | 'recent'>,
  id?: string,
): { dropped: number } {
  const found = cache
    .list()
    .filter(([, { quote }]) => id === undefined || quote.id === id)
  for (const [cacheKey, { quote }] of found) notes.drop({ ...quote, cacheKey })
  const dropped = found.length
  if (dropped > 0)
    recent.addEvent(
      'note',
      `${dropped === 1 ? 'a quote was' : `${dropped} quotes were`} dropped`,
    )
  return { dropped }
}

const details: Readonly<Record<FloatOrderDecision, string>> = {
  'forwarded-live': 'Forwarded: its quote is live.',
  'forwarded-unknown': 'Forwarded, though no quote seen here matches it.',
  'reported-expired':
    'Sent and reported, because ORDER_EXPIRED_QUOTE is report: its quote is too old.',
  'refused-expired': '409 quote-expired: its quote is too old.',
  'refused-unknown': '409 quote-unknown: no quote seen here matches it.',
}
