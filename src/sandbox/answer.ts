import type { ServerResponse } from 'node:http'

/** An error answer of the sandbox: routes throw it, the error handler writes it. */
export class Refusal extends Error {
  readonly status: number
  readonly code: string

  constructor(status: number, code: string, message = '') {
    super(message)
    this.name = 'Refusal'
    this.status = status
    this.code = code
  }
}

const responsesToCut = new WeakSet<ServerResponse>()

/** Makes the answer promise its whole length, send half of its body and break off. */
export function cutAnswer(response: ServerResponse): void {
  responsesToCut.add(response)
}

/** Every answer of the sandbox is written here, so that any of them can be cut. */
export function answerJson(response: ServerResponse, status: number, body: unknown): void {
  const bytes = Buffer.from(JSON.stringify(body))
  response.statusCode = status
  response.setHeader('Content-Type', 'application/json; charset=utf-8')
  response.setHeader('Content-Length', bytes.length)
  if (!responsesToCut.has(response)) {
    response.end(bytes)
    return
  }
  response.write(bytes.subarray(0, Math.floor(bytes.length / 2)), () => response.destroy())
}

export function answerError(response: ServerResponse, error: unknown): void {
  if (response.headersSent) {
    response.destroy()
    return
  }
  const { status, code, message } = describeError(error)
  answerJson(response, status, message === '' ? { code } : { code, message })
}

function describeError(error: unknown): { status: number; code: string; message: string } {
  if (error instanceof Refusal) return error
  // Express gives its errors about a request, such as a broken escape in the path, a 4xx status.
  const status = error instanceof Error && 'status' in error ? error.status : undefined
  if (typeof status === 'number' && status >= 400 && status < 500) {
    return { status, code: 'BAD_REQUEST', message: 'the request cannot be read' }
  }
  return { status: 500, code: 'INTERNAL', message: 'the sandbox failed to answer' }
}
