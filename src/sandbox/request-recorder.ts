import type { RequestHandler } from 'express'
import type { Clock } from '../clock.ts'
import { bodyBytes, readBody } from './request-body.ts'

export interface RecordedRequest {
  method: string
  /** As it stood in the request line. */
  target: string
  rawHeaders: string[]
  /** At most its first MiB; what had arrived by then if the client left. Empty while it is being read. */
  body: Buffer
  /** By the clock that the sandbox was given, without `clockOffsetMs`: the test's own time. */
  receivedAtMs: number
}

const recordedBodyBytes = 64 * 1024 * 1024

/** Reads each request's body and remembers the request in `requests`, the newest last. */
export function recordRequests(requests: RecordedRequest[], limit: number, clock: Clock): RequestHandler {
  let bodyBytesHeld = 0

  function dropOldest(): void {
    bodyBytesHeld -= requests.shift()?.body.length ?? 0
  }

  return async (request, _response, next) => {
    const recorded: RecordedRequest = {
      method: request.method,
      target: request.originalUrl,
      rawHeaders: request.rawHeaders,
      body: Buffer.alloc(0),
      receivedAtMs: clock.nowMs(),
    }
    requests.push(recorded)
    while (requests.length > limit) dropOldest()

    const isEnded = await readBody(request)
    recorded.body = bodyBytes(request)
    bodyBytesHeld += recorded.body.length
    if (bodyBytesHeld > recordedBodyBytes) {
      // Tests may empty the array themselves, so the sum is only trusted once it has been taken again.
      bodyBytesHeld = requests.reduce((sum, { body }) => sum + body.length, 0)
      while (bodyBytesHeld > recordedBodyBytes) dropOldest()
    }
    if (isEnded) next()
  }
}
