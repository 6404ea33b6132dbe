import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** Node does not document a socket's parser. */
type ParsedSocket = Socket & { parser?: { execute?(bytes: Buffer): unknown } | null }

/** Part of a Buffer: the parser takes a Buffer without memory for the end of the connection. */
const noBytes = Buffer.alloc(1).subarray(1)

/** Node reports no parser error in a request for an upgrade. Only chunks can have one. */
export function errorsGoUnreported({ headers }: IncomingMessage): boolean {
  return headers.upgrade !== undefined && headers['transfer-encoding'] !== undefined
}

/**
 * Calls `report` if the parser stops within the body of the current request. A parser returns how many bytes it read:
 * given none, a stopped one returns a number other than 0.
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
  // The first chunks may have come with the head, and are parsed already.
  setImmediate(look)
  // Called after Node's own listener, which parses.
  socket.on('data', look)
  response.once('close', stop)
}

/** Calls `then` when Node has parsed the end of a body that did not come with its head. */
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
 * Counts what a connection has received. Node drops what came in one piece behind a request for an upgrade, even if
 * that is not taken: half a request would be gone, and its body read as the next request. So such a request keeps its
 * connection only if nothing can have come behind it.
 */
export class ReceivedBytes {
  /** Where the last message ended, in bytes. NaN: unknown from now on. */
  #end = 0
  /** Headers since Node last dropped what was behind a message, or since the beginning. */
  #headers = 0

  get isCounted(): boolean {
    return !Number.isNaN(this.#end)
  }

  /**
   * How many bytes of a request are still to come. 0: the request is the last that was received. NaN: uncertain,
   * because each header without the usual blank leaves room for one byte more, and enough of them hide the shortest
   * head.
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
      // Only a request for an upgrade is checked again at the end of its body.
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
