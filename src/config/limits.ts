import { z } from 'zod'

const count = z.int().min(0)

/** @internal */
export const limits = z.strictObject({
  /** For a connection to an upstream, TLS included. */
  connectTimeoutMs: count.default(3_000),
  /** The longest pause in an upstream's answer, and the longest time for which a client may stop reading it. */
  bodyTimeoutMs: count.default(30_000),
  /**
   * Requests that wait for a connection of one upstream; float orders have as many places of their own. Eight times
   * UPSTREAM_CONNECTIONS, if not given.
   */
  queue: count.optional(),
  /**
   * For a connection to be free; and the same of a float order. Most callers give up after 5 s. What waited for most of
   * that time would take the connection of one that still waits for its answer.
   */
  waitMs: count.default(1_000),
  floatOrderWaitMs: count.default(2_000),
  /** For requests that cannot have reached the upstream, and for a GET or HEAD whose connection broke. */
  retries: count.default(1),
  /** In a row, after which a breaker opens. */
  breakerFailures: count.default(5),
  breakerOpenMs: count.default(5_000),
  /** For a client's request head. */
  headTimeoutMs: count.default(10_000),
  /** The longest pause in a client's request body. */
  bodyIdleTimeoutMs: count.default(30_000),
  /** How much all quotes in memory may take. */
  cacheBytes: count.default(64 * 2 ** 20),
  /** How long one quote may be. A larger one is relayed and not kept. */
  quoteBytes: count.default(16 * 2 ** 10),
  /** For a quote that another replica fetches. */
  lockWaitMs: count.default(3_000),
})

/**
 * Times and sizes that no operator sets, and tests do.
 * @internal
 */
export type Limits = z.output<typeof limits>

/** What the program's own tests set in place of the override `limits` of createGateway: JSON of the same. */
export const testLimitsName = 'QUOTEGATE_TEST_LIMITS'

/**
 * Throws a TypeError for wrong overrides. Undefined if `text`, which is what that name has in the environment, is not
 * JSON of limits.
 */
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
