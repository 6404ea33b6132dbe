import { z } from 'zod'
import { mayBeVersioned } from '../http/fold-path.ts'
import { claimsClientAddress } from '../http/headers.ts'
import { namedBlocks, parseAddressBlock } from '../http/ip-address.ts'
import { prose } from '../process/text.ts'
import { Wrong } from './problems.ts'
import { canonicalHost, isHost } from './urls.ts'

// Each schema reads trimmed text. Its error says what would be right, and repeats no whole value: errors are not
// masked.

/** The schema of what `read` returns. A Wrong that it throws becomes the schema's error. */
export function readBy<Value>(read: (text: string) => Value) {
  return z.string().transform((text, context) => {
    try {
      return read(text)
    } catch (error) {
      if (!(error instanceof Wrong)) throw error
      context.addIssue(error.message)
      return z.NEVER
    }
  })
}

/** The text behind the call is what would be right. */
function text(pattern: RegExp) {
  return (...expected: Parameters<typeof prose>) =>
    z.string().regex(pattern, prose(...expected))
}

export function wholeNumber(minimum: number, maximum: number, unit = '') {
  const expected = `a whole number${unit} from ${minimum} to ${maximum}, in plain digits`
  const read = text(/^\d{1,15}$/)`${expected}`.transform(Number)
  return read.refine((value) => value >= minimum && value <= maximum, expected)
}

/** A duration of at most a day. */
export function milliseconds(minimum = 1) {
  return wholeNumber(minimum, 86_400_000, ' of milliseconds')
}

export const ratio = text(/^(?:0|1|0?\.\d{1,15}|1\.0{1,15})$/)`
  a number from 0 to 1, such as 0.01`.transform(Number)

export const port = z
  .string()
  // Kubernetes sets ADMIN_PORT=tcp://10.0.0.1:80 beside a service named "admin".
  .refine((text) => !/^(?:tcp|udp|sctp):\/\//.test(text), {
    error:
      "a port number; this one was set by Kubernetes' service links (enableServiceLinks: false)",
    abort: true,
  })
  .pipe(wholeNumber(0, 65535))

/** `words`: other words for the choices. */
export function oneOf<const Choice extends string>(
  choices: readonly Choice[],
  words: Readonly<Record<string, Choice>> = {},
) {
  const read = z.string().toLowerCase()
  return read
    .transform((text) => words[text] ?? text)
    .pipe(z.enum(choices, `one of ${choices.join(', ')}`))
}

type ExpiredQuote = 'refuse' | 'report' | { readonly applications: readonly string[] }

/** `refuse`, `report`, or the applications whose late orders are reported, in their own case. */
export const expiredQuote = readBy((text): ExpiredQuote => {
  const word = text.toLowerCase()
  if (word === 'refuse' || word === 'report') return word
  const names = /^report:(.*)$/i.exec(text)?.[1]
  const applications = names?.split(',').map((name) => name.trim())
  if (applications === undefined || applications.includes(''))
    throw new Wrong(
      'one of refuse, report, or report: and a list of applications without an empty name, such as report:shop,wallet',
    )
  return { applications }
})

export const host = z
  .string()
  .transform((text) => text.replace(/^\[(.*)\]$/, '$1'))
  .refine(
    isHost,
    'an IP address or host name to listen on, such as 127.0.0.1, :: or localhost, without a port',
  )

/** Without braces: a Cluster would put all keys on one server. */
export const keyPrefix = text(/^[\w.:/-]{1,64}$/)`
  at most 64 letters, digits and . : / _ -, such as quotegate: or staging:`

/** A text with colons is a list, as systemd joins several directories. A drive of Windows has one, too. */
export const directory = text(/^(?:[A-Za-z]:[\\/])?[^:\0]+$/)`
  the path of one directory, such as /var/lib/quotegate`

/** A token has to be too long to guess, because the operations listener does not count wrong ones. */
export const token = text(/^[\x21-\x7e]{16,512}$/)`
  a secret of 16 to 512 visible ASCII characters, without spaces and line breaks`

export const headerValue = text(/^[\x20-\x7e]{1,4096}$/)`
  at most 4096 visible ASCII characters and spaces, without line breaks`

/** `problem` continues a sentence that begins with the wrong entry, such as "ends with /". */
function list(form: string, problem: (entry: string) => string | false | undefined) {
  const expected = `a comma-separated list of ${form}`
  return readBy((text): readonly string[] => {
    const entries = [...new Set(text.split(',').map((part) => part.trim()))].filter(
      (part) => part !== '',
    )
    const wrong = entries.filter(problem).slice(0, 5)
    const because = wrong.map(
      (entry) => `${JSON.stringify(entry.slice(0, 60))} ${problem(entry)}`,
    )
    if (wrong.length > 0) throw new Wrong(`${expected} (${because.join('; ')})`)
    if (entries.length === 0) throw new Wrong(`${expected}, with at least one entry`)
    return entries
  })
}

function lowerCaseList(
  form: string,
  problem: (entry: string) => string | false | undefined,
) {
  return z.string().toLowerCase().pipe(list(form, problem))
}

export const pathPrefixes = list('path prefixes such as /checkouts,/refunds', (path) => {
  if (path === '/') return undefined
  if (!path.startsWith('/')) return 'does not start with /'
  if (path.endsWith('/')) return 'ends with /'
  if (!/^(\/[\w\-.~!$&'()*+;=:@]+)+$/.test(path))
    return 'may only have plain path segments: no //, %, query or spaces'
  if (/\/\.\.?(\/|$)/.test(path)) return 'has a dot segment'
  if (/^\/(v3|webhooks)(\/|$)/.test(path)) return 'goes to another upstream'
  return mayBeVersioned(path) && 'is a version: only /v3 is relayed, to the swap API'
})

const blockNames = [...namedBlocks.keys()]
export const trustedProxies = lowerCaseList(
  `addresses, CIDRs or ${blockNames.join(', ')}`,
  (entry) => {
    const block = parseAddressBlock(entry)
    if (blockNames.includes(entry) || !('problem' in block)) return undefined
    const isOfExpress = /^(?:\d|true|false)$/.test(entry)
    return isOfExpress
      ? 'is for Express, which counts proxies or trusts all: list their addresses'
      : block.problem
  },
)

// Headers that the gateway sets on a quote call, headers of one connection, and cookies, which no two users share.
const neverKeyed =
  wordsOf(`accept accept-encoding connection content-length content-type cookie expect host
  http2-settings keep-alive max-forwards proxy-authorization proxy-connection te traceparent tracestate trailer
  transfer-encoding upgrade via x-request-id`)

// Headers with another meaning, which no proxy uses for an address or place.
const otherHeaders =
  wordsOf(`accept-language app-name app-version authorization cache-control content-encoding date
  idempotency-key origin pragma range referer set-cookie user-agent x-forwarded-host x-forwarded-port x-forwarded-proto
  ${[...neverKeyed].join(' ')}`)

function wordsOf(text: string): ReadonlySet<string> {
  return new Set(text.split(/\s+/))
}

const headerName = /^[a-z0-9!#$%&'*+.^_`|~-]{1,100}$/

/** The gateway removes these headers from swap requests: a header with another meaning (content-type) would be lost. */
export const placeHeaders = lowerCaseList(
  'header names such as cf-ipcountry, which together name one place',
  (name) => {
    if (!headerName.test(name)) return 'is not a header name'
    return otherHeaders.has(name) && "holds no user's place"
  },
)

export const clientIpHeader = z
  .string()
  .toLowerCase()
  .regex(
    headerName,
    'a header name such as forwarded, x-forwarded-for or cf-connecting-ip',
  )
  .refine(
    (name) => !otherHeaders.has(name),
    "a header that holds a user's address; this one means something else",
  )

export const quoteKeyHeaders = lowerCaseList(
  'header names with app-name among them',
  (name) => {
    if (!headerName.test(name)) return 'is not a header name'
    const isOurs = neverKeyed.has(name) || claimsClientAddress(name)
    return isOurs && 'is never sent on a quote as the caller wrote it'
  },
).refine(
  (names) => names.includes('app-name'),
  'a list with app-name in it: the provider requires it',
)

export const metricsPairs = list('pairs such as ETH_USDC,BTC_USDC', (pair) =>
  /^[\w.~:-]{1,64}$/.test(pair) ? undefined : 'is not a pair',
).refine(
  (pairs) => pairs.length <= 20,
  'at most 20 pairs: each adds three dozen lines to the metrics page',
)

export const quoteIdFields = list('member names such as quoteId,quote.id', (field) =>
  /^[A-Za-z0-9_$-]{1,64}(?:\.[A-Za-z0-9_$-]{1,64}){0,7}$/.test(field)
    ? undefined
    : 'is not a member name',
)

export const hostNames = lowerCaseList(
  'host names such as gateway.internal, without ports',
  (name) => (isHost(name) ? undefined : 'is not a host name'),
).transform((names) => [...new Set(names.map(canonicalHost))])
