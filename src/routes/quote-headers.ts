import { headLines } from '../http/answer.ts'
import { headerValues } from '../http/headers.ts'
import type { Outcome } from '../server/exchange.ts'
import { wireName } from '../server/swap-headers.ts'

/** A list of headers, and the same as the lines of a head; undefined if Node would refuse to write one of them. */
interface WrittenHeaders {
  readonly list: readonly string[]
  readonly lines: string | undefined
}

interface HitHeaders extends WrittenHeaders {
  readonly lines: string
  readonly outcome: Outcome
}

interface QuoteHeaders {
  /** What a hit repeats of the headers that came with its quote. */
  replayed(received: readonly string[]): WrittenHeaders
  /** What a hit says of itself. */
  ofHit(ttl: number): HitHeaders
  /** The received headers of a quote that has just come, and what the gateway says of it. */
  ofAnswer(received: readonly string[], ttl: number, cacheStatus: string): string[]
}

/** `chosenBy`: the request headers, in lower case, that tell which quote a client gets. */
export function createQuoteHeaders(chosenBy: readonly string[]): QuoteHeaders {
  const withVary = createVary(chosenBy.map(wireName))
  /** Nearly all quotes share one list of headers. */
  const known = new WeakMap<readonly string[], WrittenHeaders>()
  let lastTtl = -1
  let lastHit: HitHeaders = { list: [], lines: '', outcome: { how: 'hit', cacheStatus: '' } }

  return {
    replayed(received) {
      const written = known.get(received)
      if (written !== undefined) return written
      const list = withVary(received)
      const replayed = { list, lines: headLines(list) }
      known.set(received, replayed)
      return replayed
    },
    // The headers of a hit are the same for every quote with as many seconds left.
    ofHit(ttl) {
      if (ttl === lastTtl) return lastHit
      const cacheStatus = `quotegate; hit; ttl=${ttl}`
      const list = ownHeaders(ttl, cacheStatus)
      lastHit = { list, lines: headLines(list) ?? '', outcome: { how: 'hit', cacheStatus } }
      lastTtl = ttl
      return lastHit
    },
    ofAnswer: (received, ttl, cacheStatus) => [...withVary(received), ...ownHeaders(ttl, cacheStatus)],
  }
}

function ownHeaders(ttl: number, cacheStatus: string): string[] {
  // Without Age beside it: max-age is what is left from now, and a cache would subtract Age once more.
  return ['Cache-Control', `private, max-age=${ttl}`, 'Cache-Status', cacheStatus]
}

/**
 * Adds names to the Vary of an answer (RFC 9110 12.5.5): its own members stay, on one line at the end, and none comes
 * twice. `Vary: *` stays as it is, because it says more than any name.
 */
export function createVary(names: readonly string[]): (headers: readonly string[]) => string[] {
  return (headers) => {
    const received = headerValues(headers, 'vary')
      .flatMap((line) => line.split(','))
      .map((member) => member.trim())
      .filter((member) => member !== '')
    if (received.includes('*')) return [...headers]
    const byLowerCase = new Map([...names, ...received].map((name) => [name.toLowerCase(), name]))
    const others = headers.filter((_, index) => headers[index - (index % 2)]?.toLowerCase() !== 'vary')
    return [...others, 'Vary', [...byLowerCase.values()].join(', ')]
  }
}
