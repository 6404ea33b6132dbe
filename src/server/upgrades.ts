import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** Node's documentation does not have the parser of a socket. */
type ParsedSocket = Socket & { parser?: { execute?(bytes: Buffer): unknown } | null }

/** An empty part of a Buffer: the parser takes a Buffer without memory for the end of the connection. */
const noBytes = Buffer.alloc(1).subarray(1)

/** Node reports no parser error in a request that asks for an upgrade. Only a chunked body can have such an error. */
export function errorsGoUnreported({ headers }: IncomingMessage): boolean {
  return headers.upgrade !== undefined && headers['transfer-encoding'] !== undefined
}

/**
 * Calls `report` if the parser stops within the body of a request that is being served. A parser returns how many bytes
 * it has read: given no bytes, a parser that has stopped returns a number other than 0.
 */
export function lookForErrors(
  request: IncomingMessage,
  response: ServerResponse,
  report: (error: Error) => void,
): void {
  const socket: ParsedSocket = request.socket
  const stop = () => socket.off('data', look)
  const look = () => {
    const read = request.complete ? 0 : socket.parser?.execute?.(noBytes)
    if (typeof read !== 'number' || read === 0) return
    stop()
    report(new Error('A chunk behind an Upgrade is malformed.'))
  }
  // The first chunks may have come with the head. Node parses them before this is called.
  setImmediate(look)
  // Called for each later piece, after Node's own listener has parsed it.
  socket.on('data', look)
  response.once('close', stop)
}

/** Calls `then` when Node has parsed the piece that completes a body, unless the body came with its head. */
export function whenBodyEnds(
  request: IncomingMessage,
  response: ServerResponse,
  then: () => void,
): void {
  const { socket } = request
  const stop = () => {
    socket.off('data', before)
    socket.off('data', after)
  }
  let wasComplete = false
  const before = () => {
    wasComplete = request.complete
  }
  const after = () => {
    if (!request.complete) return
    stop()
    if (!wasComplete) then()
  }
  // Node's own listener, which parses, is between these two.
  socket.prependListener('data', before)
  socket.on('data', after)
  response.once('close', stop)
}

const shortestHead = 'GET / HTTP/1.0\r\n\r\n'
const asksForUpgrade = /(?:^|,) *upgrade *(?:,|$)/i

/**
 * Counts what a connection has received. Node drops what came in one piece behind a request that asks for an upgrade,
 * even if the upgrade is not taken: half a request would be gone, and its body read as the next request. So such a
 * request keeps its connection only if nothing can have come behind it.
 */
export class ReceivedBytes {
  /** Where the last message ended, in bytes. NaN: unknown from now on. */
  #end = 0
  /** Headers since Node dropped what was behind a message, or since the connection was opened. */
  #headers = 0

  get isCounted(): boolean {
    return !Number.isNaN(this.#end)
  }

  /**
   * How many bytes of a request are still to come. 0: it is the last that was received. NaN: that is uncertain, because
   * each header without the usual blank leaves room for one more byte, and enough of them hide the shortest head.
   */
  missing(request: IncomingMessage): number {
    const { method, url, headers, rawHeaders, socket } = request
    const count = this.#headers + rawHeaders.length / 2
    if (count >= shortestHead.length || headers['transfer-encoding'] !== undefined)
      this.#end = Number.NaN
    if (!this.isCounted) return Number.NaN
    let end = this.#end + `${method} ${url} HTTP/1.1\r\n\r\n`.length
    for (const part of rawHeaders) end += part.length + 2
    end += Number(headers['content-length'] ?? 0)
    const missing = end - socket.bytesRead
    if (missing !== 0) {
      // Only a request that asks for an upgrade is looked at again at the end of its body.
      if (headers.upgrade === undefined) this.#end = Number.NaN
      return missing
    }
    this.#end = end
    const dropsRest =
      headers.upgrade !== undefined && asksForUpgrade.test(headers.connection ?? '')
    this.#headers = dropsRest ? 0 : count
    return 0
  }
}
