import { lookup as systemLookup } from 'node:dns'
import type { LookupFunction, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { createSecureContext, type SecureContextOptions } from 'node:tls'
import { buildConnector, Client, errors } from 'undici'
import type { Timers } from '../clock.ts'

/** A proxy that opens a tunnel to a server by CONNECT. */
interface EgressProxy {
  readonly host: string
  readonly port: number
  /** The value of Proxy-Authorization. */
  readonly authorization: string | undefined
}

export interface ConnectionOptions {
  origin: string
  /** How old a connection may get before a new one replaces it. */
  maxAgeMs: number
  connectTimeoutMs: number
  lookup?: LookupFunction | undefined
  /** PEM texts: the authorities in place of the system's, and our own certificate with its key. */
  tls?: Pick<SecureContextOptions, 'ca' | 'cert' | 'key'> | undefined
  /** Through which an https origin is reached; an http origin is connected to directly. */
  proxy?: EgressProxy | undefined
  timers: Timers
  /** In place of sockets. */
  connect?: buildConnector.connector | undefined
  client: Client.Options
}

/**
 * A name may have several addresses. By default Node gives up each address but the last after 250 ms, whatever the
 * connect timeout is, so a distant provider whose last address is dead could never be reached. Each address gets a
 * quarter of the connect timeout, which leaves time for the addresses after it.
 */
const addressTimeShare = 1 / 4
const minAddressMs = 250

export function createConnector(options: ConnectionOptions): buildConnector.connector {
  const { origin, proxy, connectTimeoutMs } = options
  const network = {
    autoSelectFamilyAttemptTimeout: Math.max(minAddressMs, connectTimeoutMs * addressTimeShare),
    lookup: sharedLookup(options.lookup),
  }
  // Made once: OpenSSL would parse the files again for each connection.
  const secureContext = options.tls === undefined ? {} : { secureContext: createSecureContext(options.tls) }
  // undici 8 offers HTTP/2 by default. There, names of fields are in lower case, and a connection is not one request's.
  const tls = { allowH2: false, ...tlsServerName(origin), ...secureContext }
  if (proxy === undefined || !origin.startsWith('https:')) {
    return buildConnector({ timeout: connectTimeoutMs, ...network, ...tls })
  }
  return createTunnelConnector(proxy, options, {
    toProxy: buildConnector({ timeout: 0, noDelay: true, ...network }),
    // The tunnel's own timeout covers the handshake too.
    startTls: buildConnector({ timeout: 0, ...tls }),
  })
}

/**
 * After a head with "Connection: close" undici treats ECONNRESET as the end of the answer (7.30.2), and the process
 * crashes if the answer is paused just then. RFC 9112 8: an answer that ends with a connection error is incomplete.
 */
export function resetIsAnError(error: NodeJS.ErrnoException): void {
  if (error.code === 'ECONNRESET') error.code = 'UND_ERR_SOCKET'
}

/**
 * After ERR_TLS_CERT_ALTNAME_INVALID undici counts the failed request as running forever (7.30.2). The next request to
 * that client would wait without end, even with a correct certificate. So the error gets another code.
 */
export function withoutAltNameCode(error: NodeJS.ErrnoException): Error {
  if (error.code === 'ERR_TLS_CERT_ALTNAME_INVALID') error.code = 'CERT_ALTNAME_INVALID'
  return error
}

/**
 * RFC 6066 section 3: the name in a TLS handshake has no final dot, and some servers close a handshake that has one.
 * Base URLs such as `https://host.` are in use, because the dot skips a resolver's search list, as in Kubernetes.
 */
function tlsServerName(origin: string): { servername?: string } {
  const { hostname } = new URL(origin)
  return hostname.endsWith('.') ? { servername: hostname.slice(0, -1) } : {}
}

type LookupCallback = Parameters<LookupFunction>[2]

/**
 * Shares the lookup of one name among all callers that ask while it runs. A lookup by the system occupies one of the few
 * threads of the process, for seconds if the name server does not answer. Without sharing, a burst of requests to one
 * dead name would leave no thread for the names of the other upstreams.
 */
function sharedLookup(lookup: LookupFunction = systemLookup): LookupFunction {
  let waiting: LookupCallback[] = []
  return (name, options, callback) => {
    waiting.push(callback)
    if (waiting.length > 1) return
    lookup(name, options, (...answer) => {
      const callbacks = waiting
      waiting = []
      for (const answered of callbacks) answered(...answer)
    })
  }
}

/** The proxy opened no tunnel: nothing was sent to the upstream. */
class TunnelError extends Error {
  readonly code: 'PROXY_REFUSED' | 'PROXY_TIMEOUT'

  constructor(
    what: string,
    { code = 'PROXY_REFUSED', cause }: { code?: TunnelError['code']; cause?: Error } = {},
  ) {
    super(`UPSTREAM_PROXY ${what}`, { cause })
    this.code = code
  }
}

/** Errors of connecting to the proxy. Under their own codes, the upstream would be said to refuse or to have no name. */
const unreachable: ReadonlySet<unknown> = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EAI_FAIL'])
/** Errors of connecting that say the same of either. */
const ownErrors: ReadonlySet<unknown> = new Set([
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EADDRNOTAVAIL',
  'EMFILE',
  'ENFILE',
])

/** What is wrong with an answer, by the code of undici's error. */
const wrongAnswers: Readonly<Record<string, string>> = {
  UND_ERR_SOCKET: 'closed the connection before it answered CONNECT',
  ECONNRESET: 'broke the connection',
  UND_ERR_HEADERS_OVERFLOW: 'answered CONNECT with too many bytes',
}

/** Of all that a proxy answers to one CONNECT. */
const maxHeaderSize = 16_384

/**
 * Connects to an https origin through a proxy (RFC 9110 9.3.6). The CONNECT is that of undici (7.30.2), which takes an
 * interim answer for the final one, or for an error: a proxy that sends one opens no tunnel.
 */
function createTunnelConnector(
  { host, port, authorization }: EgressProxy,
  { origin, connectTimeoutMs, timers }: Pick<ConnectionOptions, 'origin' | 'connectTimeoutMs' | 'timers'>,
  { toProxy, startTls }: Readonly<Record<'toProxy' | 'startTls', buildConnector.connector>>,
): buildConnector.connector {
  const { hostname, port: upstreamPort } = new URL(origin)
  const path = `${hostname}:${upstreamPort || 443}`
  const headers = { host: path, ...(authorization && { 'Proxy-Authorization': authorization }) }
  // An IPv6 address has no brackets in the settings.
  const proxyUrl = `http://${host.includes(':') ? `[${host}]` : host}:${port}`

  async function openTunnel(client: Client): Promise<Duplex> {
    const { socket, statusCode } = await client.connect({ path, headers }).catch((error) => {
      throw asOfTheProxy(error)
    })
    // What fails under TLS is reported by the TLS socket.
    socket.on('error', () => {})
    if (statusCode >= 200 && statusCode < 300 && socket.readableLength === 0) return socket
    socket.destroy()
    throw refusal(statusCode)
  }

  return (target, callback) => {
    let proxySocket: Socket | undefined
    const client = new Client(proxyUrl, {
      connect(to, connected) {
        // Its types leave out the socket, which a Client that is destroyed leaves connecting (7.30.2).
        proxySocket = toProxy(to, connected) as unknown as Socket
      },
      maxHeaderSize,
      headersTimeout: 0,
    })
    let hasEnded = false
    const end = (...result: Parameters<typeof callback>) => {
      if (hasEnded) return
      hasEnded = true
      timers.clear(deadline)
      void client.destroy()
      callback(...result)
      if (result[0] !== null) proxySocket?.destroy()
    }
    const deadline = timers.setTimeout(() => {
      const what = `UPSTREAM_PROXY: no tunnel with TLS within ${connectTimeoutMs} ms`
      end(new errors.ConnectTimeoutError(what), null)
    }, connectTimeoutMs)
    openTunnel(client).then(
      (socket) => {
        if (!hasEnded) startTls({ ...target, httpSocket: socket as Socket }, end)
      },
      (error) => end(error, null),
    )
  }
}

function asOfTheProxy(error: NodeJS.ErrnoException): Error {
  const { code } = error
  if (unreachable.has(code)) return new TunnelError(`cannot be reached (${code})`, { cause: error })
  if (!ownErrors.has(code))
    return new TunnelError(wrongAnswers[code ?? ''] ?? 'answered CONNECT with no HTTP', { cause: error })
  error.message = `UPSTREAM_PROXY: ${error.message}`
  return error
}

function refusal(status: number): TunnelError {
  if (status >= 200 && status < 300) return new TunnelError('sent bytes that TLS does not begin with')
  const why = status === 407 ? ': it does not accept the credentials of UPSTREAM_PROXY' : ''
  return new TunnelError(`answered CONNECT with ${status}${why}`, {
    code: status === 504 ? 'PROXY_TIMEOUT' : 'PROXY_REFUSED',
  })
}
