import { connect, type LookupFunction } from 'node:net'
import { type buildConnector, errors } from 'undici'

/** A proxy that opens a tunnel to a server by CONNECT. */
export interface EgressProxy {
  readonly host: string
  readonly port: number
  /** The value of Proxy-Authorization. */
  readonly authorization: string | undefined
}

export interface TunnelOptions {
  proxy: EgressProxy
  /** Of the upstream behind the proxy: https. */
  origin: string
  /** For the connection to the proxy, the answer to CONNECT and the TLS handshake together. */
  timeoutMs: number
  network: { autoSelectFamilyAttemptTimeout: number; lookup: LookupFunction }
  /** Starts TLS with the upstream, over the socket that it is given. */
  startTls: buildConnector.connector
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

/** Of all that a proxy answers to one CONNECT. */
const maxAnswerBytes = 16_384

/** Connects to an https origin through a proxy (RFC 9110 9.3.6). */
export function createTunnelConnector(options: TunnelOptions): buildConnector.connector {
  const { proxy, timeoutMs, network, startTls } = options
  const request = connectRequest(options)

  return (target, callback) => {
    const socket = connect({ host: proxy.host, port: proxy.port, noDelay: true, ...network })
    const deadline = setTimeout(
      () => fail(new errors.ConnectTimeoutError(`UPSTREAM_PROXY: no tunnel with TLS within ${timeoutMs} ms`)),
      timeoutMs,
    )
    let received: Buffer = Buffer.alloc(0)
    let hasConnected = false
    let hasEnded = false

    function end(...result: Parameters<typeof callback>): void {
      if (hasEnded) return
      hasEnded = true
      clearTimeout(deadline)
      callback(...result)
    }

    function fail(error: Error): void {
      end(error, null)
      socket.destroy()
    }

    function onData(chunk: Buffer): void {
      received = Buffer.concat([received, chunk])
      const answer = readAnswer(received)
      if (answer === undefined) return
      if (answer instanceof TunnelError) {
        fail(answer)
        return
      }
      socket.off('data', onData).off('close', onClose)
      startTls({ ...target, httpSocket: socket }, (...result) => {
        if (result[0] !== null) return fail(result[0])
        end(...result)
      })
    }

    function onClose(): void {
      fail(new TunnelError('closed the connection before it answered CONNECT'))
    }

    socket.once('connect', () => {
      hasConnected = true
      socket.write(request)
    })
    socket.on('data', onData).on('close', onClose)
    // Stays on the socket: what fails under TLS is reported by the TLS socket.
    socket.on('error', (cause: NodeJS.ErrnoException) => {
      if (hasConnected) return fail(new TunnelError('broke the connection', { cause }))
      if (unreachable.has(cause.code))
        return fail(new TunnelError(`cannot be reached (${cause.code})`, { cause }))
      cause.message = `UPSTREAM_PROXY: ${cause.message}`
      fail(cause)
    })
  }
}

function connectRequest({ proxy, origin }: TunnelOptions): string {
  const { hostname, port } = new URL(origin)
  const authority = `${hostname}:${port || 443}`
  const lines = [`CONNECT ${authority} HTTP/1.1`, `Host: ${authority}`]
  if (proxy.authorization !== undefined) lines.push(`Proxy-Authorization: ${proxy.authorization}`)
  return `${lines.join('\r\n')}\r\n\r\n`
}

/** What the proxy answered: a tunnel, or why there is none. Undefined while more of the answer must come. */
function readAnswer(received: Buffer): 'tunnel' | TunnelError | undefined {
  const text = received.toString('latin1')
  let start = 0
  for (;;) {
    if (!text.startsWith('HTTP/1.'.slice(0, text.length - start), start))
      return new TunnelError('does not speak HTTP')
    const end = text.indexOf('\r\n\r\n', start)
    if (end === -1) {
      return received.length > maxAnswerBytes
        ? new TunnelError('answered CONNECT with too many bytes')
        : undefined
    }
    const [, code] = /^HTTP\/1\.[01] ([1-9]\d\d)(?: |\r\n)/.exec(text.slice(start, end + 2)) ?? []
    if (code === undefined) return new TunnelError('does not speak HTTP')
    const status = Number(code)
    start = end + 4
    // An interim answer (RFC 9110 15.2); the final one follows.
    if (status < 200) continue
    if (status < 300)
      return start === text.length ? 'tunnel' : new TunnelError('sent bytes that TLS does not begin with')
    return refusal(status)
  }
}

function refusal(status: number): TunnelError {
  const why = status === 407 ? ': it does not accept the credentials of UPSTREAM_PROXY' : ''
  return new TunnelError(`answered CONNECT with ${status}${why}`, {
    code: status === 504 ? 'PROXY_TIMEOUT' : 'PROXY_REFUSED',
  })
}
