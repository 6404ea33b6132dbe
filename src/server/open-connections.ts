import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { hasBegun } from '../http/answer.ts'

/** What is needed of a connection to bring it to its end. */
export interface EndableConnection {
  /** The requests that have no complete answer yet. */
  readonly queue: readonly { readonly request: IncomingMessage; readonly response: ServerResponse }[]
  takesNoMore: boolean
}

/** The steps of an orderly end; lifecycle.ts says when. */
export interface OrderlyEnd {
  /** From now on the next answer of each connection has `Connection: close`. */
  announceEnd(): void
  /** Closes connections on which not a byte was ever received. */
  closeSilentConnections(): void
  /** Ends everything at once; an answer that was under way must not look whole. */
  cutConnections(): void
}

export interface OpenConnections {
  /** False if there are too many. */
  add(socket: Socket, connection: EndableConnection): boolean
  /** Closes the oldest connection without a whole request that waits for its answer. False: each has one. */
  closeUnused(): boolean
  /** Whether the end was announced. */
  readonly isEnding: boolean
  /**
   * Makes this response the last of its connection (RFC 9112 9.6): what was taken is answered, the last of it with
   * `Connection: close`, and no more is taken.
   */
  endWith(response: ServerResponse | undefined, connection: EndableConnection): void
  /** Whether a client has not taken all of an answer yet that is ready to the end. */
  readonly someAreSlow: boolean
  readonly end: OrderlyEnd
}

/** The clients' connections that are served, at most `max`, and how they end. */
export function createOpenConnections(max: number): OpenConnections {
  const open = new Map<Socket, EndableConnection>()

  const connections: OpenConnections & { isEnding: boolean } = {
    isEnding: false,
    add(socket, connection) {
      if (open.size >= max) return false
      open.set(socket, connection)
      socket.once('close', () => open.delete(socket))
      return true
    },
    closeUnused() {
      for (const [socket, { queue }] of open) {
        if (queue[0]?.request.complete) continue
        open.delete(socket)
        socket.destroy()
        return true
      }
      return false
    },
    endWith(response, connection) {
      if (response === undefined || hasBegun(response)) return
      response.shouldKeepAlive = false
      connection.takesNoMore = true
    },
    get someAreSlow() {
      for (const { queue } of open.values()) {
        const response = queue[0]?.response
        if (response?.writableEnded && !response.writableFinished) return true
      }
      return false
    },
    end: {
      announceEnd() {
        connections.isEnding = true
        for (const connection of open.values())
          connections.endWith(connection.queue.at(-1)?.response, connection)
      },
      closeSilentConnections() {
        for (const socket of open.keys()) if (socket.bytesRead === 0) socket.destroy()
      },
      cutConnections() {
        for (const [socket, { queue }] of open) {
          // A body that ends with its connection would look complete if that was closed the usual way.
          if (queue.length > 0) socket.resetAndDestroy()
          else socket.destroy()
        }
      },
    },
  }
  return connections
}
