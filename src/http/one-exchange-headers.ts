import { endToEndHeaders } from './headers.ts'
import { memoize } from './memoize.ts'

const cachingHeaders = new Set([
  'age',
  'cache-control',
  'edge-control',
  'expires',
  'pragma',
  'surrogate-control',
  'x-accel-expires',
])

/**
 * Whether a header tells caches how long to keep the answer. A cache prefers a header that targets it, such as
 * CDN-Cache-Control, to our Cache-Control (RFC 9213 2.2).
 */
export function isCaching(lowerCaseName: string): boolean {
  return cachingHeaders.has(lowerCaseName) || lowerCaseName.endsWith('-cache-control')
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

/** Whether a header describes only the exchange that brought the answer, and would be false in a later answer. */
const isOfOneExchange = memoize(
  (lowerCaseName) =>
    isCaching(lowerCaseName) ||
    ofOneExchange.has(lowerCaseName) ||
    ofOneExchangePrefixes.some((prefix) => lowerCaseName.startsWith(prefix)),
)

/** The headers that remain true in a later answer with the same body, to the same client or another. */
export function repeatableHeaders(rawHeaders: readonly string[]): string[] {
  return endToEndHeaders(rawHeaders, isOfOneExchange)
}
