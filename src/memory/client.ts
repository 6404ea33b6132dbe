import { Cluster, type ClusterOptions, Redis, type RedisOptions } from 'ioredis'

export type ValkeyClient = Redis | Cluster

/** The address of the shared store, parsed from VALKEY_URL. */
export interface StoreAddress {
  readonly kind: 'single' | 'sentinel' | 'cluster'
  /** The server, the Sentinels, or some nodes of the Cluster, which name the other nodes. */
  readonly nodes: readonly StoreNode[]
  readonly tls: boolean
  readonly username: string | undefined
  readonly password: string | undefined
  readonly database: number
  /** The name under which the Sentinels know the server to use. */
  readonly masterName: string | undefined
  readonly sentinelPassword: string | undefined
}

interface StoreNode {
  readonly host: string
  readonly port: number
}

export const connectTimeoutMs = 2_000

/** Options of every connection. It sends no client info, queues no commands and resends none. */
function connectionOptions({ username, password, tls }: StoreAddress): RedisOptions {
  return {
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    ...(tls ? { tls: {} } : {}),
    connectTimeout: connectTimeoutMs,
    // A frozen server never acknowledges that a connection ends. By ioredis's default timeout, a Cluster would have made
    // the next connection; the late end of this one makes it forget the new one, which stays open.
    disconnectTimeout: 100,
    lazyConnect: true,
    // A command that cannot be sent now fails now. A command in flight may have been run, so it is not sent again.
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    // The greeting (availability.ts) finds out whether the server takes commands.
    enableReadyCheck: false,
    // With it, a connection that is accepted and closed at once stays `ready` without end.
    disableClientInfo: true,
    // With autopipelining, commands would overtake others. A `commandTimeout` would not stop what was sent.
    enableAutoPipelining: false,
  }
}

function serverOptions(address: StoreAddress): RedisOptions {
  const { kind, nodes, tls, database, masterName, sentinelPassword } = address
  const options = { ...connectionOptions(address), db: database }
  if (kind !== 'sentinel') return { ...options, ...nodes[0] }
  return {
    ...options,
    sentinels: [...nodes],
    name: masterName ?? '',
    ...(sentinelPassword === undefined ? {} : { sentinelPassword }),
    sentinelCommandTimeout: connectTimeoutMs,
    ...(tls ? { enableTLSForSentinelMode: true, sentinelTLS: {} } : {}),
  }
}

function clusterOptions(address: StoreAddress): ClusterOptions {
  const { enableOfflineQueue: _, ...redisOptions } = connectionOptions(address)
  return {
    redisOptions,
    lazyConnect: true,
    enableOfflineQueue: false,
    enableReadyCheck: false,
    slotsRefreshTimeout: connectTimeoutMs,
    clusterRetryStrategy: () => retryAfterMs,
    // With TLS a node's name is not resolved to an address, because the certificate has the name.
    ...(address.tls ? { dnsLookup: (name, found) => found(null, name) } : {}),
  }
}

/** Short enough to be back within a second, long enough not to burden a server that starts or refuses. */
export const retryAfterMs = 500

/** A client that is not connected yet. */
export function createClient(address: StoreAddress): ValkeyClient {
  if (address.kind === 'cluster')
    return new Cluster([...address.nodes], clusterOptions(address)).on(
      '+node',
      catchParserErrors,
    )
  let readySinceMs = Number.POSITIVE_INFINITY
  const client = catchParserErrors(
    new Redis({
      ...serverOptions(address),
      // A connection that was stable and is cut is replaced at once, because until then orders are judged by this
      // replica's ledger alone.
      retryStrategy() {
        const wasStable = performance.now() - readySinceMs >= retryAfterMs
        readySinceMs = Number.POSITIVE_INFINITY
        return wasStable ? 0 : retryAfterMs
      },
    }),
  )
  client.on('ready', () => {
    readySinceMs = performance.now()
  })
  return client
}

/**
 * ioredis throws out of the socket's 'data' event at some malformed replies, which would end the process. And it takes
 * what a server says to a connection that it will not have for the reply to a command.
 */
function catchParserErrors(redis: Redis): Redis {
  return redis.on('connect', () => {
    const { stream } = redis
    let first: Buffer | undefined
    for (const read of stream.listeners('data')) {
      stream.off('data', read as () => void).prependListener('data', (bytes: Buffer) => {
        first ??= bytes
        try {
          if (first === bytes && isDenial(bytes))
            throw new Error(bytes.toString('latin1', 1).trim())
          read.call(stream, bytes)
        } catch (error) {
          stream.destroy(error as Error)
        }
      })
    }
  })
}

/** A server in protected mode says why it will not have a connection, and closes it. */
function isDenial(bytes: Buffer): boolean {
  return bytes.toString('latin1', 0, 7) === '-DENIED'
}
