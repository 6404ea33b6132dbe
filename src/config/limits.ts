import { z } from 'zod'

const count = z.int().min(0)

/** @internal */
export const limits = z.strictObject({
  /** Max time to connect to an upstream, TLS included. */
  connectTimeoutMs: count.default(3_000),
  /** Max pause in an upstream's answer, and of a caller that should read it. */
  bodyTimeoutMs: count.default(30_000),
  /**
   * Requests that wait for a connection of one upstream; float orders have as many places of their own. Default: eight
   * times UPSTREAM_CONNECTIONS.
   */
  queue: count.optional(),
  /**
   * Max wait for a free connection, and that of a float order. Most callers give up after 5 s: a request that waited
   * longer would take the connection of a caller who still waits.
   */
  waitMs: count.default(1_000),
  floatOrderWaitMs: count.default(2_000),
  /** Retries of requests that cannot have reached the upstream, or of a GET or HEAD whose connection broke. */
  retries: count.default(1),
  /** Failures in a row that open a breaker. */
  breakerFailures: count.default(5),
  breakerOpenMs: count.default(5_000),
  /** Max time for a caller's request head. */
  headTimeoutMs: count.default(10_000),
  /** Max pause in a caller's request body. */
  bodyIdleTimeoutMs: count.default(30_000),
  /** Max bytes of all quotes in memory. */
  cacheBytes: count.default(64 * 2 ** 20),
  /** A larger quote is relayed and not kept. */
  quoteBytes: count.default(16 * 2 ** 10),
  /** Max wait for a quote that another replica fetches. */
  lockWaitMs: count.default(3_000),
})

/**
 * Times and sizes that only tests set.
 *
 * @internal
 */
export type Limits = z.output<typeof limits>

/** JSON of the same limits, for tests of the program. */
export const testLimitsName = 'QUOTEGATE_TEST_LIMITS'

/** Throws a TypeError for wrong overrides. Undefined if `text`, from QUOTEGATE_TEST_LIMITS, is not JSON of limits. */
export function limitsOf(overrides: Partial<Limits>, text = '{}'): Limits | undefined {
  const { error } = limits.safeParse(overrides)
  if (error !== undefined)
    throw new TypeError(`createGateway: limits: ${z.prettifyError(error)}`)
  try {
    return limits.parse({
      ...overrides,
      ...z.record(z.string(), count).parse(JSON.parse(text)),
    })
  } catch {
    return undefined
  }
}
