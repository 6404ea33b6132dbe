import type { LookupFunction, Socket } from 'node:net'
import { buildConnector, type Client } from 'undici'
import { sharedLookup } from './dns-lookup.ts'

export interface ConnectionOptions {
  origin: string
  /** How old a connection may get before a new one takes its place. */
  lifeMs: number
  connectTimeoutMs: number
  lookup: LookupFunction | undefined
  client: Client.Options
}

/**
 * A name may have several addresses. Node gives up each of them but the last after 250 ms, whatever the connect timeout
 * is: a provider that is far away would never be reached where the last address is dead. A quarter of the connect
 * timeout leaves some time for the addresses behind it.
 */
const shareOfConnectTime = 1 / 4
const minAddressMs = 250

export function connectorFor(options: ConnectionOptions): buildConnector.connector {
  return buildConnector({
    timeout: options.connectTimeoutMs,
    autoSelectFamilyAttemptTimeout: Math.max(minAddressMs, options.connectTimeoutMs * shareOfConnectTime),
    ...nameToAskFor(options.origin),
    lookup: sharedLookup(options.lookup),
  })
}

export interface SocketGuard {
  /** The upstream has ended the connection; nothing of it was handled yet. */
  beforeEnd(): void
  ended(how: { wasReset: boolean }): void
}

/** Listens to a new connection before undici, which adds its own listeners once it has the socket. */
export function guardSocket(socket: Socket, guard: SocketGuard): void {
  socket.on('error', (error: NodeJS.ErrnoException) => {
    resetIsNoEnd(error)
    // Node leaves a socket open whose TLS has failed. An answer under way would wait for its timeout, the end behind a
    // broken record would look like the end of an answer, and the next POST would be lost on it.
    socket.destroy()
  })
  socket.on('end', () => {
    // undici takes the end of a connection for the end of an answer with `Connection: close`, and asserts that the
    // answer is not paused, which nothing would catch (7.30.2). So a paused answer is resumed first.
    guard.beforeEnd()
    // A reset right behind the last bytes comes as an end. The next write gets its error.
    socket.write('')
    guard.ended({ wasReset: socket.errored !== null })
  })
}

/**
 * After a head with "Connection: close" undici takes a reset for the end of the answer (7.30.2), and the process dies of
 * it if the answer is paused just then. RFC 9112 8: what ends with an error of its connection is incomplete.
 */
function resetIsNoEnd(error: NodeJS.ErrnoException): void {
  if (error.code === 'ECONNRESET') error.code = 'UND_ERR_SOCKET'
}

/**
 * The error as undici handles it. For this one code undici counts the request that failed as running for ever (7.30.2): whatever comes next to that
 * client waits without end, even once the certificate is right again.
 */
export function asHandled(error: NodeJS.ErrnoException): Error {
  if (error.code === 'ERR_TLS_CERT_ALTNAME_INVALID') error.code = 'CERT_ALTNAME_INVALID'
  return error
}

/**
 * RFC 6066 section 3: the name in a TLS handshake has no final dot, and some servers close a handshake that has one. A
 * base URL such as `https://host.` keeps out the search list of a resolver, as in Kubernetes.
 */
function nameToAskFor(origin: string): { servername?: string } {
  const { hostname } = new URL(origin)
  return hostname.endsWith('.') ? { servername: hostname.slice(0, -1) } : {}
}
