import type { IncomingMessage } from 'node:http'
import { RequestBody } from './request-body.ts'

export interface BodyStart {
  /** The whole body, or what came before the limit was passed. */
  bytes: Buffer
  /** Set when there is more than the limit: the whole body still, from its first byte, as a stream. */
  rest: RequestBody | undefined
}

/** Reads a request's body up to a limit, and hands it on as a stream past that. */
export function readUpTo(
  request: IncomingMessage,
  options: { maxBytes: number; idleTimeoutMs: number },
): Promise<BodyStart> {
  const body = new RequestBody(request, options.idleTimeoutMs)
  const chunks: Buffer[] = []
  let length = 0
  return new Promise((resolve, reject) => {
    const onData = (chunk: Buffer) => {
      chunks.push(chunk)
      length += chunk.length
      if (length <= options.maxBytes) return
      body.pause()
      stopListening()
      body.unshift(Buffer.concat(chunks))
      resolve({ bytes: Buffer.alloc(0), rest: body })
    }
    const onEnd = () => {
      stopListening()
      resolve({ bytes: Buffer.concat(chunks), rest: undefined })
    }
    const onError = (error: Error) => {
      stopListening()
      reject(error)
    }
    function stopListening(): void {
      body.off('data', onData).off('end', onEnd).off('error', onError)
    }
    body.on('data', onData).on('end', onEnd).on('error', onError)
  })
}
