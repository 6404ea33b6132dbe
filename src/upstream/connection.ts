import type { LookupFunction, Socket } from 'node:net'
import { buildConnector, Client, type Dispatcher } from 'undici'
import { sharedLookup } from './dns-lookup.ts'

export interface ConnectionOptions {
  origin: string
  /** How old a connection may get before a new one takes its place. */
  lifeMs: number
  connectTimeoutMs: number
  lookup: LookupFunction | undefined
  client: Client.Options
  nowMs(): number
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

/** A place for one connection, made when it is first used, and again when it is lost or too old. */
export class Connection {
  readonly #options: ConnectionOptions
  readonly #connector: buildConnector.connector
  #client: Client
  #socket: Socket | undefined
  #connectedAtMs = 0
  /** Whether it ended with a reset: the answer that ended with it is not whole. */
  wasReset = false
  /** Resumes the last answer. */
  #resume: (() => void) | undefined

  constructor(options: ConnectionOptions, connector: buildConnector.connector) {
    this.#options = options
    this.#connector = connector
    this.#client = this.#newClient()
  }

  get isOpen(): boolean {
    return this.#socket?.destroyed === false
  }

  get bytesRead(): number {
    return this.#socket?.bytesRead ?? 0
  }

  dispatch(request: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): void {
    const isOld = this.#options.nowMs() - this.#connectedAtMs > this.#options.lifeMs
    if (isOld && this.isOpen) {
      void this.#client.destroy()
      this.#client = this.#newClient()
    }
    this.#client.dispatch(request, handler)
  }

  /** A new connection takes its place before the next request. */
  retire(): void {
    this.#connectedAtMs = Number.NEGATIVE_INFINITY
  }

  rememberResume(resume: () => void): void {
    this.#resume = resume
  }

  close(error: Error): Promise<void> {
    return this.#client.destroy(error)
  }

  #newClient(): Client {
    return new Client(this.#options.origin, {
      ...this.#options.client,
      pipelining: 1,
      connect: (target, callback) => {
        this.#connector(target, (...[error, socket]) => {
          if (error) return callback(withoutItsOwnPath(error), null)
          this.#socket = socket
          this.wasReset = false
          this.#connectedAtMs = this.#options.nowMs()
          // Before undici's own listeners, which it adds once it has the socket.
          socket.on('error', (error: NodeJS.ErrnoException) => {
            resetIsNoEnd(error)
            // Node leaves a socket open whose TLS has failed. An answer under way would wait for its timeout, the end
            // behind a broken record would look like the end of an answer, and the next POST would be lost on it.
            socket.destroy()
          })
          // undici takes the end of a connection for the end of an answer with `Connection: close`, and asserts that the
          // answer is not paused, which nothing would catch (7.30.2). So a paused answer is resumed first.
          socket.on('end', () => {
            this.#resume?.()
            // A reset right behind the last bytes comes as an end. The next write gets its error.
            socket.write('')
            this.wasReset = socket.errored !== null
          })
          callback(null, socket)
        })
      },
    })
  }
}

/**
 * After a head with "Connection: close" undici takes a reset for the end of the answer (7.30.2), and the process dies of
 * it if the answer is paused just then. RFC 9112 8: what ends with an error of its connection is incomplete.
 */
function resetIsNoEnd(error: NodeJS.ErrnoException): void {
  if (error.code === 'ECONNRESET') error.code = 'UND_ERR_SOCKET'
}

/**
 * For this one code undici counts the request that failed as running for ever (7.30.2): whatever comes next to that
 * client waits without end, even once the certificate is right again.
 */
function withoutItsOwnPath(error: NodeJS.ErrnoException): Error {
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
