import type { RequestListener } from 'node:http'
import type { RateLimiter } from '../client/rate-limiter.ts'
import type { GatewayClock } from '../clock.ts'
import type { Limits } from '../config/limits.ts'
import type { SharedStore } from '../memory/store.ts'
import type { GatewayLogger } from '../process/logger.ts'
import type { ConnectionOptions } from '../upstream/connection.ts'

export type { RateLimiter, Taken } from '../client/rate-limiter.ts'

export interface Gateway {
  /** The whole service: what `listen()` serves, and what may be mounted in another Express app. */
  readonly app: RequestListener
  /** An alias of `app`. */
  readonly listener: RequestListener
  /** Metrics, health and the console. */
  readonly operations: RequestListener
  /** Where the built-in sandbox listens, when one of the upstreams is the sandbox. */
  readonly sandboxUrl: string | undefined
  /** Opens both listeners, at HOST and PORT and at ADMIN_HOST and ADMIN_PORT. A further call changes nothing. */
  listen(): Promise<{ trafficUrl: string; operationsUrl: string }>
  /**
   * Shuts down: requests in flight are answered within DRAIN_TIMEOUT_MS. For `delayMs` before that, new connections are
   * still served, and /readyz answers 503 already. A further call without `delayMs` ends that delay; one with it
   * changes nothing.
   */
  close(options?: { delayMs?: number }): Promise<void>
  metrics(): Promise<string>
  /** Reads the files of secrets again. A file that cannot be used is logged, and the earlier secret stays in use. */
  readSecretsAgain(): void
  [Symbol.asyncDispose](): Promise<void>
}

export interface GatewayOverrides {
  /** The clock of the gateway and of the built-in sandbox. */
  clock?: GatewayClock
  /** Without a logger, nothing is logged. */
  logger?: GatewayLogger
  /** Replaces the built-in counting for RATE_LIMIT_PER_MINUTE, which must be set too. */
  rateLimiter?: RateLimiter
  /**
   * Times and sizes that tests want smaller.
   * @internal
   */
  limits?: Partial<Limits>
  /**
   * A simulation passes these in place of sockets.
   * @internal
   */
  network?: { connect: ConnectionOptions['connect']; sharedStore: SharedStore }
}
