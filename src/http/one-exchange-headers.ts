import { endToEndHeaders } from './headers.ts'
import { memoize } from './memoize.ts'

const caching = new Set([
  'age',
  'cache-control',
  'edge-control',
  'expires',
  'pragma',
  'surrogate-control',
  'x-accel-expires',
])

/**
 * Whether a header says how long a cache keeps the answer. A cache prefers the header that is meant for it, such as
 * CDN-Cache-Control, to our Cache-Control (RFC 9213 2.2).
 */
export function isCaching(lowerCaseName: string): boolean {
  return caching.has(lowerCaseName) || lowerCaseName.endsWith('-cache-control')
}

const ofOneExchange = new Set(
  `alt-svc b3 baggage cache-status cf-cache-status cf-ray cf-request-id content-length date
  fly-request-id nel proxy-status report-to request-id retry-after sentry-trace server-timing
  set-cookie set-cookie2 traceparent traceresponse tracestate uber-trace-id via x-amz-id-2 x-amz-request-id
  x-azure-ref x-cache x-cache-hits x-cloud-trace-context x-correlation-id x-envoy-upstream-service-time
  x-fastly-request-id x-ms-request-id x-rate-limit x-ratelimit x-request-id x-response-time x-runtime x-served-by
  x-timer x-vercel-id`.split(/\s+/),
)
const ofOneExchangePrefixes = [
  'ratelimit',
  'x-ratelimit-',
  'x-rate-limit-',
  'x-amz-cf-',
  'x-amzn-',
  'x-b3-',
  'x-trace',
  'x-datadog-',
]

/** Whether a header describes the one exchange that brought the answer, and would be false of a later one. */
const isOfOneExchange = memoize(
  (lowerCaseName) =>
    isCaching(lowerCaseName) ||
    ofOneExchange.has(lowerCaseName) ||
    ofOneExchangePrefixes.some((prefix) => lowerCaseName.startsWith(prefix)),
)

/** The headers that are as true of a later answer with the same body, or of another client's answer. */
export function repeatableHeaders(rawHeaders: readonly string[]): string[] {
  return endToEndHeaders(rawHeaders, isOfOneExchange)
}
