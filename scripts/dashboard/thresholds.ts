import { failingCalls } from '../../src/operations/thresholds.ts'

/** The numbers at which the rules of grafana/alerts.yml fire; a test compares the two. */
export const thresholds = {
  /** Of all requests: what objectives of 99.9 % allow, times the paces of the three pairs of windows. */
  errorsFast: 14.4 * 0.001,
  errorsSlowly: 6 * 0.001,
  errorsLong: 1 * 0.001,
  /** Of the quotes: the same with an objective of 99 %. */
  slowFast: 14.4 * 0.01,
  slowSlowly: 6 * 0.01,
  slowLong: 1 * 0.01,
  /** Of all requests. */
  brokenOffShare: 0.1,
  /** Of the requests of one route. */
  routeFailedShare: failingCalls.severe,
  /** Within five minutes, of one instance. */
  turnedAway: 5,
  /** Of the hit ratio of the last day. */
  hitRatioOfTheDay: 0.5,
  /** Of the calls for a quote. */
  noQuoteShare: failingCalls.severe,
  /** Of the float orders. */
  refusedShare: 0.2,
  /** Times the p95 of the last day, if it is half a second more as well. */
  slowerThanUsual: 2,
  /** Of the float orders, if it is twice the share of the last day as well. */
  unknownShare: 0.1,
  /** Of the float orders, whatever the last day was like. */
  unguardedShare: 0.5,
  clockOffsetSeconds: 2,
  /** Of clocks that are not known, breakers that are not closed, pairs that are stopped, damage of the journal. */
  none: 0,
  /** Of the quotes that the provider is asked for. */
  quotesLimited: 0.2,
  /** Of the last two minutes, for the store and for the journal on disk. */
  upShare: 0.5,
  /** Within a quarter of an hour. */
  restarts: 2,
  eventLoopLagSeconds: 0.1,
  /** Of the memory that the process may have. */
  memoryShare: 0.9,
  /** Of its file descriptors. */
  descriptorShare: 0.85,
}
