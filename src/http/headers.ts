import { randomUUID } from 'node:crypto'
import { memoize } from './memoize.ts'

/** Answers without a body (RFC 9110 15.3.5 and 15.4.5). */
export const bodilessStatuses: ReadonlySet<number> = new Set([204, 304])

/**
 * Hop-by-hop headers of both directions (RFC 9110 7.6.1). Headers travel as Node's and undici's flat raw list, so that
 * order, case and duplicates survive.
 */
const hopByHop = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
])

// Connection must not remove these: a caller could choose the host, the framing or the address that the upstream
// believes (CVE-2021-33197 of the Go reverse proxy), or send an order again without its key.
const neverNominated = new Set([
  'host',
  'content-length',
  'transfer-encoding',
  'user-agent',
  'authorization',
  'forwarded',
  'via',
  'idempotency-key',
])

/** Messages use the same few names. */
const knownName = memoize((name) => {
  const lowerCaseName = name.toLowerCase()
  return { lowerCaseName, ofThisHop: hopByHop.has(lowerCaseName) }
})

/** The headers that Connection names, except `neverNominated`; undefined if there are none. */
export function nominatedIn(
  connectionLines: string | undefined,
): Set<string> | undefined {
  // Nearly every message has one of these values, and needs no set.
  if (
    connectionLines === undefined ||
    connectionLines === 'keep-alive' ||
    connectionLines === 'close'
  )
    return undefined
  let nominated: Set<string> | undefined
  for (const part of connectionLines.split(/[,\n]/)) {
    const option = part.trim().toLowerCase()
    if (option === '' || option === 'keep-alive' || option === 'close') continue
    if (neverNominated.has(option) || option.startsWith('app-')) continue
    nominated ??= new Set()
    nominated.add(option)
  }
  return nominated
}

/**
 * The end-to-end headers, except what `drops` names. `drops` gets names in lower case, and only of headers that would
 * be kept.
 */
export function endToEndHeaders(
  rawHeaders: readonly string[],
  drops: (lowerCaseName: string) => boolean,
): string[] {
  const nominated = nominatedIn(headerLines(rawHeaders, 'connection'))
  const kept: string[] = []
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] as string
    const { lowerCaseName, ofThisHop } = knownName(name)
    if (ofThisHop || nominated?.has(lowerCaseName) || drops(lowerCaseName)) continue
    kept.push(name, rawHeaders[index + 1] as string)
  }
  return kept
}

/** RFC 9110 8.6: a 1xx or 204 has no length, but some upstreams send one. */
export function answerHeaders(
  status: number,
  rawHeaders: readonly string[],
  drops: (lowerCaseName: string) => boolean = dropsNothing,
): string[] {
  const dropsMore =
    status < 200 || status === 204
      ? (name: string) => name === 'content-length' || drops(name)
      : drops
  return endToEndHeaders(rawHeaders, dropsMore)
}

const dropsNothing = () => false

/** app-name as App-Name: people read names in logs. */
export function wireName(lowerCaseName: string): string {
  return lowerCaseName.replace(/(^|-)[a-z]/g, (start) => start.toUpperCase())
}

/** CGI and WSGI servers read "_" as "-". */
const asCgiReads = (name: string) =>
  name.includes('_') ? name.replaceAll('_', '-') : name

/** Drops these names, however "-" is spelled, and every header that `also` accepts. */
export function droppingNames(
  lowerCaseNames: Iterable<string>,
  also: (lowerCaseName: string) => boolean = dropsNothing,
): (lowerCaseName: string) => boolean {
  const names = new Set([...lowerCaseNames].map(asCgiReads))
  return (lowerCaseName) => names.has(asCgiReads(lowerCaseName)) || also(lowerCaseName)
}

/** Adds the length of an answer that was read whole, if its upstream stated none. */
export function addLength(
  headers: string[],
  { status, body }: { status: number; body: Buffer },
): void {
  if (
    bodilessStatuses.has(status) ||
    headerLines(headers, 'content-length') !== undefined
  )
    return
  headers.push('Content-Length', String(body.length))
}

/** X-Request-Id, unless the upstream sent one. */
export function ownRequestId(received: readonly string[], id: string): readonly string[] {
  return headerLines(received, 'x-request-id') === undefined ? ['X-Request-Id', id] : []
}

/** Joins the lines of one header: no header line holds a line break. */
export const lineBreak = '\n'

export function headerValues(
  rawHeaders: readonly string[],
  lowerCaseName: string,
): string[] {
  const values: string[] = []
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] as string
    if (name.length === lowerCaseName.length && name.toLowerCase() === lowerCaseName) {
      values.push(rawHeaders[index + 1] as string)
    }
  }
  return values
}

/** All lines of one header, mostly its only one; undefined if there is none. */
export function headerLines(
  rawHeaders: readonly string[],
  lowerCaseName: string,
): string | undefined {
  let lines: string | undefined
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] as string
    if (name.length !== lowerCaseName.length || name.toLowerCase() !== lowerCaseName)
      continue
    const value = rawHeaders[index + 1] as string
    lines = lines === undefined ? value : lines + lineBreak + value
  }
  return lines
}

/** Returns the lines in the order of the names. */
export function linesOf(
  rawHeaders: readonly string[],
  lowerCaseNames: readonly string[],
): (string | undefined)[] {
  return lowerCaseNames.map((name) => headerLines(rawHeaders, name))
}

/** Returns the same list again for equal lists: most quotes of a provider have the same headers. */
export function createOneList(): (list: readonly string[]) => readonly string[] {
  let last: readonly string[] = []
  return (list) => {
    const same =
      list.length === last.length && list.every((part, at) => part === last[at])
    if (!same) last = list
    return last
  }
}

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
 * Whether a header tells caches how long to keep an answer. A cache prefers a header that targets it, such as
 * CDN-Cache-Control, to our Cache-Control (RFC 9213 2.2).
 */
export function isCaching(lowerCaseName: string): boolean {
  return cachingHeaders.has(lowerCaseName) || lowerCaseName.endsWith('-cache-control')
}

const ofOneCaller = new Set(
  `b3 baggage cf-ray cf-request-id fly-request-id request-id sentry-trace set-cookie set-cookie2 traceparent
  traceresponse tracestate uber-trace-id x-amz-id-2 x-amz-request-id x-azure-ref x-cloud-trace-context
  x-correlation-id x-fastly-request-id x-ms-request-id x-request-id x-vercel-id`.split(
    /\s+/,
  ),
)
const ofOneCallerPrefixes = ['x-amz-cf-', 'x-amzn-', 'x-b3-', 'x-trace', 'x-datadog-']

/** Whether a header is about one request or its caller: the request's id, its trace, the address of its user. */
const isOfOneCaller = memoize(
  (lowerCaseName) =>
    ofOneCaller.has(lowerCaseName) ||
    claimsClientAddress(lowerCaseName) ||
    ofOneCallerPrefixes.some((prefix) => lowerCaseName.startsWith(prefix)),
)

const ofOneExchange = new Set(
  `alt-svc cache-status cf-cache-status content-length date nel proxy-status report-to retry-after server-timing via
  x-cache x-cache-hits x-envoy-upstream-service-time x-rate-limit x-ratelimit x-response-time x-runtime x-served-by
  x-timer`.split(/\s+/),
)
const ofOneExchangePrefixes = ['ratelimit', 'x-ratelimit-', 'x-rate-limit-']

/** Whether a header would be false in a later answer. */
const isOfOneExchange = memoize(
  (lowerCaseName) =>
    isOfOneCaller(lowerCaseName) ||
    isCaching(lowerCaseName) ||
    ofOneExchange.has(lowerCaseName) ||
    ofOneExchangePrefixes.some((prefix) => lowerCaseName.startsWith(prefix)),
)

/** Headers that remain true in a later answer with the same body, to any caller. */
export function repeatableHeaders(rawHeaders: readonly string[]): string[] {
  return endToEndHeaders(rawHeaders, isOfOneExchange)
}

/** Headers of a shared answer, for a caller whose request did not make the call. */
export function othersHeaders(rawHeaders: readonly string[]): string[] {
  return endToEndHeaders(rawHeaders, isOfOneCaller)
}

/** Every header that claims a user's address, in lower case; `x-forwarded-…` is matched by its prefix. */
export const clientAddressHeaders: ReadonlySet<string> = new Set(
  `forwarded forwarded-for x-forwarded x-original-forwarded-for x-vercel-forwarded-for x-vercel-proxied-for
  x-real-ip x-client-ip client-ip x-cluster-client-ip proxy-client-ip wl-proxy-client-ip x-proxyuser-ip
  true-client-ip x-true-client-ip fastly-client-ip fly-client-ip incap-client-ip x-nf-client-connection-ip
  cf-connecting-ip cf-connecting-ipv6 cf-pseudo-ipv4 do-connecting-ip cloudfront-viewer-address
  x-azure-clientip x-azure-socketip x-sucuri-clientip x-appengine-user-ip x-envoy-external-address
  ali-cdn-real-ip cdn-src-ip x-host-ip x-originating-ip x-remote-ip x-remote-addr`.split(
    /\s+/,
  ),
)

export const claimsClientAddress = memoize((lowerCaseName) => {
  const name = asCgiReads(lowerCaseName)
  return clientAddressHeaders.has(name) || name.startsWith('x-forwarded-')
})

/** Most header names are shorter, and need not be lowercased. */
const shortestClientAddressHeader = Math.min(
  ...[...clientAddressHeaders].map((name) => name.length),
)

/** The names of headers that claim a user's address, as spelled. */
export function claimingHeaders(rawHeaders: readonly string[]): string[] {
  const claiming: string[] = []
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] as string
    if (name.length < shortestClientAddressHeader) continue
    if (claimsClientAddress(name.toLowerCase())) claiming.push(name)
  }
  return claiming
}

/** The trace of the caller. */
interface TraceParent {
  readonly traceId: string
  readonly spanId: string
  readonly sampled: boolean
}

// Version ff is invalid. Later versions may have more after the flags. Several lines are invalid, too.
const traceparentForm =
  /^(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-[^\n]*)?$/
const lengthOfVersion00 = 55
const [noTrace, noSpan] = ['0'.repeat(32), '0'.repeat(16)]

/** W3C Trace Context 3.2; undefined: the request is in no trace. */
export function readTraceparent(rawHeaders: readonly string[]): TraceParent | undefined {
  const lines = headerLines(rawHeaders, 'traceparent')
  const read = lines === undefined ? null : traceparentForm.exec(lines)
  if (read === null) return undefined
  const [, version, traceId = '', spanId = '', flags = ''] = read
  if (traceId === noTrace || spanId === noSpan) return undefined
  if (version === '00' && lines?.length !== lengthOfVersion00) return undefined
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 }
}

export function formatTraceparent({ traceId, spanId, sampled }: TraceParent): string {
  return `00-${traceId}-${spanId}-0${sampled ? 1 : 0}`
}

/** Sixteen hexadecimal digits, not all 0: this half of a random UUID begins with 8, 9, a or b. */
export function newSpanId(): string {
  return randomUUID().slice(19).replace('-', '')
}

/**
 * A header with this value may arrive as either text: Node reads each byte as one character, and people write UTF-8.
 */
export function readingsOf(value: string): readonly string[] {
  return [value, Buffer.from(value).toString('latin1')]
}
