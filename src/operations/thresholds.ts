/**
 * From which share of its calls an upstream is said to fail. The page goes by these numbers, and `npm run docs` writes
 * them into the rules QuotegateNoQuotes and QuotegateRouteFails of grafana/alerts.yml.
 */
export const failingCalls = {
  notable: 0.1,
  severe: 0.5,
  /** More calls than this must have failed, because one failure of three does not make an outage. */
  minFailures: 5,
  /** Quotes that are not kept for these reasons can be used by the clients that asked for them. */
  usableReasons: ['content-coding', 'vary', 'too-large', 'used'],
} as const
