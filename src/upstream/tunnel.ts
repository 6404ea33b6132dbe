import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { type buildConnector, Client, errors } from 'undici'
import type { Timers } from '../clock.ts'

export interface EgressProxy {
  readonly host: string
  readonly port: number
  /** The value of Proxy-Authorization. */
  readonly authorization: string | undefined
}

/** The proxy opened no tunnel: nothing was sent to the upstream. */
function tunnelError(
  what: string,
  code: 'PROXY_REFUSED' | 'PROXY_TIMEOUT',
  cause?: Error,
): Error {
  return Object.assign(new Error(`UPSTREAM_PROXY ${what}`, { cause }), { code })
}

/** The proxy's errors. Under their own codes, the upstream would seem to refuse or to have no name. */
const unreachable: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EAI_FAIL',
])
/** Errors that mean the same for the proxy and the upstream. */
const ownErrors: ReadonlySet<unknown> = new Set([
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EADDRNOTAVAIL',
  'EMFILE',
  'ENFILE',
])

/** What is wrong with the proxy's answer, by the code of undici's error. */
const wrongAnswers: Readonly<Record<string, string>> = {
  UND_ERR_SOCKET: 'closed the connection before it answered CONNECT',
  ECONNRESET: 'broke the connection',
  UND_ERR_HEADERS_OVERFLOW: 'answered CONNECT with too many bytes',
}

/** Max answer to one CONNECT. */
const maxHeaderSize = 16_384

/**
 * Connects to an https origin through a proxy (RFC 9110 9.3.6). undici's CONNECT (7.30.2) takes an interim answer as
 * the final one, or as an error: a proxy that sends one opens no tunnel.
 */
export function createTunnelConnector(
  { host, port, authorization }: EgressProxy,
  {
    origin,
    connectTimeoutMs,
    timers,
  }: { origin: string; connectTimeoutMs: number; timers: Timers },
  {
    toProxy,
    startTls,
  }: Readonly<Record<'toProxy' | 'startTls', buildConnector.connector>>,
): buildConnector.connector {
  const { hostname, port: upstreamPort } = new URL(origin)
  const path = `${hostname}:${upstreamPort || 443}`
  const headers = {
    host: path,
    ...(authorization && { 'Proxy-Authorization': authorization }),
  }
  // An IPv6 address has no brackets in the settings.
  const proxyUrl = `http://${host.includes(':') ? `[${host}]` : host}:${port}`

  async function openTunnel(client: Client): Promise<Duplex> {
    const { socket, statusCode } = await client
      .connect({ path, headers })
      .catch((error) => {
        throw asOfTheProxy(error)
      })
    // Errors under TLS are reported by the TLS socket.
    socket.on('error', () => {})
    if (statusCode >= 200 && statusCode < 300 && socket.readableLength === 0)
      return socket
    socket.destroy()
    throw refusal(statusCode)
  }

  return (target, callback) => {
    let proxySocket: Socket | undefined
    const client = new Client(proxyUrl, {
      connect(to, connected) {
        // A destroyed Client leaves the socket connecting (7.30.2), and undici's types leave it out.
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
  if (unreachable.has(code))
    return tunnelError(`cannot be reached (${code})`, 'PROXY_REFUSED', error)
  if (!ownErrors.has(code))
    return tunnelError(
      wrongAnswers[code ?? ''] ?? 'answered CONNECT with no HTTP',
      'PROXY_REFUSED',
      error,
    )
  error.message = `UPSTREAM_PROXY: ${error.message}`
  return error
}

function refusal(status: number): Error {
  if (status >= 200 && status < 300)
    return tunnelError('sent bytes that TLS does not begin with', 'PROXY_REFUSED')
  const why =
    status === 407 ? ': it does not accept the credentials of UPSTREAM_PROXY' : ''
  const code = status === 504 ? 'PROXY_TIMEOUT' : 'PROXY_REFUSED'
  return tunnelError(`answered CONNECT with ${status}${why}`, code)
}
