import { isIP, isIPv4 } from 'node:net'
import { normalizeAddress } from '../http/ip-address.ts'
import { Wrong } from './problems.ts'

// Each reader returns what the code needs, or throws Wrong.

/** Whether a text is an IP address without brackets, or a host name. */
export function isHost(host: string): boolean {
  if (isIP(host) !== 0) return true
  // Some resolvers read a name that ends in a number (127.1, 0) as an address.
  const lastLabel = host.split('.').at(-1) ?? ''
  return (
    /^[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?$/i.test(host) &&
    !/^\d*$|^0x/i.test(lastLabel)
  )
}

/** The canonical host: a normalized address, or a name in lower case without a final dot. */
export function canonicalHost(host: string): string {
  const bare = host.toLowerCase().replace(/^\[|\]$/g, '')
  return normalizeAddress(bare) ?? bare.replace(/%.*$/s, '').replace(/\.$/, '')
}

export function isWildcard(host: string): boolean {
  return ['0.0.0.0', '::'].includes(canonicalHost(host))
}

export function isLoopback(host: string): boolean {
  const name = canonicalHost(host)
  if (isIPv4(name)) return name.startsWith('127.')
  return name === '::1' || name === 'localhost' || name.endsWith('.localhost')
}

/** The host without brackets. `URL` accepts more than host names, such as a,b.example. */
function hostOf({ hostname, port }: URL): string | undefined {
  const host = hostname.replace(/^\[(.*)\]$/, '$1')
  // Port 0 cannot be connected to.
  return isHost(host.replace(/\.$/, '')) && port !== '0' ? host : undefined
}

const baseUrlExample = 'https://api.example.com/prefix'

/** `keys`: the setting for keys. `or`: what else would be right. */
export function readHttpUrl(
  text: string,
  { example = baseUrlExample, keys = '', or = '' } = {},
): string {
  const wrong = (more = '') =>
    new Wrong(`an http or https URL such as ${example}${more}${or}`)
  if (!/^https?:\/\/[^/\s\\]/i.test(text) || /[\s\\]/.test(text)) throw wrong()
  if (/[?#]/.test(text)) throw wrong(', without query and fragment')
  if (/^https?:\/\/[^/]*@/i.test(text))
    throw wrong(`, without user and password${keys && ` (${keys} is for keys)`}`)
  if (/\/(\.|%2e){1,2}(\/|$)/i.test(text)) throw wrong(', without dot segments')
  if (!URL.canParse(text)) throw wrong()
  const url = new URL(text)
  if (hostOf(url) === undefined)
    throw wrong(url.port === '0' ? ', with a port that can be connected to' : '')
  return url.origin + url.pathname.replace(/\/+$/, '')
}

export function readUpstream(text: string, keys = ''): string {
  if (text.toLowerCase() === 'sandbox') return 'sandbox'
  return readHttpUrl(text, { keys, or: '; or, outside production, sandbox' })
}

export function readCollectorUrl(text: string): string {
  const example = 'http://localhost:4318'
  const url = readHttpUrl(text, { example, keys: 'OTEL_EXPORTER_OTLP_HEADERS' })
  if (!url.endsWith('/v1/traces')) return url
  throw new Wrong(`an http or https URL such as ${example}: /v1/traces is appended`)
}

/** Reads where the proxy is, and Proxy-Authorization, if the URL has credentials. */
export function readProxyUrl(text: string) {
  const form =
    'the http URL of a proxy, such as http://user:password@proxy.example.com:3128'
  const wrong = (more = '') => new Wrong(form + more)
  if (/^https:/i.test(text))
    throw wrong(
      '; TLS to the proxy itself is not supported, and what goes through it is encrypted anyway',
    )
  if (!/^http:\/\/[^/\s\\]/i.test(text) || /[\s\\]/.test(text) || !URL.canParse(text))
    throw wrong()
  const url = new URL(text)
  const host = hostOf(url)
  if (host === undefined) throw wrong()
  if (url.pathname !== '/' || url.search !== '' || url.hash !== '')
    throw wrong(
      ', without path, query and fragment; %2F, %3F and %23 in a password are / ? #',
    )
  // RFC 7617 section 2: a user has no colon, and neither has control characters.
  const unfit = wrong(
    ', whose user has no colon, and whose user and password are percent-encoded UTF-8',
  )
  const credentials = decode(`${url.username}:${url.password}`, unfit)
  if (/%3a/i.test(url.username) || /[\u0000-\u001f\u007f]/.test(credentials)) throw unfit
  const authorization =
    credentials === ':'
      ? undefined
      : `Basic ${Buffer.from(credentials).toString('base64')}`
  return { host, port: Number(url.port || 80), authorization }
}

/** Throws `wrong` if the text is not percent-encoded UTF-8. */
function decode(encoded: string, wrong: Wrong): string {
  try {
    return decodeURIComponent(encoded)
  } catch {
    throw wrong
  }
}

const storeForms =
  'redis://[[user]:password@]host[:port][/database], rediss:// for TLS, ' +
  'redis+sentinel://host:port,host:port/master-name or redis+cluster://host:port,host:port'
const storeShape =
  /^(?:redis|valkey)(s)?(?:\+(sentinel|cluster))?:\/\/(?:([^/?#]*)@)?([^/?#@]+)(?:\/([^?#]*))?(?:\?([^#]*))?$/i

/** `URL` refuses several hosts. */
export function readStoreUrl(text: string) {
  const wrong = (because: string) => new Wrong(`${storeForms} (${because})`)
  const [, tls, variant, userInfo, hosts = '', path = '', query] =
    storeShape.exec(text) ?? []
  if (hosts === '' || /[\s\\]/.test(text)) throw new Wrong(storeForms)
  // redis://secret@host would make the password a user name.
  if (userInfo?.includes(':') === false)
    throw wrong('a colon before the password, also without a user')

  const kind = (variant?.toLowerCase() ?? 'single') as 'single' | 'sentinel' | 'cluster'
  const nodes = hosts.split(',').map((node) => {
    const found = /^(?:\[([\da-f:.]+)\]|([\w.-]+))(?::(\d+))?$/i.exec(node)
    const port = Number(found?.[3] ?? (kind === 'sentinel' ? 26_379 : 6_379))
    const host = found?.[1] ?? found?.[2] ?? ''
    if (!isHost(host.replace(/\.$/, ''))) throw wrong('each host is a name or an address')
    if (port < 1 || port > 65_535) throw wrong('a port is a number from 1 to 65535')
    return { host, port }
  })
  if (kind === 'single' && nodes.length > 1)
    throw wrong('several hosts need +sentinel or +cluster')

  const parts = path.split('/').filter((part) => part !== '')
  const masterName = kind === 'sentinel' ? (parts.shift() ?? '') : undefined
  if (masterName === '') throw wrong('the name of the master follows the Sentinels')
  const [database = '0', ...rest] = parts
  if (!/^\d{1,4}$/.test(database) || rest.length > 0)
    throw wrong('the database is a number')
  if (kind === 'cluster' && database !== '0')
    throw wrong('a Cluster has no database but 0')

  const sentinelPassword = query && /^sentinelPassword=(.+)$/.exec(query)?.[1]
  if (query !== undefined && (kind !== 'sentinel' || !sentinelPassword))
    throw wrong('only sentinelPassword of +sentinel may follow the ?')

  const [username, password] = userInfo?.split(/:(.*)/s) ?? []
  const decoded = (encoded: string | undefined) =>
    encoded ? decode(encoded, wrong('a % that is not part of an escape')) : undefined
  return {
    kind,
    nodes,
    tls: tls !== undefined,
    database: Number(database),
    username: decoded(username),
    password: decoded(password),
    masterName: decoded(masterName),
    sentinelPassword: decoded(sentinelPassword),
  }
}

/** Masks what may be secret, even if the text is not quite a URL. */
export function maskUrl(text: string): string {
  return (
    text
      .replace(/^((?:https?|(?:redis|valkey)s?(?:\+\w+)?):\/\/)?.*@/is, '$1****@')
      .replace(/([?#]).*$/s, '$1****')
      // A password without a host: text after a colon that is not a port.
      .replace(
        /^((?:[a-z][\w+.-]*:\/\/)?(?![^/]*\[)[^:/]*:)(?!\/\/|\d{1,5}(?:[,/]|$))[^@]*$/is,
        '$1****',
      )
  )
}
