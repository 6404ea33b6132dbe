import type { Config } from '../config/config.ts'
import { maxClientConnections } from '../process/fd-limit.ts'
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
