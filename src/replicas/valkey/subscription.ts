import type { Redis } from 'ioredis'
import { withDeadline } from './deadline.ts'
import { isRefusal } from './failure.ts'

export interface Subscriber {
  onMessage(message: string): void
  /** Messages may have been missed. */
  onGap(): void
}

export interface Subscription {
  subscribe(channel: string, subscriber: Subscriber): void
  /** A probe published the marker, which arrives here unless the client is connected to another server. */
  markerPublished(): void
  close(): void
}

const pingEveryMs = 500
const reconnectAfterMs = 500
/** Counted in a row and not by time: a process that was paused or is busy has published as few as it received. */
const maxMissedMarkers = 3

/**
 * Receives messages over a connection of its own. A dead or frozen connection looks like one without messages, so it is
 * pinged all the time and replaced when a ping fails. A connection to a former master answers pings too, so it must also
 * deliver the marker that each probe of this process publishes.
 */
export function createSubscription({
  connect,
  timeoutMs,
  marker,
  onSubscribed,
  onFailed,
  replaceClient,
}: {
  connect: () => Redis
  timeoutMs: number
  /** The message that each probe of this process publishes, and no other process does. */
  marker: { channel: string; message: string }
  /** Called again after each answered ping. */
  onSubscribed(): void
  onFailed(error: unknown): void
  /** Called when the client, and not the subscription, is connected to the wrong server. */
  replaceClient(): void
}): Subscription {
  const channels = new Map<string, Subscriber[]>([[marker.channel, [{ onMessage: onMarker, onGap() {} }]]])
  let connection: Redis | undefined
  let timer: NodeJS.Timeout | undefined
  let closed = false
  /** Markers published since the last one received; undefined while this connection cannot receive any. */
  let missedMarkers: number | undefined
  /** Whether too many markers were missed, and none was received since. */
  let isOtherServer = false

  function onMarker(message: string): void {
    if (message !== marker.message) return
    missedMarkers = 0
    if (isOtherServer) onSubscribed()
    isOtherServer = false
  }

  /** Connects and subscribes, pings until the connection fails, and begins again. */
  async function holdConnection(): Promise<void> {
    const redis = connect()
    connection = redis
    let cause: unknown
    redis.on('error', (error) => {
      cause = error
    })
    redis.on('message', (channel: string, message: string) => {
      for (const { onMessage } of channels.get(channel) ?? []) onMessage(message)
    })
    let wake = () => {}
    let subscribedAtMs = Number.POSITIVE_INFINITY
    redis.once('end', () => wake())
    try {
      await redis.connect()
      await subscribeTo(redis, [...channels.keys()])
      subscribedAtMs = performance.now()
      missedMarkers = 0
      while (!closed) {
        await withDeadline(timeoutMs, () => redis.ping())
        if (!isOtherServer) onSubscribed()
        await new Promise<void>((resolve) => {
          wake = resolve
          timer = setTimeout(resolve, pingEveryMs).unref()
        })
      }
    } catch (error) {
      // A lost connection is not reported: it may be back at once, and then subscribers get `onGap`.
      if (isRefusal(error)) onFailed(error)
      else if (subscribedAtMs === Number.POSITIVE_INFINITY) onFailed(cause ?? error)
    }
    missedMarkers = undefined
    redis.disconnect()
    // Reconnects at once, since quotes evicted elsewhere are handed out here meanwhile. A server that cuts each new
    // connection is left `reconnectAfterMs` between two.
    const wasStable = performance.now() - subscribedAtMs >= reconnectAfterMs
    if (!closed) timer = setTimeout(holdConnection, wasStable ? 0 : reconnectAfterMs).unref()
  }

  async function subscribeTo(redis: Redis, names: readonly string[]): Promise<void> {
    await withDeadline(timeoutMs, () => redis.subscribe(...names))
    // Only now: what is read from the store from here on is valid until a message says otherwise.
    for (const name of names) for (const { onGap } of channels.get(name) ?? []) onGap()
  }

  return {
    subscribe(channel, subscriber) {
      const others = channels.get(channel)
      channels.set(channel, [...(others ?? []), subscriber])
      if (connection === undefined) void holdConnection()
      else if (others === undefined && connection.status === 'ready') {
        const redis = connection
        subscribeTo(redis, [channel]).catch(() => redis.disconnect())
      }
    },
    markerPublished() {
      if (missedMarkers === undefined) return
      missedMarkers += 1
      if (missedMarkers < maxMissedMarkers) return
      missedMarkers = undefined
      onFailed(new Error('its messages come from another server than its answers'))
      connection?.disconnect()
      // The replaced connection misses the markers too, so it is the client that is connected to the wrong server.
      if (isOtherServer) replaceClient()
      isOtherServer = true
    },
    close() {
      closed = true
      clearTimeout(timer)
      connection?.disconnect()
    },
  }
}
