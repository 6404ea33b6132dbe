import type { SettingProblem } from './parse.ts'

/** Times and sizes that no operator sets. */
export interface Limits {
  /** For a connection to an upstream, TLS included. */
  connectTimeoutMs: number
  /** The longest pause in an upstream's answer, and the longest time for which a client may stop reading it. */
  bodyTimeoutMs: number
  /** Requests that wait for a connection of one upstream; float orders have as many places of their own. */
  queue: number
  /** For requests that cannot have reached the upstream, and for a GET or HEAD whose connection broke. */
  retries: number
  /** In a row, after which a breaker opens. */
  breakerFailures: number
  breakerOpenMs: number
  /** For a client's request head. */
  headTimeoutMs: number
  /** The longest pause in a client's request body. */
  bodyIdleTimeoutMs: number
  /** Of all quotes in memory. */
  cacheBytes: number
  /** Of one quote; a larger one is relayed and not kept. */
  quoteBytes: number
  /** For a quote that another replica fetches. */
  lockWaitMs: number
}

export function limitsOf(
  { UPSTREAM_CONNECTIONS: connections }: { UPSTREAM_CONNECTIONS: number },
  overrides: Partial<Limits>,
): Limits {
  return {
    connectTimeoutMs: 3_000,
    bodyTimeoutMs: 30_000,
    queue: 8 * connections,
    retries: 1,
    breakerFailures: 5,
    breakerOpenMs: 5_000,
    headTimeoutMs: 10_000,
    bodyIdleTimeoutMs: 30_000,
    cacheBytes: 64 * 2 ** 20,
    quoteBytes: 16 * 2 ** 10,
    lockWaitMs: 3_000,
    ...overrides,
  }
}

/** What the program's own tests set in place of the override `limits` of createGateway: JSON of the same. */
export const testLimitsName = 'QUOTEGATE_TEST_LIMITS'

export function readTestLimits(text: string | undefined): {
  limits: Partial<Limits>
  warnings: string[]
  problems: SettingProblem[]
} {
  if (text === undefined) return { limits: {}, warnings: [], problems: [] }
  const limits = parseLimits(text)
  if (limits === undefined) {
    const expected = 'not set; it is for the tests of quotegate itself'
    return { limits: {}, warnings: [], problems: [{ name: testLimitsName, value: '****', expected }] }
  }
  const warning = `${testLimitsName} is set, which is for the tests of quotegate itself: remove it.`
  return { limits, warnings: [warning], problems: [] }
}

function parseLimits(text: string): Partial<Limits> | undefined {
  const known = limitsOf({ UPSTREAM_CONNECTIONS: 1 }, {})
  try {
    const given: unknown = JSON.parse(text)
    if (typeof given !== 'object' || given === null || Array.isArray(given)) return undefined
    const isLimit = ([name, value]: [string, unknown]) =>
      Object.hasOwn(known, name) && Number.isSafeInteger(value) && (value as number) >= 0
    return Object.entries(given).every(isLimit) ? given : undefined
  } catch {
    return undefined
  }
}
