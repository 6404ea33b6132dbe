import { recordingUpstream } from '../gateways/between.ts'
import type { Recorded, RecordingUpstream } from './recording-upstream.ts'

/** An upstream that fails in the way that the path asks for: its first segment. */
export async function faultyUpstream(): Promise<RecordingUpstream> {
  return recordingUpstream(undefined, {
    listener(request, response) {
      const [, fault] = (request.url ?? '').split('/')
      const { socket } = response
      request.on('error', () => {})
      if (fault === 'early') {
        response.end('early')
        return
      }
      request.resume()
      request.on('end', () => {
        if (fault === 'reset') return socket?.resetAndDestroy()
        if (fault === 'close') return socket?.end()
        if (fault === 'garbage') return socket?.end('garbage\r\n\r\n')
        if (fault === 'half-head') return socket?.end('HTTP/1.1 200 OK\r\nX-A')
        if (fault === 'cut')
          return socket?.end('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort')
        if (fault === 'stream') return response.write('some')
        if (fault === 'silent') return undefined
        if (fault === 'last') response.shouldKeepAlive = false
        response.statusCode = Number(fault) || 200
        return response.end(response.statusCode === 304 ? undefined : 'ok')
      })
    },
  })
}

/** How many requests for exactly this target arrived. */
export function timesSeen(upstream: { requests: Recorded[] }, target: string): number {
  return upstream.requests.filter((request) => request.target === target).length
}
