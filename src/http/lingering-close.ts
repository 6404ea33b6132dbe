import type { IncomingMessage, ServerResponse } from 'node:http'
import { PatientTimer } from '../process/patient-timer.ts'

/** How long the sender of an unwanted body may pause. Closing at once would reset the connection: no answer arrives. */
const lingerMs = 2_000
/** Many clients read the answer only after they have sent the whole body, and a large upload may take this long. */
const maxLingerMs = 15_000

const noBytes = Buffer.alloc(0)

/** Ends an answer, even if the request has not been received completely. */
export function endAnswer(request: IncomingMessage, response: ServerResponse, lastBytes?: Buffer): void {
  // An HTTP/1.0 answer without a length closes its connection, whatever `shouldKeepAlive` says.
  if (request.complete || (response.shouldKeepAlive && request.httpVersionMinor === 1)) {
    // Node joins a latin1 string with the head into one write, but not a Buffer.
    response.end(lastBytes?.toString('latin1') ?? '', 'latin1')
    destroyUnlessRead(request)
    return
  }
  // An empty write sends the head of an answer that has no body.
  response.write(lastBytes ?? noBytes)
  endOnceRead(request, response)
}

/** Ends an answer that closes its connection, but only after the client has stopped sending. */
export function endOnceRead(request: IncomingMessage, response: ServerResponse): void {
  readToEnd(request, () => response.end())
}

/** Gives a client time to finish a body that the gateway does not use, then closes its connection. */
export function destroyUnlessRead(request: IncomingMessage): void {
  if (request.complete) return
  readToEnd(request, () => {
    if (!request.complete) request.socket.destroy()
  })
}

/** Reads and drops a body until it ends, until its sender pauses for `lingerMs`, or until `maxLingerMs` have passed. */
function readToEnd(request: IncomingMessage, done: () => void): void {
  const { socket } = request
  const stop = () => {
    pause.clear()
    clearTimeout(limit)
    request.off('data', onData)
    request.off('end', onEnd)
    socket.off('close', stop)
  }
  const onEnd = () => {
    stop()
    done()
  }
  const onData = () => pause.refresh()
  const pause = new PatientTimer(lingerMs, onEnd)
  const limit = setTimeout(onEnd, maxLingerMs)
  request.on('data', onData)
  request.once('end', onEnd)
  socket.once('close', stop)
  request.resume()
}
