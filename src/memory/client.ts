import { Cluster, type ClusterOptions, Redis, type RedisOptions } from 'ioredis'

export type ValkeyClient = Redis | Cluster

/** Parsed from VALKEY_URL. */
export interface StoreAddress {
  readonly kind: 'single' | 'sentinel' | 'cluster'
  /** The server, the Sentinels, or some nodes of the Cluster, which name the others. */
  readonly nodes: readonly StoreNode[]
  readonly tls: boolean
  readonly username: string | undefined
  readonly password: string | undefined
  readonly database: number
  /** The name that the Sentinels have for the server. */
  readonly masterName: string | undefined
  readonly sentinelPassword: string | undefined
}

interface StoreNode {
  readonly host: string
  readonly port: number
}

export const connectTimeoutMs = 2_000

function connectionOptions({ username, password, tls }: StoreAddress): RedisOptions {
  return {
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    ...(tls ? { tls: {} } : {}),
    connectTimeout: connectTimeoutMs,
    // A frozen server never acknowledges the end of a connection. With ioredis's longer default, a Cluster has
    // reconnected by then; it forgets the new connection, and leaves it open.
    disconnectTimeout: 100,
    lazyConnect: true,
    // A command that cannot be sent fails at once. A command in flight may have been run, so it is not repeated.
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    // The greeting (availability.ts) shows whether the server takes commands.
    enableReadyCheck: false,
    // With the client info, a connection that is accepted and closed at once stays `ready` without end.
    disableClientInfo: true,
    // Autopipelined commands would overtake others. A `commandTimeout` would not stop a command that was sent.
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
    // With TLS a node's name is not resolved: the certificate has the name.
    ...(address.tls ? { dnsLookup: (name, found) => found(null, name) } : {}),
  }
}

/** Back within a second, without burdening a server that starts or refuses. */
export const retryAfterMs = 500

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
      // A stable connection that is cut is replaced at once: until then, orders are judged by this replica's ledger
      // alone.
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
 * ioredis throws at some malformed replies in the socket's 'data' event, which would end the process. It also takes a
 * server's refusal of the connection for the reply to a command.
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

/** A server in protected mode says why it refuses a connection, and closes it. */
function isDenial(bytes: Buffer): boolean {
  return bytes.toString('latin1', 0, 7) === '-DENIED'
}
