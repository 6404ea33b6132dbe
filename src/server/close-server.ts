import type { Server } from 'node:http'
import { PatientTimer } from '../process/patient-timer.ts'

const sweepEveryMs = 50
/** A connection that was accepted just before the end gets this long to say what it is for. */
const silentMs = 1_000

export interface Closing {
  /** How long requests in flight may take before they are cut. */
  timeoutMs: number
  /** Closes connections that were opened and never used, which Node keeps until the deadline of a head. */
  closeSilent?: () => void
  cut?: () => void
}

/** Closes a server: no new connections, idle ones soon, the others when their requests are answered. */
export function closeServer(server: Server, closing: Closing): Promise<void> {
  if (!server.listening) return Promise.resolve()
  const { timeoutMs, closeSilent, cut = () => server.closeAllConnections() } = closing
  return new Promise((resolve) => {
    const startedAtMs = performance.now()
    // An answer that finishes during the close leaves its kept connection idle; it has to be closed as well.
    const sweep = setInterval(() => {
      server.closeIdleConnections()
      if (performance.now() - startedAtMs >= silentMs) closeSilent?.()
    }, sweepEveryMs)
    const deadline = new PatientTimer(timeoutMs, cut)
    server.close(() => {
      clearInterval(sweep)
      deadline.clear()
      resolve()
    })
    server.closeIdleConnections()
  })
}
