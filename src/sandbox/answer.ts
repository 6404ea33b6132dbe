import { randomUUID } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import type { Request, RequestHandler, Router } from 'express'
import type { z } from 'zod'
import { SandboxError } from './types.ts'

export function issuesOf(error: z.ZodError): string {
  return error.issues.map(({ path, message }) => [...path, message].join(': ')).join('; ')
}

/** Reads a body. Throws a 400 with this code if it does not fit. */
export function read<Output>(
  schema: z.ZodType<Output>,
  body: unknown,
  code: string,
): Output {
  const parsed = schema.safeParse(body)
  if (parsed.success) return parsed.data
  throw new Refusal(400, code, issuesOf(parsed.error))
}

/** Routes throw it, and the error handler writes it. */
export class Refusal extends Error {
  readonly status: number
  readonly code: string

  constructor(status: number, code: string, message = '') {
    super(message)
    this.name = 'Refusal'
    this.status = status
    this.code = code
  }

  get body(): object {
    return this.message === ''
      ? { code: this.code }
      : { code: this.code, message: this.message }
  }
}

/** The provider's documented answer to any order that it does not take, without the reason. */
export class RefusedOrder extends Refusal {
  readonly #orderId = randomUUID()

  constructor(reason: string) {
    super(400, 'BAD_REQUEST', reason)
    this.name = 'RefusedOrder'
  }

  override get body(): object {
    return {
      code: this.code,
      status: this.status,
      orderId: this.#orderId,
      details: 'Could not create order',
    }
  }
}

/** Returns a body; a text is CSV. `id`: the path's parameter, such as `:id`. */
type Answer = (id: string, request: Request) => object | string

/** `before`: handlers that may refuse a request. */
export function addAnswers(
  router: Router,
  status: number,
  answers: Record<string, Answer>,
  ...before: RequestHandler[]
): void {
  for (const [route, answer] of Object.entries(answers)) {
    const [method, path] = route.split(' ') as ['get' | 'post' | 'put' | 'patch', string]
    router[method](path, ...before, (request, response) => {
      answerWith(
        response,
        status,
        answer(String(Object.values(request.params)[0]), request),
      )
    })
  }
}

function answerWith(
  response: ServerResponse,
  status: number,
  body: object | string,
): void {
  const [type, text] =
    typeof body === 'string'
      ? ['text/csv', body]
      : ['application/json', JSON.stringify(body)]
  const bytes = Buffer.from(text)
  response.statusCode = status
  response.setHeader('Content-Type', `${type}; charset=utf-8`)
  response.setHeader('Content-Length', bytes.length)
  response.end(bytes)
}

/** Errors of the payments API have another form. */
export function answerError(
  response: ServerResponse,
  error: unknown,
  path: string,
): void {
  if (response.headersSent) return void response.destroy()
  const refusal = refusalOf(error)
  // Our own header: the documented body has no room for the reason.
  if (refusal instanceof RefusedOrder)
    response.setHeader('Sandbox-Reason', refusal.message.replace(/[^\x20-\x7e]/g, '?'))
  const { code, message } = refusal
  const isOfPayments = !/^\/(?:v3|sandbox)(?:\/|$)/i.test(path)
  const body = isOfPayments
    ? { error: { type: code.toLowerCase(), message } }
    : refusal.body
  answerWith(response, refusal.status, body)
}

function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error
  if (error instanceof SandboxError) return new Refusal(400, 'BAD_FAULTS', error.message)
  // Express gives errors of a request, such as a broken escape, a 4xx.
  const status = error instanceof Error && 'status' in error ? error.status : undefined
  if (typeof status === 'number' && status >= 400 && status < 500)
    return new Refusal(status, 'BAD_REQUEST', 'the request cannot be read')
  return new Refusal(500, 'INTERNAL', 'the sandbox failed to answer')
}
