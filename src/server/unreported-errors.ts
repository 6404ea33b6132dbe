import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** Node's documentation does not have the parser of a socket. */
type ParsedSocket = Socket & { parser?: { execute?(bytes: Buffer): unknown } | null }

/** A part of a Buffer, because the parser takes a Buffer without any memory for the end of the connection. */
const noBytes = Buffer.alloc(1).subarray(1)

/** Node reports no error of its parser in a request that asks for an upgrade; only chunks can have one. */
export function errorsGoUnreported({ headers }: IncomingMessage): boolean {
  return headers.upgrade !== undefined && headers['transfer-encoding'] !== undefined
}

/**
 * Calls `report` if the parser stops within the body of a request that is being served. A parser returns how many bytes
 * it has read of those that it is given: of none, one that has stopped returns another number than 0.
 */
export function lookForErrors(
  request: IncomingMessage,
  response: ServerResponse,
  report: (error: Error) => void,
): void {
  const socket: ParsedSocket = request.socket
  const stop = () => socket.off('data', look)
  const look = () => {
    if (request.complete) return
    const read = socket.parser?.execute?.(noBytes)
    if (typeof read !== 'number' || read === 0) return
    stop()
    report(new Error('A chunk behind an Upgrade is malformed.'))
  }
  // The first chunks may have come with the head, and are parsed once this returns.
  setImmediate(look)
  // Called for every later piece, once Node's own listener has parsed it.
  socket.on('data', look)
  response.once('close', stop)
}
