import type { IncomingMessage } from 'node:http'
import { PatientTimer } from '../process/patient-timer.ts'

export interface Speaker {
  /** Whether the last byte of a request has only just been read. */
  hasJustSpoken: boolean
}

/** A FIN that is read later than this after a request comes from a client that has left. */
const justMs = 1

/**
 * A client that leaves and one that ends only its own side send the same FIN. The latter sends it right behind its request,
 * so both are read together. Call what this returns with each request that is not answered at once.
 */
export function createSpeakers(): (request: IncomingMessage, connection: Speaker) => void {
  let recent: Speaker[] = []
  let older: Speaker[] = []
  let isTiming = false

  /** Each is kept for one whole round, so that none is forgotten before its connection was read once more. */
  function nextRound(): void {
    for (const speaker of older) speaker.hasJustSpoken = false
    older = recent
    recent = []
    isTiming = older.length > 0
    if (isTiming) new PatientTimer(justMs, nextRound)
  }

  function note(connection: Speaker): void {
    connection.hasJustSpoken = true
    recent.push(connection)
    if (isTiming) return
    isTiming = true
    new PatientTimer(justMs, nextRound)
  }

  return (request, connection) => {
    note(connection)
    const { headers } = request
    const hasBody = headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined
    if (hasBody) request.once('end', () => note(connection))
  }
}
