import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { RequestListener, Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate, setTimeout } from 'node:timers/promises'
import { PatientTimer } from '../clock.ts'
import { listenError } from '../process/errors.ts'
import type { Logger } from '../process/logger.ts'

/** Makes the server listen, and resolves to its URL. */
export async function listen(
  server: Server,
  /** Default of `backlog`: Node's, 511. */
  at: { host: string; port: number; backlog?: number },
  { setting, log }: { setting: 'PORT' | 'ADMIN_PORT'; log: Pick<Logger, 'error'> },
): Promise<string> {
  server.listen(at)
  await once(server, 'listening').catch((error) => {
    throw listenError(error, at, setting)
  })
  // An accept may fail, for example without a free descriptor. Without a listener that would end the process.
  const onLateError = (cause: Error) =>
    log.error({ cause }, 'a listener could not accept a connection')
  server.on('error', onLateError)
  // The server may listen again if the other port could not be opened.
  server.once('close', () => server.off('error', onLateError))
  const { address, port, family } = server.address() as AddressInfo
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`
}

const sweepEveryMs = 50
/** Connections that have sent nothing are closed this long after the close began. */
const silentMs = 1_000
/**
 * Waiting ends after this many quiet turns of the loop in a row, or this much of our own processor time: on a busy
 * machine one turn may take as long as fifty elsewhere.
 */
const quietTurns = 3
const maxArrivingMs = 500

interface Closing {
  timeoutMs: number
  /** Closes unused connections, which Node keeps until the deadline of a head. */
  closeSilent?: () => void
  cut?: () => void
}

/** Closes a server: takes no new connections, closes idle ones soon and the others after their answers. */
export async function closeServer(server: Server, closing: Closing): Promise<void> {
  if (!server.listening) return
  const { timeoutMs, closeSilent, cut = () => server.closeAllConnections() } = closing
  const deadline = new PatientTimer(timeoutMs, cut)
  const release = holdRequests(server)
  await untilNothingArrives(server, maxArrivingMs)
  const startedAtMs = performance.now()
  const closed = new Promise<boolean>((resolve) => {
    server.close(() => resolve(true))
  })
  release()
  // An answer that finishes now leaves an idle connection, which has to be closed, too.
  while (
    !(await Promise.race([closed, setTimeout(sweepEveryMs, false, { ref: false })]))
  ) {
    await untilNothingArrives(server, sweepEveryMs)
    server.closeIdleConnections()
    if (performance.now() - startedAtMs >= silentMs) closeSilent?.()
  }
  deadline.clear()
}

/**
 * Holds requests back for a few turns of the loop. Answered at once, their clients would come again, and a busy gateway
 * would never have accepted every connection.
 */
function holdRequests(server: Server): () => void {
  const takers = server.listeners('request') as RequestListener[]
  const held: Parameters<RequestListener>[] = []
  const hold: RequestListener = (...exchange) => void held.push(exchange)
  server.removeAllListeners('request').on('request', hold)
  return () => {
    server.off('request', hold)
    for (const take of takers) server.on('request', take)
    for (const exchange of held) server.emit('request', ...exchange)
  }
}

/**
 * Lets the loop take what has arrived. When a listener closes, the kernel resets connections that were not accepted,
 * and Node accepts one each turn. A request unread in a kept connection would be lost, too.
 */
async function untilNothingArrives(server: Server, withinMs: number): Promise<void> {
  const before = process.cpuUsage()
  const spentMs = () => {
    const { user, system } = process.cpuUsage(before)
    return (user + system) / 1_000
  }
  let hasArrived = false
  const note = () => {
    hasArrived = true
  }
  server.on('connection', note).on('request', note)
  for (let quiet = 0; quiet < quietTurns && spentMs() < withinMs; ) {
    hasArrived = false
    await setImmediate()
    quiet = hasArrived ? 0 : quiet + 1
  }
  server.off('connection', note).off('request', note)
}

/** File descriptors kept for upstreams, the operations listener and the process. */
const minReserved = 64
const reservedShare = 0.25

/**
 * Max client connections by the limit of file descriptors. With more, the process could not open files of its own:
 * health checks would hang, and clients would be dropped silently. Undefined without /proc/self/limits.
 */
export function maxClientConnections(
  limits = textOf('/proc/self/limits'),
): number | undefined {
  const descriptors = Number(/^Max open files\s+(\d+)/m.exec(limits)?.[1])
  if (Number.isNaN(descriptors)) return undefined
  return Math.max(
    1,
    descriptors - Math.max(minReserved, Math.ceil(descriptors * reservedShare)),
  )
}

/** The kernel silently cuts a larger backlog to this number. Undefined if the system has no such file. */
export function maxListenBacklog(): number | undefined {
  return Number(textOf('/proc/sys/net/core/somaxconn')) || undefined
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

/** CLIENT_CONNECTIONS, or fewer if descriptors are few. */
export function maxConnections(connections: number, log: Logger): number {
  const possible = maxClientConnections() ?? connections
  if (possible < connections) {
    log.warn(
      { connections: possible },
      `CLIENT_CONNECTIONS=${connections} needs more file descriptors than this process may open, so fewer ` +
        'connections are accepted. Raise ulimit -n.',
    )
  }
  return Math.min(connections, possible)
}

/** A log line, if the kernel lets fewer clients wait than may be connected. */
export function cutBacklog(connections: number): [object, string] | undefined {
  const possible = maxListenBacklog() ?? connections
  if (possible >= connections) return undefined
  const message =
    `CLIENT_CONNECTIONS=${connections} is more than net.core.somaxconn (${possible}): of connections that are opened all at ` +
    `once, the kernel drops those past ${possible}. Raise it: sysctl -w net.core.somaxconn=${connections}`
  return [{ backlog: possible }, message]
}
