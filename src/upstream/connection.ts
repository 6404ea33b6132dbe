import { lookup as systemLookup } from 'node:dns'
import type { LookupFunction, Socket } from 'node:net'
import { createSecureContext, type SecureContextOptions } from 'node:tls'
import { buildConnector, Client, type Dispatcher } from 'undici'
import type { Timers } from '../clock.ts'
import { createTunnelConnector, type EgressProxy } from './tunnel.ts'

/** PEM texts: authorities instead of the system's, and our certificate with its key. */
export type TlsFiles = Pick<SecureContextOptions, 'ca' | 'cert' | 'key'>

export interface ConnectionOptions {
  origin: string
  maxAgeMs: number
  connectTimeoutMs: number
  lookup?: LookupFunction | undefined
  tls?: TlsFiles | undefined
  /** The way to https origins; an http origin is connected to directly. */
  proxy?: EgressProxy | undefined
  timers: Timers
  /** Replaces sockets in tests. */
  connect?: buildConnector.connector | undefined
  client: Client.Options
}

interface CallOnConnection {
  /** Called if a connection has to be made: undici (7.30.2) may find an open one closed. */
  connects(): void
  /** Reads on, if the answer is paused. */
  resume(): void
}

/** One connection at a time to one origin, made at the first request, and again when it is lost or too old. */
export class Connection {
  readonly #options: ConnectionOptions
  /** Asked each time, because new TLS files make a new connector. */
  readonly #connectorNow: () => buildConnector.connector
  #client: Client
  #socket: Socket | undefined
  #retiresAtMs = Number.POSITIVE_INFINITY
  /** Bytes received since the last request was sent. */
  answerBytes = 0
  answersInHttp10 = false
  /** A reset ended the connection, so its last answer is incomplete. */
  wasReset = false
  /** The call whose request was sent, or is to be. */
  #call: CallOnConnection | undefined

  constructor(options: ConnectionOptions, connectorNow: () => buildConnector.connector) {
    this.#options = options
    this.#connectorNow = connectorNow
    this.#client = this.#newClient()
  }

  get isOpen(): boolean {
    return this.#socket?.destroyed === false
  }

  dispatch(
    request: Dispatcher.DispatchOptions,
    call: Dispatcher.DispatchHandler & CallOnConnection,
  ): void {
    this.#call = call
    this.#client.dispatch(request, call)
  }

  /** The next request gets a new connection. */
  retire(): void {
    this.#retiresAtMs = Number.NEGATIVE_INFINITY
  }

  /** Must not be called while a request is under way. */
  closeIfRetired(): void {
    if (this.#options.timers.steadyMs() <= this.#retiresAtMs || !this.isOpen) return
    void this.#client.destroy()
    this.#client = this.#newClient()
    this.#socket = undefined
  }

  expectAnswer(): void {
    this.answerBytes = 0
    this.answersInHttp10 = false
  }

  /** A free connection would keep the last request and its body in memory. */
  answerEnded(): void {
    this.#call = undefined
  }

  close(error: Error): Promise<void> {
    return this.#client.destroy(error)
  }

  #newClient(): Client {
    return new Client(this.#options.origin, {
      ...this.#options.client,
      pipelining: 1,
      connect: (target, callback) => {
        this.#call?.connects()
        const connector = this.#connectorNow()
        connector(target, (...[error, socket]) => {
          if (error) return callback(withoutAltNameCode(error), null)
          this.#begin(socket)
          if (connector !== this.#connectorNow()) this.retire()
          callback(null, socket)
        })
      },
    })
  }

  /** undici adds its listeners later, once it has the socket. */
  #begin(socket: Socket): void {
    this.#socket = socket
    this.wasReset = false
    this.#retiresAtMs = this.#options.timers.steadyMs() + lifeMs(this.#options.maxAgeMs)
    // Unlike on(), this does not make the socket flow.
    socket.prependListener('data', (bytes: Buffer) => this.#noteBytes(bytes))
    socket.on('error', (error: NodeJS.ErrnoException) => {
      // After a head with "Connection: close" undici takes ECONNRESET as the end of the answer (7.30.2), and the
      // process crashes if the answer is just then paused. RFC 9112 8: an answer that ends with a connection error is
      // incomplete.
      if (error.code === 'ECONNRESET') error.code = 'UND_ERR_SOCKET'
      // Node leaves a socket open whose TLS has failed. Without destroy() an answer would wait for its timeout, or seem
      // to end after a broken record, and the next POST would be lost.
      socket.destroy()
    })
    socket.on('end', () => {
      // When a connection ends, undici ends its `Connection: close` answer and asserts that it is not paused. Nothing
      // would catch the assertion (7.30.2), so it is resumed first.
      this.#call?.resume()
      // A reset right after the last bytes is reported as an end, but fails the next write.
      socket.write('')
      this.wasReset = socket.errored !== null
    })
  }

  /** undici does not report an answer's version. */
  #noteBytes(bytes: Buffer): void {
    const at = minorVersionAt - this.answerBytes
    this.answerBytes += bytes.length
    if (at >= 0 && at < bytes.length) this.answersInHttp10 = bytes[at] === zero
  }
}

/** The place of the minor version in `HTTP/1.0`. */
const minorVersionAt = 7
const zero = '0'.charCodeAt(0)

/** A life has a random part, so that connections made together are not all renewed at once. */
export function lifeMs(maxAgeMs: number, random = Math.random()): number {
  return maxAgeMs * (1 - random / 4)
}

/**
 * A name may have several addresses. By default Node gives up each but the last after 250 ms, whatever the connect
 * timeout: a distant provider with a dead last address could never be reached. A quarter of the connect timeout leaves
 * time for the next ones.
 */
const addressTimeShare = 1 / 4
const minAddressMs = 250

export function createConnector(options: ConnectionOptions): buildConnector.connector {
  const { origin, proxy, connectTimeoutMs } = options
  const network = {
    autoSelectFamilyAttemptTimeout: Math.max(
      minAddressMs,
      connectTimeoutMs * addressTimeShare,
    ),
    lookup: sharedLookup(options.lookup),
  }
  // Made once: OpenSSL would parse the files for each connection.
  const secureContext =
    options.tls === undefined ? {} : { secureContext: createSecureContext(options.tls) }
  // undici 8 offers HTTP/2 by default, where field names are in lower case and requests share a connection.
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
 * After ERR_TLS_CERT_ALTNAME_INVALID undici counts the failed request as running forever (7.30.2). The next request to
 * that Client would wait without end, even with a correct certificate. So the error gets another code.
 */
function withoutAltNameCode(error: NodeJS.ErrnoException): Error {
  if (error.code === 'ERR_TLS_CERT_ALTNAME_INVALID') error.code = 'CERT_ALTNAME_INVALID'
  return error
}

/**
 * RFC 6066 section 3: the name in a TLS handshake has no final dot, and some servers close a handshake with one. Base
 * URLs such as `https://host.` skip a resolver's search list, as in Kubernetes.
 */
function tlsServerName(origin: string): { servername?: string } {
  const { hostname } = new URL(origin)
  return hostname.endsWith('.') ? { servername: hostname.slice(0, -1) } : {}
}

/**
 * Shares a running lookup among all that ask for it. A lookup occupies one of the process's few threads, for seconds if the
 * name server does not answer: requests to one dead name would leave no thread for other upstreams.
 */
function sharedLookup(lookup: LookupFunction = systemLookup): LookupFunction {
  let waiting: Parameters<LookupFunction>[2][] = []
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
