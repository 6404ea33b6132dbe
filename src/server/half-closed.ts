import type { IncomingMessage } from 'node:http'

export interface Speaker {
  /** The last byte of a request was read in this turn of the event loop, or in the one before. */
  hasJustSpoken: boolean
  /** By the steady clock, when the last byte of a request was read. */
  spokeAtMs: number
}

/** The two packets of a client that ends its own side right behind its request may be this far apart. */
const justMs = 1

/**
 * A client that leaves and one that ends only its own side send the same FIN. The latter sends it right behind its request,
 * so both are read in one turn of the event loop or in two that follow each other, however late these come; or within a
 * millisecond.
 */
export function hasJustSpoken({ hasJustSpoken, spokeAtMs }: Speaker): boolean {
  return hasJustSpoken || performance.now() - spokeAtMs < justMs
}

/** Call what this returns with each request that is not answered at once. */
export function createSpeakers(): (request: IncomingMessage, connection: Speaker) => void {
  let recent: Speaker[] = []
  let older: Speaker[] = []

  function nextTurn(): void {
    for (const speaker of older) speaker.hasJustSpoken = false
    // Some of them have spoken again.
    for (const speaker of recent) speaker.hasJustSpoken = true
    older = recent
    recent = []
    if (older.length > 0) setImmediate(nextTurn)
  }

  function note(connection: Speaker): void {
    if (recent.length === 0 && older.length === 0) setImmediate(nextTurn)
    connection.hasJustSpoken = true
    connection.spokeAtMs = performance.now()
    recent.push(connection)
  }

  return (request, connection) => {
    note(connection)
    const { headers } = request
    const hasBody = headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined
    if (hasBody) request.once('end', () => note(connection))
  }
}
