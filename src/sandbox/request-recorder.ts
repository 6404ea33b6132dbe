import type { RequestHandler } from 'express'
import type { Clock } from '../clock.ts'
import type { RecordedRequest } from './recorded-request.ts'
import { bodyBytes, readBody } from './request-body.ts'

const maxRecordedBytes = 64 * 1024 * 1024

/** Appends each request to `requests` and reads its body. */
export function recordRequests(requests: RecordedRequest[], limit: number, clock: Clock): RequestHandler {
  let bodyBytesHeld = 0

  function dropOldest(): void {
    bodyBytesHeld -= requests.shift()?.body.length ?? 0
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
    while (requests.length > limit) dropOldest()

    const isEnded = await readBody(request)
    recorded.body = bodyBytes(request)
    bodyBytesHeld += recorded.body.length
    if (bodyBytesHeld > maxRecordedBytes) {
      // Tests may empty the array, so the sum is computed again before requests are dropped for it.
      bodyBytesHeld = requests.reduce((sum, { body }) => sum + body.length, 0)
      while (bodyBytesHeld > maxRecordedBytes) dropOldest()
    }
    if (isEnded) next()
  }
}
