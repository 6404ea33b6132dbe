import type { Redis } from 'ioredis'
import { withDeadline } from './deadline.ts'
import { isRefusal } from './store-failure.ts'

export interface Listening {
  onMessage(message: string): void
  onGap(): void
}

export interface Listener {
  subscribe(channel: string, listening: Listening): void
  close(): void
}

const beatEveryMs = 500
const reconnectAfterMs = 500

/**
 * Messages over a connection of its own. A connection that is frozen, or leads nowhere any more, looks like one
 * without messages: so it is asked for a sign of life all the time, and replaced when there is none.
 */
export function createListener({
  connect,
  timeoutMs,
  onHearing,
}: {
  connect: () => Redis
  timeoutMs: number
  /** Told at every sign of life, and with the reason when we cannot listen. */
  onHearing(deafBecause?: unknown): void
}): Listener {
  const channels = new Map<string, Listening[]>()
  let connection: Redis | undefined
  let timer: NodeJS.Timeout | undefined
  let closed = false

  async function hold(): Promise<void> {
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
    let heardSinceMs = Number.POSITIVE_INFINITY
    redis.once('end', () => wake())
    try {
      await redis.connect()
      await listenTo(redis, [...channels.keys()])
      heardSinceMs = performance.now()
      while (!closed) {
        await withDeadline(timeoutMs, () => redis.ping())
        onHearing()
        await new Promise<void>((resolve) => {
          wake = resolve
          timer = setTimeout(resolve, beatEveryMs).unref()
        })
      }
    } catch (error) {
      // It is replaced, and whoever listens is told when that is done. One that was just lost may be back at once.
      if (isRefusal(error)) onHearing(error)
      else if (heardSinceMs === Number.POSITIVE_INFINITY) onHearing(cause ?? error)
    }
    redis.disconnect()
    // At once, since what others evict meanwhile is handed out here; but no storm at a server that cuts it each time.
    const wasHeld = performance.now() - heardSinceMs >= reconnectAfterMs
    if (!closed) timer = setTimeout(hold, wasHeld ? 0 : reconnectAfterMs).unref()
  }

  async function listenTo(redis: Redis, names: readonly string[]): Promise<void> {
    await withDeadline(timeoutMs, () => redis.subscribe(...names))
    // Only now: what is asked for from here on can be trusted until a message says otherwise.
    for (const name of names) for (const { onGap } of channels.get(name) ?? []) onGap()
  }

  return {
    subscribe(channel, listening) {
      const listeners = channels.get(channel)
      channels.set(channel, [...(listeners ?? []), listening])
      if (connection === undefined) void hold()
      else if (listeners === undefined && connection.status === 'ready') {
        const redis = connection
        listenTo(redis, [channel]).catch(() => redis.disconnect())
      }
    },
    close() {
      closed = true
      clearTimeout(timer)
      connection?.disconnect()
    },
  }
}
