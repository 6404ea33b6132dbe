import { Cluster, type ClusterOptions, Redis, type RedisOptions } from 'ioredis'

export type ValkeyClient = Redis | Cluster

export interface StoreNode {
  readonly host: string
  readonly port: number
}

/** What this room has to know to connect; config/store-url.ts reads it out of VALKEY_URL. */
export interface StoreAddress {
  readonly kind: 'single' | 'sentinel' | 'cluster'
  readonly nodes: readonly StoreNode[]
  readonly tls: boolean
  readonly username: string | undefined
  readonly password: string | undefined
  readonly database: number
  readonly masterName: string | undefined
  readonly sentinelPassword: string | undefined
}

const connectTimeoutMs = 2_000

/** How every connection is made: it says nothing of itself, waits for nothing, and repeats nothing. */
function connectionOptions({ username, password, tls }: StoreAddress): RedisOptions {
  return {
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    ...(tls ? { tls: {} } : {}),
    connectTimeout: connectTimeoutMs,
    // A frozen server never answers the end of a connection. A Cluster would have made the next one by then, and when
    // it is told of this end it forgets that one, still open.
    disconnectTimeout: 100,
    lazyConnect: true,
    // A command that cannot go out now fails now; one that was under way may be half done and is not sent twice.
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    maxRetriesPerRequest: 0,
    // Whether the server takes commands is asked with a command, by whoever watches it.
    enableReadyCheck: false,
    disableClientInfo: true,
    // A server that became a replica refuses to write; the next connection finds the one that took over.
    reconnectOnError: ({ message }) => /^(READONLY|MASTERDOWN)/.test(message),
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
  const { enableOfflineQueue: _, reconnectOnError: __, ...redisOptions } = connectionOptions(address)
  return {
    redisOptions,
    lazyConnect: true,
    enableOfflineQueue: false,
    enableReadyCheck: false,
    slotsRefreshTimeout: connectTimeoutMs,
    clusterRetryStrategy: () => retryAfterMs,
    // With TLS a node's name has to be the one in its certificate, not the address behind it.
    ...(address.tls ? { dnsLookup: (name, found) => found(null, name) } : {}),
  }
}

/** Often enough to be back within a second, seldom enough to be no burden to a server that starts or refuses. */
const retryAfterMs = 500

/** A client that is not connected yet. */
export function createClient(address: StoreAddress): ValkeyClient {
  if (address.kind === 'cluster')
    return new Cluster([...address.nodes], clusterOptions(address)).on('+node', survivingNonsense)
  let heldSinceMs = Number.POSITIVE_INFINITY
  const client = survivingNonsense(
    new Redis({
      ...serverOptions(address),
      // A connection that was held and is cut is made anew at once: until then every order is judged by what is known here.
      retryStrategy() {
        const wasHeld = performance.now() - heldSinceMs >= retryAfterMs
        heldSinceMs = Number.POSITIVE_INFINITY
        return wasHeld ? 0 : retryAfterMs
      },
    }),
  )
  client.on('ready', () => {
    heldSinceMs = performance.now()
  })
  return client
}

/**
 * A connection for messages, which does not come back by itself: whoever listens must know when it was lost.
 * Any node of a Cluster hears all messages.
 */
export function createListeningConnection(address: StoreAddress, client: ValkeyClient): Redis {
  const options = { ...serverOptions(address), retryStrategy: null }
  if (!(client instanceof Cluster)) return survivingNonsense(new Redis(options))
  const known = client.nodes('master').map(({ options: { host, port } }): StoreNode | undefined => {
    return host === undefined || port === undefined ? undefined : { host, port }
  })
  const nodes = known.length > 0 ? known : address.nodes
  return survivingNonsense(new Redis({ ...options, ...nodes[Math.floor(Math.random() * nodes.length)] }))
}

/** The client throws at some bytes that are no answer, out of the event of its socket: that would end the process. */
function survivingNonsense(redis: Redis): Redis {
  return redis.on('connect', () => {
    const { stream } = redis
    for (const read of stream.listeners('data')) {
      stream.off('data', read as () => void).prependListener('data', (bytes: Buffer) => {
        try {
          read.call(stream, bytes)
        } catch (error) {
          stream.destroy(error as Error)
        }
      })
    }
  })
}

/**
 * One small write everywhere, and one message, to ourselves: a server that answers and cannot write is no use here, and
 * one that lets us tell the others nothing leaves used quotes with them.
 */
export async function proveAlive(client: ValkeyClient, key: string, ownWord: string): Promise<void> {
  const answers: Promise<unknown>[] = [client.set(key, '1', 'PX', 10_000), client.publish(key, ownWord)]
  if (client instanceof Cluster) answers.push(...client.nodes('master').map((node) => node.ping()))
  // Where its database is refused, the client goes on in number 0, which may be another stage's.
  else if (client.options.db) answers.push(client.select(client.options.db))
  await Promise.all(answers)
}
