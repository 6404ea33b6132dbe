import { isZero, parseDecimal } from './decimal.ts'
import { foldPath, mayBeVersioned, percentDecode } from './fold-path.ts'
import { memoize } from './memoize.ts'
import type { AmountReading, Area, QuotePath, TargetReading } from './target.ts'
import { type UpstreamName, upstreamNames } from './upstreams.ts'

const guardedRoutes: { readonly [Each in Area]?: string } = {
  quote: '/v3/pairs/{pairId}/quotes',
  'float-order': '/v3/orders/float',
  order: '/v3/orders',
}

/** Undefined: no upstream has such paths. */
function upstreamOf(area: Area): UpstreamName | undefined {
  return area in guardedRoutes ? 'swap' : upstreamNames.find((name) => name === area)
}

const unsafePathByte = /[^\x21-\x7e]|\\/
const unsafeQueryByte = /[^\x21-\x7e\x80-\xff]|#/
const brokenEscape = /%(?![0-9A-Fa-f]{2})/
// Some routers also end a segment at an encoded slash, a backslash or ";" (Java's path parameters).
const dotSegment = /(?:^|\/|%2f|%5c)(?:\.|%2e){1,2}(?:$|[/;]|%2f|%5c|%3b)/i
// Routers trim or drop these: control characters, blanks of ASCII and Unicode, a BOM.
const encodedBlanks =
  /%(?:[01][0-9a-f]|20|7f|85|a0|c2%(?:85|a0)|e1%9a%80|e2%80%(?:8[0-9a-f]|a[89f])|e2%81%9f|e3%80%80|ef%bb%bf)/gi
const absoluteForm = /^https?:\/\/[^/?#]*/i

/**
 * Reads the raw target. What has two readings is refused: encoded dot segments bypass path filters. A
 * path that some router takes for a quote's or an order's counts as one.
 */
export function createAreaReader(
  pathsOf: Readonly<Record<UpstreamName, readonly string[]>>,
): (rawTarget: string) => TargetReading {
  /** The upstream of every path that belongs to no other upstream and is not a version of the swap API. */
  const catchAll = upstreamNames.find((name) => pathsOf[name].includes('/'))

  /** A path's area, or for a quote its pair. */
  function areaOf(path: string): Area | QuotePath {
    for (const name of upstreamNames) {
      if (name === catchAll || !pathsOf[name].some((prefix) => isUnder(path, prefix)))
        continue
      return name === 'swap' ? swapArea(path) : name
    }
    if (catchAll === undefined) return 'none'
    // One server may be behind both base URLs, and accept more spellings of /v3.
    const area = swapArea(path)
    if (area !== 'swap') return area
    // Only the swap API has versions: another one, or an odd spelling of /v3, is meant for no upstream.
    return mayBeVersioned(path) ? 'none' : catchAll
  }

  function prefixRoute(upstream: UpstreamName, path: string): string {
    return `${pathsOf[upstream].find((prefix) => isUnder(path, prefix)) ?? ''}/*`
  }

  /**
   * Memoized by path: a pair has few paths, but each amount its own target. Paths of pairs differ before their ends.
   */
  const readPath = memoize((path): PathReading => {
    if (unsafePathByte.test(path) || path.includes('#')) {
      return {
        problem:
          'The path holds a backslash, a "#", a control character or a non-ASCII byte.',
      }
    }
    if (brokenEscape.test(path))
      return { problem: 'The path holds a broken percent-escape.' }
    if (dotSegment.test(path) || dotSegment.test(withoutBlanks(path)))
      return { problem: 'The path holds a dot segment ("." or "..").' }
    const found = areaOf(path)
    const area = typeof found === 'string' ? found : 'quote'
    const quotePath = typeof found === 'string' ? undefined : found
    const upstream = upstreamOf(area)
    const route = guardedRoutes[area] ?? (upstream && prefixRoute(upstream, path))
    return { area, upstream, route, quotePath }
  }, pathEnd)

  return memoize((rawTarget): TargetReading => {
    if (rawTarget === '*') return { asterisk: true }
    const target = originForm(rawTarget)
    if (target === undefined)
      return { problem: 'The request target must begin with "/".' }
    const queryAt = target.indexOf('?')
    const path = queryAt === -1 ? target : target.slice(0, queryAt)
    const reading = readPath(path)
    if ('problem' in reading) return reading
    const query = queryAt === -1 ? '' : target.slice(queryAt + 1)
    // A query goes on byte for byte.
    if (unsafeQueryByte.test(query)) {
      return { problem: 'The query holds a control character or a "#".' }
    }
    const { area, upstream, route, quotePath } = reading
    const quote = quotePath && { ...quotePath, ...readAmount(query) }
    const rates = area === 'swap' ? readRates(path, query) : undefined
    return { target, path, area, upstream, quote, rates, route }
  })
}

const pathEnd = 32

type PathReading =
  | {
      area: Area
      upstream: UpstreamName | undefined
      route: string | undefined
      quotePath: QuotePath | undefined
    }
  | { problem: string }

// RFC 9112 3.2.2: a server must accept the absolute form. Only its path and query go on, so that its host chooses
// nothing.
function originForm(rawTarget: string): string | undefined {
  if (rawTarget.startsWith('/')) return rawTarget
  const authority = absoluteForm.exec(rawTarget)?.[0]
  // Express calls `url.parse`, which throws for some URLs.
  if (authority === undefined || !URL.canParse(authority)) return undefined
  const rest = rawTarget.slice(authority.length)
  return rest.startsWith('/') ? rest : `/${rest}`
}

function withoutBlanks(path: string): string {
  return path.includes('%') ? path.replace(encodedBlanks, '') : path
}

function isUnder(path: string, prefix: string): boolean {
  return (
    path.startsWith(prefix) &&
    (path.length === prefix.length || path[prefix.length] === '/')
  )
}

// A server in C ends a path at %00; one that decodes before it parses, at %23 and %3f.
const endOfText = /%(?:00|23|3f)/i

/** Every path that an upstream router may read this path as. */
function foldOrderPath(path: string): readonly string[] {
  const textEnd = path.search(endOfText)
  const texts = textEnd === -1 ? [path] : [path, path.slice(0, textEnd)]
  return texts.flatMap((text) =>
    foldPath(withoutBlanks(text).replaceAll('+', '')).map(withoutFormats),
  )
}

/**
 * Many routers read what follows a dot in the last segment as the answer's format, and drop a final dot. A segment that
 * is only a format is dropped, and the one before becomes the last.
 */
function withoutFormats(path: string): string {
  let rest = path
  for (;;) {
    const segment = rest.slice(rest.lastIndexOf('/') + 1)
    const dotAt = segment.indexOf('.')
    if (dotAt === -1) return rest
    const kept = rest.slice(0, rest.length - segment.length + dotAt)
    if (dotAt > 0) return kept
    rest = kept.slice(0, -1)
  }
}

function swapArea(path: string): Area | QuotePath {
  // Every path that a router could read as a quote's or an order's counts as one: no odd spelling bypasses the guard.
  // The target goes out unchanged.
  const quotePath = readQuotePath(path)
  if (quotePath !== undefined) return quotePath
  const readings = foldOrderPath(path).map((reading) => reading.toLowerCase())
  if (readings.includes('/v3/orders/float')) return 'float-order'
  if (readings.includes('/v3/orders')) return 'order'
  return 'swap'
}

const foldedPath = /^\/v3\/pairs\/([^/]+)\/quotes$/i

/** Reads a path that a router may read as a quote's; undefined if none may. */
function readQuotePath(path: string): QuotePath | undefined {
  for (const reading of foldPath(path)) {
    const pair = foldedPath.exec(reading)?.[1]
    if (pair === undefined) continue
    return path === `/v3/pairs/${pair}/quotes` ? { pair } : { pair, spelledPath: path }
  }
  return undefined
}

const ratesPath = /^\/v3\/pairs\/([^/]+)\/rates$/

/** Only the plain spelling: any other passes like the rest of the swap API. */
function readRates(path: string, query: string): (QuotePath & AmountReading) | undefined {
  const pair = ratesPath.exec(path)?.[1]
  return pair === undefined ? undefined : { pair, canonical: '', otherParameters: query }
}

/** `qs`, with which many upstreams read queries, takes these names as further values of `amount`. */
const arrayForm = /^(?:amount\[|\[amount\])/

/** Reads the amount out of a query, percent-decoded once. */
export function readAmount(query: string): AmountReading {
  let amount: string | undefined
  const others: string[] = []
  for (const part of query.split('&')) {
    // An empty part is not a parameter (WHATWG URL 5.1).
    if (part === '') continue
    const equals = part.indexOf('=')
    const name = percentDecode(equals === -1 ? part : part.slice(0, equals))
    if (name === 'amount') {
      if (amount !== undefined) return refuse('must be given once')
      amount = equals === -1 ? '' : percentDecode(part.slice(equals + 1))
      // Some upstreams read a plus as a blank, and perhaps "1e 21" as 1: a spelling with a plus has its own key.
      if (part.includes('+')) others.push(part)
    } else if (arrayForm.test(name)) {
      return refuse('must be given once, not as a list')
    } else {
      others.push(part)
    }
  }
  if (amount === undefined) return refuse('is missing')

  const canonical = parseDecimal(amount)
  if (canonical === undefined) return refuse(reasonAgainst(amount))
  if (isZero(canonical)) return refuse('must be greater than zero')
  return { canonical, otherParameters: others.join('&') }
}

function reasonAgainst(amount: string): string {
  if (amount === '') return 'is empty'
  if (amount.startsWith('-') && parseDecimal(amount.slice(1)) !== undefined)
    return 'must be greater than zero'
  return 'must be a decimal number such as 0.1 or 1e-7, with at most 80 digits and three digits of exponent'
}

function refuse(reason: string): AmountReading {
  return { problem: `The query parameter "amount" ${reason}.` }
}
