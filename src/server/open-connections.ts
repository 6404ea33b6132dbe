import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { hasBegun } from '../http/whole-response.ts'

/** What has to be known of a connection to bring it to its end. */
export interface EndableConnection {
  /** The requests that have no complete answer yet. */
  readonly turns: readonly { readonly response: ServerResponse }[]
  takesNoMore: boolean
}

/** The steps of an orderly end; drain.ts says when. */
export interface OrderlyEnd {
  /** From now on each connection is told with its next answer that it is the last. */
  announceEnd(): void
  /** Closes connections on which not a byte was ever received. */
  closeSilentConnections(): void
  /** Ends everything at once; an answer that was under way must not look whole. */
  cutConnections(): void
}

export interface OpenConnections {
  /** False if it is one too many. */
  add(socket: Socket, connection: EndableConnection): boolean
  /** A request is being taken on, whose answer this will be. */
  tookOn(connection: EndableConnection, response: ServerResponse): void
  /** Whether an answer is all there, but its client has not taken all of it yet. */
  readonly someAreSlow: boolean
  readonly end: OrderlyEnd
}

/** The clients' connections that are served, at most so many, and how they end. */
export function createOpenConnections(most: number): OpenConnections {
  const open = new Map<Socket, EndableConnection>()
  let isEnding = false

  /** RFC 9112 9.6: what was taken on is answered, the last of it with "Connection: close"; no more is taken. */
  function endWith(response: ServerResponse | undefined, connection: EndableConnection): void {
    if (response === undefined || hasBegun(response)) return
    response.shouldKeepAlive = false
    connection.takesNoMore = true
  }

  return {
    add(socket, connection) {
      if (open.size >= most) return false
      open.set(socket, connection)
      socket.once('close', () => open.delete(socket))
      return true
    },
    tookOn(connection, response) {
      if (isEnding) endWith(response, connection)
    },
    get someAreSlow() {
      for (const { turns } of open.values()) {
        const response = turns[0]?.response
        if (response !== undefined && isSlow(response)) return true
      }
      return false
    },
    end: {
      announceEnd() {
        isEnding = true
        for (const connection of open.values()) endWith(connection.turns.at(-1)?.response, connection)
      },
      closeSilentConnections() {
        for (const socket of open.keys()) if (socket.bytesRead === 0) socket.destroy()
      },
      cutConnections() {
        for (const [socket, { turns }] of open) {
          // A body that ends with its connection would be taken for whole if that was closed the usual way.
          if (turns.length > 0) socket.resetAndDestroy()
          else socket.destroy()
        }
      },
    },
  }
}

function isSlow(response: ServerResponse): boolean {
  return response.writableEnded && !response.writableFinished
}
