import { z } from 'zod'

const count = z.int().min(0)

/** @internal */
export const limits = z.strictObject({
  /** Time to connect to an upstream, TLS included. */
  connectTimeoutMs: count.default(3_000),
  /** The longest pause in an upstream's answer, and the longest time that a client may not read it. */
  bodyTimeoutMs: count.default(30_000),
  /**
   * Requests that wait for a connection of one upstream; float orders have as many places of their own. Default: eight
   * times UPSTREAM_CONNECTIONS.
   */
  queue: count.optional(),
  /**
   * How long a request, and a float order, waits for a free connection. Most callers give up after 5 s. A request that
   * waited for most of that time would take the connection of a caller who still waits.
   */
  waitMs: count.default(1_000),
  floatOrderWaitMs: count.default(2_000),
  /** Retries of requests that cannot have reached the upstream, and of a GET or HEAD whose connection broke. */
  retries: count.default(1),
  /** A breaker opens after this many failures in a row. */
  breakerFailures: count.default(5),
  breakerOpenMs: count.default(5_000),
  /** Time for a client's request head. */
  headTimeoutMs: count.default(10_000),
  /** The longest pause in a client's request body. */
  bodyIdleTimeoutMs: count.default(30_000),
  /** How many bytes all quotes in memory may take. */
  cacheBytes: count.default(64 * 2 ** 20),
  /** Max bytes of one quote. A larger one is relayed and not kept. */
  quoteBytes: count.default(16 * 2 ** 10),
  /** How long to wait for a quote that another replica fetches. */
  lockWaitMs: count.default(3_000),
})

/**
 * Times and sizes that no operator sets, and tests do.
 * @internal
 */
export type Limits = z.output<typeof limits>

/** JSON of the same limits, by which the program's own tests replace the override `limits` of createGateway. */
export const testLimitsName = 'QUOTEGATE_TEST_LIMITS'

/**
 * Throws a TypeError for wrong overrides. Undefined if `text`, the value of QUOTEGATE_TEST_LIMITS, is not JSON of
 * limits.
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
