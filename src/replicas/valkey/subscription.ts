import type { Redis } from 'ioredis'
import { withDeadline } from './deadline.ts'
import { isRefusal } from './failure.ts'

export interface Listening {
  onMessage(message: string): void
  onGap(): void
}

export interface Listener {
  subscribe(channel: string, listening: Listening): void
  /** A probe was answered, and what it said is on its way to us: unless the client asks another server than ours. */
  probed(): void
  close(): void
}

const beatEveryMs = 500
const reconnectAfterMs = 500
/** In a row, and not by time: a process that was paused, or is busy, has heard no less than it has said. */
const unheardProbesMost = 3

/**
 * Messages over a connection of its own. A connection that is frozen, or leads nowhere any more, looks like one
 * without messages: so it is asked for a sign of life all the time, and replaced when there is none. One to a server that
 * was a master once gives those signs too: so it has to bring what this process says itself, with each probe.
 */
export function createListener({
  connect,
  timeoutMs,
  ownWord,
  onHearing,
  replaceClient,
}: {
  connect: () => Redis
  timeoutMs: number
  /** What each probe of this process says, and no other process. */
  ownWord: { channel: string; message: string }
  /** Told at every sign of life, and with the reason when we cannot listen. */
  onHearing(deafBecause?: unknown): void
  replaceClient(): void
}): Listener {
  const channels = new Map<string, Listening[]>([[ownWord.channel, [{ onMessage: onWord, onGap() {} }]]])
  let connection: Redis | undefined
  let timer: NodeJS.Timeout | undefined
  let closed = false
  /** Since this connection listens. */
  let unheardProbes: number | undefined
  /** Whether that was too many, until one is heard again. */
  let isElsewhere = false

  function onWord(message: string): void {
    if (message !== ownWord.message) return
    unheardProbes = 0
    if (isElsewhere) onHearing()
    isElsewhere = false
  }

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
      unheardProbes = 0
      while (!closed) {
        await withDeadline(timeoutMs, () => redis.ping())
        if (!isElsewhere) onHearing()
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
    unheardProbes = undefined
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
    probed() {
      if (unheardProbes === undefined) return
      unheardProbes += 1
      if (unheardProbes < unheardProbesMost) return
      unheardProbes = undefined
      onHearing(new Error('its messages come from another server than its answers'))
      connection?.disconnect()
      // A new connection was made, and is elsewhere too: then it is the client that was left behind.
      if (isElsewhere) replaceClient()
      isElsewhere = true
    },
    close() {
      closed = true
      clearTimeout(timer)
      connection?.disconnect()
    },
  }
}
