import type { Config } from '../config/config.ts'
import { maxClientConnections } from '../process/fd-limit.ts'
import { maxListenBacklog } from '../process/listen-backlog.ts'
import type { Logger } from '../process/logger.ts'

/** CLIENT_CONNECTIONS, or fewer if the process may have too few descriptors for them. */
export function maxConnections(config: Config, log: Logger): number {
  const { connections } = config.requests
  const possible = maxClientConnections() ?? connections
  if (possible < connections) {
    log.warn(
      { connections: possible },
      `CLIENT_CONNECTIONS=${connections} needs more file descriptors than this process may open, so fewer clients are accepted. Raise ulimit -n.`,
    )
  }
  return Math.min(connections, possible)
}

/** What Node asks for. A shorter one would have clients dropped that are to be refused with 503. */
const minBacklog = 511

/**
 * How many connections may wait until they are accepted: as many as may be open, so that clients that come all at once
 * are answered. Those that the kernel drops past that try again after a second.
 */
export function listenBacklog({ connections }: Config['requests']): number {
  return Math.max(minBacklog, connections)
}

export function warnOfCutBacklog({ connections }: Config['requests'], log: Logger): void {
  const possible = maxListenBacklog() ?? connections
  if (possible >= connections) return
  log.warn(
    { backlog: possible },
    `CLIENT_CONNECTIONS=${connections} is more than net.core.somaxconn (${possible}): of clients that connect all at once, the kernel drops those past ${possible}. Raise it: sysctl -w net.core.somaxconn=${connections}`,
  )
}
