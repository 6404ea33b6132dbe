import { durationText } from '../operations/outages.ts'
import type { CountedFailure } from '../upstream/types.ts'

/** How a request failed, as a person says it: `503`, `connection refused`, `timeout after 10 s`. */
export function failureText(failure: CountedFailure, afterMs: number): string {
  switch (failure) {
    case 'http_response_timeout':
      return `timeout after ${durationText(afterMs)}`
    case 'connection_timeout':
      return `connection timeout after ${durationText(afterMs)}`
    case 'connection_limit_reached':
      return 'no free connection'
    default:
      return String(failure)
        .replaceAll('_', ' ')
        .replace(/^(dns|http|tls) /, (name) => name.toUpperCase())
  }
}
