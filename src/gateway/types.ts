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
  /** The same function as `app`. */
  readonly listener: RequestListener
  /** Metrics, health and the console. */
  readonly operations: RequestListener
  /** Where the built-in sandbox listens, when one of the upstreams is the sandbox. */
  readonly sandboxUrl: string | undefined
  /** Opens both listeners, at HOST and PORT and at ADMIN_HOST and ADMIN_PORT; once, however often it is called. */
  listen(): Promise<{ trafficUrl: string; operationsUrl: string }>
  /**
   * Ends it: requests in flight are answered, within DRAIN_TIMEOUT_MS. For `delayMs` before that new connections
   * are still served, while /readyz says that they should go elsewhere. A further call without `delayMs` cuts that
   * short; one with it changes nothing.
   */
  close(options?: { delayMs?: number }): Promise<void>
  /** The page that Prometheus reads. */
  metrics(): Promise<string>
  /** What cannot be used is logged, and leaves in use what was read before. */
  readSecretsAgain(): void
  /** `close()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>
}

export interface GatewayOverrides {
  /** The clock of the gateway and of the built-in sandbox. */
  clock?: GatewayClock
  /** Nothing is logged unless one is given. */
  logger?: GatewayLogger
  /** Counts for RATE_LIMIT_PER_MINUTE, which has to be set too, in place of this process's memory. */
  rateLimiter?: RateLimiter
  /**
   * Times and sizes that tests want smaller.
   * @internal
   */
  limits?: Partial<Limits>
  /**
   * What a simulation has in place of sockets.
   * @internal
   */
  network?: { connect: ConnectionOptions['connect']; sharedStore: SharedStore }
}
