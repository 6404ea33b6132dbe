import { createServer, IncomingMessage, type RequestListener, type Server } from 'node:http'
import type { Socket } from 'node:net'
import { TrafficResponse } from '../http/answer.ts'
import { createOpenConnections } from './open-connections.ts'
import { createPipeline } from './pipeline.ts'

/** The console's viewers are at most 200 of them. */
const defaultMaxConnections = 256
/** Node's own limit does not count a connection on which only empty lines arrive. */
const idleMs = 60_000

/**
 * The server of the operations listener, which shares the event loop with the traffic: it serves one request of a
 * connection at a time, however many are pipelined, and holds at most `maxConnections`.
 */
export function createOperationsServer(
  listener: RequestListener,
  { maxConnections = defaultMaxConnections }: { maxConnections?: number } = {},
): Server {
  const open = createOpenConnections(maxConnections)
  const { connectionOf, take } = createPipeline({
    open,
    idleMs,
    begin: ({ request, response, serve }) => serve(request, response),
  })
  const server = createServer({ IncomingMessage, ServerResponse: TrafficResponse }, (request, response) =>
    take(request, response, listener),
  )
  server.on('connection', (socket: Socket) => {
    const connection = connectionOf(socket)
    if (open.add(socket, connection)) return
    // A health probe has to be answered, even if one client holds all other connections.
    if (open.closeUnused()) open.add(socket, connection)
    else socket.destroy()
  })
  return server as Server
}
