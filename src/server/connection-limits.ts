import { readFileSync } from 'node:fs'
import type { Logger } from '../process/logger.ts'

/** File descriptors kept for upstreams, the operations listener and the process itself. */
const minReserved = 64
const reservedShare = 0.25

/**
 * Max client connections that the file-descriptor limit allows. Past it the process could not open what it needs
 * itself: health checks would hang and clients would be dropped silently. Undefined where the system has no
 * /proc/self/limits.
 */
export function maxClientConnections(limits = textOf('/proc/self/limits')): number | undefined {
  const descriptors = Number(/^Max open files\s+(\d+)/m.exec(limits)?.[1])
  if (Number.isNaN(descriptors)) return undefined
  return Math.max(1, descriptors - Math.max(minReserved, Math.ceil(descriptors * reservedShare)))
}

/**
 * How many connections may wait until they are accepted: the kernel cuts what a listener asks for to this number, without
 * a word. Undefined where the system has no such file.
 */
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

/** CLIENT_CONNECTIONS, or fewer if the process may have too few descriptors for them. */
export function maxConnections(connections: number, log: Logger): number {
  const possible = maxClientConnections() ?? connections
  if (possible < connections) {
    log.warn(
      { connections: possible },
      `CLIENT_CONNECTIONS=${connections} needs more file descriptors than this process may open, so fewer clients are ` +
        'accepted. Raise ulimit -n.',
    )
  }
  return Math.min(connections, possible)
}

export function warnOfCutBacklog(connections: number, log: Logger): void {
  const possible = maxListenBacklog() ?? connections
  if (possible >= connections) return
  log.warn(
    { backlog: possible },
    `CLIENT_CONNECTIONS=${connections} is more than net.core.somaxconn (${possible}): of clients that connect all at ` +
      `once, the kernel drops those past ${possible}. Raise it: sysctl -w net.core.somaxconn=${connections}`,
  )
}
