import { type Dispatcher, Pool } from 'undici'

export type UpstreamName = 'swap' | 'payments' | 'webhooks'

export interface UpstreamLimits {
  connectTimeoutMs: number
  headersTimeoutMs: number
  bodyTimeoutMs: number
  connections: number
}

export interface UpstreamRequest {
  method: string
  /** The request target as received; the base URL's path goes before it. */
  target: string
  headers: string[]
  body: Dispatcher.DispatchOptions['body']
}

/** undici's raw handler: header bytes as they came, no copies, no promises. */
export interface UpstreamHandler {
  /** Called just before the first byte is written; what it throws cancels the request unsent. */
  onConnect(abort: (reason?: Error) => void): void
  onHeaders(status: number, rawHeaders: Buffer[], resume: () => void, reason: string): boolean
  onData(chunk: Buffer): boolean
  onComplete(): void
  onError(error: Error): void
}

/** One upstream: where it is, and how many connections and how much patience it gets. */
export interface Upstream {
  readonly name: UpstreamName
  dispatch(request: UpstreamRequest, handler: UpstreamHandler): void
  close(): Promise<void>
}

// Providers commonly keep an idle connection for 5 s; a request must never meet one that is just closing.
const idleMs = 4_000
const idleMarginMs = 1_000
const idleMostMs = 60_000
/** Connections are renewed, so that a change in DNS is followed even under constant load. */
const connectionLifeMs = 60_000
const answerHeadBytes = 65_536

export function createUpstream(options: {
  name: UpstreamName
  baseUrl: string
  limits: UpstreamLimits
}): Upstream {
  const { name, limits } = options
  const { origin, pathname } = new URL(options.baseUrl)
  const basePath = pathname.replace(/\/+$/, '')
  const pool = new Pool(origin, {
    connections: limits.connections,
    pipelining: 1,
    connect: { timeout: limits.connectTimeoutMs },
    headersTimeout: limits.headersTimeoutMs,
    bodyTimeout: limits.bodyTimeoutMs,
    keepAliveTimeout: idleMs,
    keepAliveTimeoutThreshold: idleMarginMs,
    keepAliveMaxTimeout: idleMostMs,
    clientTtl: connectionLifeMs,
    maxHeaderSize: answerHeadBytes,
  })
  return {
    name,
    dispatch(request, handler) {
      pool.dispatch(
        {
          method: request.method as Dispatcher.HttpMethod,
          // Never through `new URL(target, base)`: "//evil.example/x" would choose the host.
          path: basePath + request.target,
          headers: request.headers,
          body: request.body ?? null,
        },
        handler,
      )
    },
    close: () => pool.destroy(),
  }
}
