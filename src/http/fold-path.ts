// Path parameters, which Java servers take off before they route.
const pathParameters = /(?:;|%3b)[^/]*/gi
// Servers that decode before they route (WSGI) take %2f as "/"; some also take a backslash (IIS).
const encodedSlash = /%(?:2f|5c)/gi
const unreservedEscape = /%(?:2[dDeE]|3[0-9]|[46][1-9a-fA-F]|[57][0-9aA]|5[fF]|7[eE])/g
const mayFold = /[%;]|\/\//

/**
 * Every path that a router might read this path as, the least changed first. Case is kept: a router that
 * ignores it in its own segments keeps it in a value such as a pair.
 */
export function foldPath(path: string): readonly string[] {
  if (!mayFold.test(path)) return [joined(path)]
  const unescaped = withoutEscapes(path)
  const bare = unescaped.replace(pathParameters, '')
  // Path parameters end at a slash, which some servers look for before they decode %2F, others after.
  const early = withoutEscapes(path.replace(pathParameters, '')).replace(
    encodedSlash,
    '/',
  )
  const late = unescaped.replace(encodedSlash, '/').replace(pathParameters, '')
  return [unescaped, bare, late, early.replace(pathParameters, '')].map(joined)
}

function withoutEscapes(path: string): string {
  return path.replace(unreservedEscape, (escaped) =>
    String.fromCharCode(Number.parseInt(escaped.slice(1), 16)),
  )
}

/** Without empty segments. */
function joined(path: string): string {
  const single = path.replace(/\/{2,}/g, '/')
  return single.endsWith('/') ? single.slice(0, -1) : single
}

const versionSegment = /^\/v\d+(?:[./]|$)/i

/** Whether a router may read the path as one below `/v<number>`: /v3, /V4/x, //v4.1, /%76%34;a=b. */
export function mayBeVersioned(path: string): boolean {
  return foldPath(path).some((reading) => versionSegment.test(reading))
}

/**
 * One name for all spellings of a pair that routers may read alike: unescaped, without path parameters, in capitals.
 * Only for counting: two pairs may share it.
 */
export function foldPair(pair: string): string {
  return percentDecode(pair).replace(/;.*$/s, '').toUpperCase()
}

/**
 * Decodes each byte by itself, so that it never throws. Only ASCII matters, and a byte above 7F never becomes ASCII.
 */
export function percentDecode(text: string): string {
  if (!text.includes('%')) return text
  return text.replaceAll(/%([0-9A-Fa-f]{2})/g, (_escape, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  )
}
