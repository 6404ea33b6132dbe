import type { IncomingMessage } from 'node:http'
import { ClientGone, mayArriveWithHead, RequestBody, readArrivedBody } from './request-body.ts'

export interface BodyStart {
  /** The whole body; empty if the body is longer than the limit. */
  bytes: Buffer
  /** The whole body from its first byte as a stream, if the body is longer than the limit. */
  rest: RequestBody | undefined
}

export interface ReadOptions {
  maxBytes: number
  idleTimeoutMs: number
}

/** Reads a request's body into memory. A body longer than the limit is returned as a stream instead. */
export function readUpTo(request: IncomingMessage, options: ReadOptions): Promise<BodyStart> {
  const fits = Number(request.headers['content-length']) <= options.maxBytes
  if (!fits || !mayArriveWithHead(request))
    return readStream(new RequestBody(request, options.idleTimeoutMs), options)
  return new Promise((resolve, reject) => {
    readArrivedBody(request, (whole, begun) => {
      if (whole !== undefined) resolve({ bytes: whole, rest: undefined })
      else if (request.destroyed) reject(new ClientGone('the client left mid-request', { maybeSeen: true }))
      else resolve(readStream(new RequestBody(request, options.idleTimeoutMs, begun), options))
    })
  })
}

function readStream(body: RequestBody, { maxBytes }: ReadOptions): Promise<BodyStart> {
  const chunks: Buffer[] = []
  let length = 0
  return new Promise((resolve, reject) => {
    const onData = (chunk: Buffer) => {
      chunks.push(chunk)
      length += chunk.length
      if (length <= maxBytes) return
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
