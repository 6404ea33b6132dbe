import { z } from 'zod'
import { mayBeVersioned } from '../http/fold-path.ts'
import { claimsClientAddress } from '../http/forwarded.ts'
import { namedBlocks, parseAddressBlock } from '../http/ip-address.ts'
import { canonicalHost, isHost } from './host-name.ts'
import { readProxyUrl } from './proxy-url.ts'
import { readStoreUrl } from './store-url.ts'

// Each schema reads trimmed text; its error says what would be right. No error may repeat a whole value: display.ts
// masks values, and an error that repeats one would bypass the mask.

export const anyText = z.string()

const maxTimeMs = 86_400_000

export function wholeNumber(minimum: number, maximum: number, unit = '') {
  const expected = `a whole number${unit} from ${minimum} to ${maximum}, in plain digits`
  return z
    .string()
    .regex(/^\d{1,15}$/, expected)
    .transform(Number)
    .pipe(z.number().min(minimum, expected).max(maximum, expected))
}

export function milliseconds(minimum = 1) {
  return wholeNumber(minimum, maxTimeMs, ' of milliseconds')
}

export const port = z
  .string()
  // Kubernetes sets ADMIN_PORT=tcp://10.0.0.1:80 in every pod beside a service named "admin".
  .refine((text) => !/^(?:tcp|udp|sctp):\/\//.test(text), {
    error: "a port number; this one was set by Kubernetes' service links (enableServiceLinks: false)",
    abort: true,
  })
  .pipe(wholeNumber(0, 65535))

export function oneOf<const Choice extends string>(choices: readonly Choice[]) {
  return z
    .string()
    .toLowerCase()
    .pipe(z.enum(choices, `one of ${choices.join(', ')}`))
}

const switchWords: Readonly<Record<string, string>> = { true: 'on', 1: 'on', false: 'off', 0: 'off' }

export const accessLog = z
  .string()
  .transform((text) => switchWords[text.toLowerCase()] ?? text)
  .pipe(oneOf(['off', 'orders', 'on']))

export const host = z
  .string()
  .transform((text) => text.replace(/^\[(.*)\]$/, '$1'))
  .refine(
    isHost,
    'an IP address or host name to listen on, such as 127.0.0.1, :: or localhost, without a port',
  )

export function readBaseUrl(text: string): { url: string } | { expected: string } {
  const form = 'an http or https URL such as https://api.example.com/prefix'
  if (!/^https?:\/\/[^/\s\\]/i.test(text) || /[\s\\]/.test(text)) return { expected: form }
  if (/[?#]/.test(text)) return { expected: `${form}, without query and fragment` }
  if (/^https?:\/\/[^/]*@/i.test(text))
    return { expected: `${form}, without user and password (SWAP_AUTHORIZATION is for keys)` }
  if (/\/(\.|%2e){1,2}(\/|$)/i.test(text)) return { expected: `${form}, without dot segments` }
  if (!URL.canParse(text)) return { expected: form }
  const { hostname, origin, pathname, port: portText } = new URL(text)
  // `URL` accepts more than host names: two URLs with a comma between them parse as one host and a path.
  if (!isHost(hostname.replace(/^\[|\]$|\.$/g, ''))) return { expected: form }
  if (portText === '0') return { expected: `${form}, with a port that can be connected to` }
  return { url: origin + pathname.replace(/\/+$/, '') }
}

export const baseUrl = z.string().transform((text, context) => {
  const result = readBaseUrl(text)
  if ('url' in result) return result.url
  context.addIssue(result.expected)
  return z.NEVER
})

export const baseUrlOrSandbox = z.string().transform((text, context) => {
  if (text.toLowerCase() === 'sandbox') return 'sandbox'
  const result = readBaseUrl(text)
  if ('url' in result) return result.url
  context.addIssue(`${result.expected}; or, outside production, sandbox`)
  return z.NEVER
})

export const storeUrl = z.string().transform((url, context) => {
  const address = readStoreUrl(url)
  if (!('expected' in address)) return { url, address }
  context.addIssue(address.expected)
  return z.NEVER
})

export const proxyUrl = z.string().transform((url, context) => {
  const address = readProxyUrl(url)
  if (!('expected' in address)) return { url, address }
  context.addIssue(address.expected)
  return z.NEVER
})

/** Without braces: a Cluster would put all keys with the same braces on one server. */
export const keyPrefix = z
  .string()
  .regex(/^[\w.:/-]{1,64}$/, 'at most 64 letters, digits and . : / _ -, such as quotegate: or staging:')

/** systemd joins several directories with colons in a variable of this form. A drive of Windows has one, too. */
export const directory = z
  .string()
  .regex(/^(?:[A-Za-z]:[\\/])?[^:\0]+$/, 'the path of one directory, such as /var/lib/quotegate')

export const filePath = z.string().regex(/^[^\0]+$/, 'the path of a file')

/** A comma-separated list. `problem` continues a sentence that begins with the wrong entry, such as "ends with /". */
function list(expected: string, problem: (entry: string) => string | undefined) {
  return z.string().transform((text, context): readonly string[] => {
    const parts = text.split(',').map((part) => part.trim())
    const entries = [...new Set(parts.filter((part) => part !== ''))]
    const wrong = entries.flatMap((entry) => {
      const reason = problem(entry)
      return reason === undefined ? [] : [`${JSON.stringify(entry.slice(0, 60))} ${reason}`]
    })
    if (wrong.length > 0) context.addIssue(`${expected} (${wrong.slice(0, 5).join('; ')})`)
    if (entries.length === 0) context.addIssue(`${expected}, with at least one entry`)
    return entries
  })
}

function pathProblem(path: string): string | undefined {
  if (path === '/') return undefined
  if (!path.startsWith('/')) return 'does not start with /'
  if (path.endsWith('/')) return 'ends with /'
  if (!/^(\/[\w\-.~!$&'()*+;=:@]+)+$/.test(path))
    return 'may only have plain path segments: no //, %, query or spaces'
  if (/\/\.\.?(\/|$)/.test(path)) return 'has a dot segment'
  if (/^\/(v3|webhooks)(\/|$)/.test(path)) return 'goes to another upstream'
  if (mayBeVersioned(path)) return 'is a version: only /v3 is relayed, to the swap API'
  return undefined
}

export const pathPrefixes = list(
  'a comma-separated list of path prefixes such as /checkouts,/refunds',
  pathProblem,
)

function proxyProblem(entry: string): string | undefined {
  if (namedBlocks.has(entry.toLowerCase())) return undefined
  const block = parseAddressBlock(entry)
  return 'problem' in block ? block.problem : undefined
}

export const trustedProxies = list(
  `a comma-separated list of addresses, CIDRs or ${[...namedBlocks.keys()].join(', ')}`,
  proxyProblem,
).transform((entries) => [...new Set(entries.map((entry) => entry.toLowerCase()))])

// Headers with another meaning, which no proxy uses for a client's address or place.
const otherHeaders = new Set(
  `accept accept-encoding accept-language app-name app-version authorization cache-control connection
  content-encoding content-length content-type cookie date expect host http2-settings idempotency-key
  keep-alive max-forwards origin pragma proxy-authorization proxy-connection range referer set-cookie te
  traceparent tracestate trailer transfer-encoding upgrade user-agent via x-forwarded-host x-forwarded-port
  x-forwarded-proto x-request-id`.split(/\s+/),
)

const headerNamePattern = /^[a-z0-9!#$%&'*+.^_`|~-]{1,100}$/

/** The gateway removes these headers from swap requests: one with another meaning (content-type) would be lost. */
export const placeHeaders = list(
  'a comma-separated list of header names such as cf-ipcountry, which together name one place',
  (name) => {
    if (!headerNamePattern.test(name.toLowerCase())) return 'is not a header name'
    return otherHeaders.has(name.toLowerCase()) ? "holds no client's place" : undefined
  },
).transform((names) => [...new Set(names.map((name) => name.toLowerCase()))])

// Headers that the gateway sets itself on a quote call, headers of one connection, and cookies, with which no two
// clients would share a quote.
const neverKeyed = new Set(
  `accept accept-encoding connection content-length content-type cookie expect host http2-settings
  keep-alive max-forwards proxy-authorization proxy-connection te traceparent tracestate trailer
  transfer-encoding upgrade via x-request-id`.split(/\s+/),
)

function keyHeaderProblem(name: string): string | undefined {
  if (!headerNamePattern.test(name.toLowerCase())) return 'is not a header name'
  const lowerCaseName = name.toLowerCase()
  if (neverKeyed.has(lowerCaseName) || claimsClientAddress(lowerCaseName)) {
    return 'is never sent on a quote as the client wrote it'
  }
  return undefined
}

export const quoteKeyHeaders = list(
  'a comma-separated list of header names with app-name among them',
  keyHeaderProblem,
)
  .transform((names) => [...new Set(names.map((name) => name.toLowerCase()))])
  .refine((names) => names.includes('app-name'), 'a list with app-name in it: the provider requires it')

export const metricsPairs = list('a comma-separated list of pairs such as ETH_USDC,BTC_USDC', (pair) =>
  /^[\w.~:-]{1,64}$/.test(pair) ? undefined : 'is not a pair',
).refine((pairs) => pairs.length <= 20, 'at most 20 pairs: each adds three dozen lines to the metrics page')

export const quoteIdFields = list(
  'a comma-separated list of member names such as quoteId,quote.id',
  (field) =>
    /^[A-Za-z0-9_$-]{1,64}(?:\.[A-Za-z0-9_$-]{1,64}){0,7}$/.test(field) ? undefined : 'is not a member name',
)

export const clientIpHeader = z
  .string()
  .toLowerCase()
  .regex(headerNamePattern, 'a header name such as forwarded, x-forwarded-for or cf-connecting-ip')
  .refine(
    (name) => !otherHeaders.has(name),
    "a header that holds a client's address; this one means something else",
  )

/** Long enough that it cannot be guessed: the operations listener does not count wrong tokens. */
export const token = z
  .string()
  .regex(/^[\x21-\x7e]{16,512}$/, 'a secret of 16 to 512 visible ASCII characters, without spaces')

export const hostNames = list(
  'a comma-separated list of host names such as gateway.internal, without ports',
  (name) => (isHost(name) ? undefined : 'is not a host name'),
).transform((names) => [...new Set(names.map(canonicalHost))])

export const headerValue = z
  .string()
  .regex(/^[\x20-\x7e]{1,4096}$/, 'at most 4096 visible ASCII characters and spaces, without line breaks')

export const collectorUrl = z.string().transform((text, context) => {
  const form = 'an http or https URL such as http://localhost:4318'
  const result = readBaseUrl(text)
  if ('expected' in result)
    context.addIssue(
      `${form}, without user, password (OTEL_EXPORTER_OTLP_HEADERS is for keys), query and fragment`,
    )
  else if (result.url.endsWith('/v1/traces')) context.addIssue(`${form}: /v1/traces is appended`)
  else return result.url
  return z.NEVER
})

export const ratio = z
  .string()
  .regex(/^(?:0|1|0?\.\d{1,15}|1\.0{1,15})$/, 'a number from 0 to 1, such as 0.01')
  .transform(Number)
