import type { Redis } from 'ioredis'
import { withDeadline } from './deadline.ts'

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
}: {
  connect: () => Redis
  timeoutMs: number
}): Listener {
  const channels = new Map<string, Listening[]>()
  let connection: Redis | undefined
  let timer: NodeJS.Timeout | undefined
  let closed = false

  async function hold(): Promise<void> {
    const redis = connect()
    connection = redis
    redis.on('error', () => {})
    redis.on('message', (channel: string, message: string) => {
      for (const { onMessage } of channels.get(channel) ?? []) onMessage(message)
    })
    let wake = () => {}
    redis.once('end', () => wake())
    try {
      await redis.connect()
      await listenTo(redis, [...channels.keys()])
      while (!closed) {
        await new Promise<void>((resolve) => {
          wake = resolve
          timer = setTimeout(resolve, beatEveryMs).unref()
        })
        await withDeadline(timeoutMs, () => redis.ping())
      }
    } catch {
      // It is replaced, and whoever listens is told when that is done. That the store is down, others say.
    }
    redis.disconnect()
    if (!closed) timer = setTimeout(hold, reconnectAfterMs).unref()
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
