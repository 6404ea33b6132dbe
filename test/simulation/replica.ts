import type { Clock, Timer, Timers } from '../../src/clock.ts'
import { loadConfig } from '../../src/config/load.ts'
import { closeAll } from '../../src/gateway/lifecycle.ts'
import { makeParts, type Parts } from '../../src/gateway/parts.ts'
import { silentLogger } from '../../src/process/logger.ts'
import { createApp } from '../../src/server/app.ts'
import {
  createTrafficServer,
  type TrafficServer,
} from '../../src/server/traffic-server.ts'
import { Line } from './line.ts'
import { StoreLine } from './store-line.ts'
import type { World } from './world.ts'

/** Timers of one replica, which end with it. */
export class ReplicaTimers implements Timers {
  readonly set = new Set<Timer>()
  isOver = false
  readonly #timers: Timers

  constructor(timers: Timers) {
    this.#timers = timers
  }

  steadyMs(): number {
    return this.#timers.steadyMs()
  }

  setTimeout(onTime: () => void, ms: number): Timer {
    const timer = this.#timers.setTimeout(() => {
      this.set.delete(timer)
      if (!this.isOver) onTime()
    }, ms)
    this.set.add(timer)
    return timer
  }

  setInterval(onTime: () => void, ms: number): Timer {
    const timer = this.#timers.setInterval(() => {
      if (this.isOver) this.#timers.clear(timer)
      else onTime()
    }, ms)
    this.set.add(timer)
    return timer
  }

  clear(timer: Timer | undefined): void {
    if (timer !== undefined) this.set.delete(timer)
    this.#timers.clear(timer)
  }
}

/** One gateway: all of its parts, its app and its server, over connections in memory. */
export class Replica {
  readonly number: number
  readonly timers: ReplicaTimers
  /** Orders were accepted for these quotes, as it knows. */
  readonly used = new Set<string>()
  isServing = false
  parts!: Parts
  readonly #world: World
  readonly #lines = new Set<Line>()
  readonly #closes: ((leftMs: number) => unknown)[] = []
  #server!: TrafficServer
  /** Of its wall clock. */
  clockAheadMs = 0

  constructor(world: World, number: number) {
    this.#world = world
    this.number = number
    this.timers = new ReplicaTimers(world.timers)
  }

  async start(): Promise<void> {
    const { timers } = this
    const clock: Clock = {
      nowMs: () => Math.floor(this.#world.nowMs() + this.clockAheadMs),
      steadyMs: () => timers.steadyMs(),
      timers,
    }
    const settings = {
      SWAP_BASE_URL: 'http://provider.example',
      VALKEY_URL: 'redis://store.example',
      PORT: 0,
      ADMIN_PORT: 0,
      UPSTREAM_CONNECTIONS: 8,
      // The slots of the default, which no history fills, took half of a start.
      QUOTE_CACHE_ENTRIES: 1_000,
      QUOTE_REFRESH_AHEAD_MS: this.number === 0 ? 2_000 : 0,
    }
    const sharedStore = new StoreLine(this.#world.store, timers)
    const making = makeParts(loadConfig(settings, { by: 'library' }), {
      log: silentLogger(),
      overrides: { clock, network: { connect: this.#connect, sharedStore } },
      opened: (close) => this.#closes.unshift(close),
    })
    this.parts = await this.#world.untilThen(making)
    const { events, exchanges, journals, notes } = this.parts
    await journals.stream?.start(notes)
    const { listener, messages } = createApp(exchanges, this.parts)
    this.#server = createTrafficServer({
      listener,
      messages,
      events,
      timers,
      headTimeoutMs: 10_000,
    })
    this.isServing = true
  }

  readonly #connect: World['provider']['connect'] = (target, callback) => {
    this.#world.provider.connect(target, (...[error, socket]) => {
      if (socket instanceof Line) this.#keep(socket)
      if (error) callback(error, null)
      else callback(null, socket)
    })
  }

  #keep(line: Line): void {
    this.#lines.add(line)
    line.once('close', () => this.#lines.delete(line))
  }

  /** A client's connection to it. */
  lineFrom(address: string): Line {
    const [theirs, ours] = Line.pair(['10.0.0.1', address])
    this.#keep(ours)
    this.#server.emit('connection', ours)
    return theirs
  }

  /** Its process ends at once. */
  kill(): void {
    this.isServing = false
    this.timers.isOver = true
    for (const line of this.#lines) line.resetAndDestroy()
  }

  /** Its process ends as it should, once all is answered. */
  async close(): Promise<void> {
    this.isServing = false
    const { exchanges, orders } = this.parts
    for (let ms = 0; ms < 20_000 && exchanges.inFlight + orders.underWay > 0; ms += 100)
      await new Promise<void>((resolve) => this.timers.setTimeout(resolve, 100))
    await closeAll(this.#closes.map((close) => () => close(0)))
    for (const line of this.#lines) line.destroy()
  }

  /** What it still holds though no caller waits. */
  held(): string[] {
    const { bodies, cache, exchanges, orders, upstream } = this.parts
    const counts = {
      exchanges: exchanges.inFlight,
      flights: cache.flights.size,
      orders: orders.underWay,
      'bytes of bodies': bodies.heldBytes,
      connections: upstream.connections.busy + upstream.connections.lanes.waiting,
      calls: upstream.inFlight,
    }
    return Object.entries(counts).flatMap(([what, count]) =>
      count === 0 ? [] : `${count} ${what}`,
    )
  }
}
