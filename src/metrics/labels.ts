import { notKeptReasons, type StoreOutcome } from '../events.ts'
import type { Area } from '../http/target.ts'
import type { FloatOrderDecision, GuardRule, Verdict } from '../orders/guard.ts'
import type { CallOutcome } from '../upstream/fault.ts'
import { by, cross, type Labels } from './series.ts'

// Labels of series, and bounds of histograms.

export const methods = [
  'GET',
  'HEAD',
  'POST',
  'PUT',
  'PATCH',
  'DELETE',
  'OPTIONS',
  'other',
] as const
/** The class of a status, by its first digit. 0: the caller left, or the answer broke off. */
export const statusClasses = {
  0: 'aborted',
  2: '2xx',
  3: '3xx',
  4: '4xx',
  5: '5xx',
} as const
/** Only requests to the swap API are limited. */
export const limitedAreas = [
  'quote',
  'float-order',
  'order',
  'swap',
] as const satisfies readonly Area[]

/**
 * The bounds go from a hit, a fraction of a millisecond, to the timeouts of upstreams. Both metrics of durations end at
 * one bound: they are compared, and quantiles past the last bound are drawn at it.
 */
export const durationBounds = [
  0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5,
  10, 15, 30,
]

/** The label of pairs that METRICS_PAIRS does not name. */
export const otherPair = 'other'

/** Codes that a label may have: the provider's own, where their meaning is known or plain. */
export const providerCodes = [
  'RESTRICTED_GEOLOCATION',
  'AMOUNT_TOO_LOW',
  'AMOUNT_TOO_HIGH',
  'AMOUNT_TOO_SMALL',
  'INVALID_AMOUNT',
  'PAIR_NOT_FOUND',
  'PAIR_UNAVAILABLE',
  'INSUFFICIENT_LIQUIDITY',
  'NO_LIQUIDITY',
  'BAD_REQUEST',
  'NOT_FOUND',
  'UNAUTHORIZED',
  'FORBIDDEN',
  'MISSING_APP_NAME',
  'RATE_LIMITED',
  'TOO_MANY_REQUESTS',
  'MAINTENANCE',
  'SERVICE_UNAVAILABLE',
  'INTERNAL_ERROR',
  'INTERNAL_SERVER_ERROR',
]

/** Answers not kept for these reasons are errors, which may have a code. A 429 is `limited`. */
const errorReasons = ['status', 'limited', 'not-a-quote'] as const
const errorCodes = [...providerCodes, 'other', 'none']

/** Answers that are not kept, by reason and, for errors, by code. */
export const notKept: Readonly<Record<string, Labels>> = {
  ...cross(by('reason', notKeptReasons), by('code', ['none'])),
  ...cross(by('reason', errorReasons), by('code', errorCodes)),
}

/** Most quotes live for about half a minute. A life of over a day is not trusted. */
export const lifeBounds = [0.5, 1, 2, 5, 10, 15, 20, 25, 30, 45, 60, 120, 300, 900, 3_600]
export const ageBounds = [0.1, 0.5, 1, 2, 5, 10, 15, 20, 25, 30, 45, 60, 120, 300, 900]
export const decisions: Readonly<Record<FloatOrderDecision, Labels>> = {
  'forwarded-live': { decision: 'forwarded', reason: 'live' },
  'forwarded-unknown': { decision: 'forwarded', reason: 'unknown' },
  'refused-expired': { decision: 'refused', reason: 'expired' },
  'refused-unknown': { decision: 'refused', reason: 'unknown' },
  'reported-expired': { decision: 'reported', reason: 'expired' },
}

/** The states that each rule of orders/guard.ts can find. */
export const statesByRule: Readonly<Record<GuardRule, readonly Verdict['state'][]>> = {
  id: ['live', 'expired', 'unknown'],
  exact: ['live', 'expired'],
  pays: ['live'],
  fallen: ['expired'],
  any: ['live'],
  none: ['expired', 'unknown'],
  unreadable: ['unknown'],
  'store-away': ['unknown'],
  restored: ['unknown'],
}

const neverSent = ['connection_limit_reached', 'breaker_open'] as const
/** Calls that took none of the upstream's time. */
export const refusals: readonly CallOutcome[] = neverSent
export const outcomes = [
  'answered',
  'failed-status',
  'given-up',
  'connection_refused',
  'connection_timeout',
  'connection_terminated',
  'destination_unavailable',
  'dns_error',
  'tls_certificate_error',
  'tls_protocol_error',
  'http_response_timeout',
  'http_response_incomplete',
  'http_response_body_size',
  'http_protocol_error',
  ...neverSent,
] as const satisfies readonly CallOutcome[]

/**
 * From 0.5 s on, neighbouring bounds differ by less than a factor of two: QuotegateProviderSlow fires at twice the
 * usual p95.
 */
export const callBounds = [
  0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2.5, 4, 5, 7.5, 10, 15, 25, 30,
]

export const storeOutcomes = [
  'ok',
  'failed',
  'timeout',
  'skipped',
] as const satisfies readonly StoreOutcome[]
/** The bounds go from a server next door to the longest likely VALKEY_TIMEOUT_MS. */
export const storeBounds = [
  0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
]
