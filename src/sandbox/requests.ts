import type { Request, RequestHandler } from 'express'
import type { GatewayClock as Clock } from '../clock.ts'
import { isPlainObject } from '../process/arguments.ts'
import { Refusal } from './answer.ts'
import type { RecordedRequest } from './types.ts'

const maxRecordedBytes = 64 * 1024 * 1024
const maxKeptBytes = 1024 * 1024
const maxNesting = 64

/** Appends each request to `requests` and reads its body. */
export function recordRequests(
  requests: RecordedRequest[],
  limit: number,
  clock: Clock,
): RequestHandler {
  // Summed each time: tests may empty the array.
  const bytesHeld = () => requests.reduce((sum, { body }) => sum + body.length, 0)
  const dropOldest = () => {
    while (requests.length > limit || bytesHeld() > maxRecordedBytes) requests.shift()
  }
  return async (request, _response, next) => {
    const recorded: RecordedRequest = {
      method: request.method,
      target: request.originalUrl,
      headers: request.headers,
      rawHeaders: request.rawHeaders,
      body: Buffer.alloc(0),
      receivedAtMs: clock.nowMs(),
    }
    requests.push(recorded)
    dropOldest()
    const isEnded = await readBody(request)
    recorded.body = request.body.bytes
    dropOldest()
    if (isEnded) next()
  }
}

/** Reads the whole body and keeps the first MiB. False: the caller left before the end. */
export async function readBody(request: Request): Promise<boolean> {
  const chunks: Buffer[] = []
  let receivedBytes = 0
  try {
    for await (const chunk of request as AsyncIterable<Buffer>) {
      // The rest is read, too: a caller that is still writing would miss the 413.
      if (receivedBytes < maxKeptBytes)
        chunks.push(chunk.subarray(0, maxKeptBytes - receivedBytes))
      receivedBytes += chunk.length
    }
  } catch {
    // The caller left: the request is not complete.
  }
  request.body = { bytes: Buffer.concat(chunks), isWhole: receivedBytes <= maxKeptBytes }
  return request.complete
}

export function bodyAsJsonObject({ body }: Request): Record<string, unknown> {
  if (!body.isWhole)
    throw new Refusal(
      413,
      'BODY_TOO_LARGE',
      `the sandbox reads at most ${maxKeptBytes} bytes`,
    )
  let value: unknown
  try {
    value = JSON.parse(body.bytes.toString('utf8'))
  } catch {
    // Not an object either.
  }
  if (!isPlainObject(value))
    throw new Refusal(400, 'MALFORMED_BODY', 'the body must be a JSON object')
  // JSON.parse accepts any depth, but JSON.stringify would overflow the stack.
  if (isDeeperThan(value, maxNesting))
    throw new Refusal(
      400,
      'MALFORMED_BODY',
      `the body is nested more than ${maxNesting} deep`,
    )
  return value as Record<string, unknown>
}

function isDeeperThan(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return (
    levels === 0 || Object.values(value).some((inner) => isDeeperThan(inner, levels - 1))
  )
}

/** URLSearchParams never throws, and does not turn `amount[x]` into an object. */
export function queryOf(request: Request): URLSearchParams {
  const start = request.originalUrl.indexOf('?')
  return new URLSearchParams(start === -1 ? '' : request.originalUrl.slice(start))
}
