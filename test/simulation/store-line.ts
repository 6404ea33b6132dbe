import type { StoreOperation } from '../../src/events.ts'
import type { SharedStore, StoreCommands } from '../../src/memory/store.ts'
import type { StreamPart } from '../../src/memory/stream-store.ts'
import type { MemoryStore } from '../support/stores/memory-store.ts'
import type { SimulatedStream } from '../support/stores/simulated-stream.ts'
import type { ReplicaTimers } from './replica.ts'

export const storeTimeoutMs = 50

/** What all replicas have: the store in memory, and what becomes of the commands to it. */
export interface StoreInMemory {
  readonly stream: SimulatedStream
  readonly scripts: MemoryStore
  isAway: boolean
  /** Each time all connections end. */
  timesAway: number
  /** Each command takes so much longer. */
  slowMs: number
  /** A command takes so long. */
  tripMs(): number
}

/** The store, as one replica reaches it. `src/memory/availability.ts` is not in this world: it is up unless away. */
export class StoreLine implements SharedStore {
  readonly keyPrefix = 'q:'
  readonly salt = 'salt'
  readonly outage = undefined
  readonly backWithinMs = 3_500
  readonly #store: StoreInMemory
  readonly #timers: ReplicaTimers
  /** When each was sent, the oldest first. */
  readonly #unanswered = new Map<object, number>()
  #lastDueMs = 0

  constructor(store: StoreInMemory, timers: ReplicaTimers) {
    this.#store = store
    this.#timers = timers
  }

  get connectionsEnded(): number {
    return this.#store.timesAway
  }

  get up(): boolean {
    const [oldestMs = Number.POSITIVE_INFINITY] = this.#unanswered.values()
    return !this.#store.isAway && this.#timers.steadyMs() - oldestMs <= storeTimeoutMs
  }

  /** Commands arrive in their order. Rejects if the store goes away meanwhile, though it may have run the command. */
  #send<Answer>(run: () => Answer): Promise<Answer> {
    const { isAway } = this.#store
    const nowMs = this.#timers.steadyMs()
    this.#lastDueMs = Math.max(this.#lastDueMs, nowMs + this.#store.tripMs())
    const command = {}
    this.#unanswered.set(command, nowMs)
    return new Promise((resolve, reject) => {
      const arrive = () => {
        this.#unanswered.delete(command)
        if (isAway || this.#store.isAway) reject(new Error('the connection was closed'))
        else resolve(run())
      }
      if (this.#lastDueMs === nowMs) process.nextTick(arrive)
      else this.#timers.setTimeout(arrive, this.#lastDueMs - nowMs)
    })
  }

  async #within<Answer>(
    ms: number,
    operation: StoreOperation,
    commands: StoreCommands<Answer>,
  ): Promise<Answer | undefined> {
    const over = (run: () => unknown) => this.#send(run)
    const answer = commands(this.#store.scripts.clientOf(operation, over)).catch(
      () => undefined,
    )
    return new Promise((resolve) => {
      const timer = this.#timers.setTimeout(() => resolve(undefined), ms)
      void answer.then((answered) => {
        this.#timers.clear(timer)
        resolve(answered)
      })
    })
  }

  async run<Answer>(
    operation: StoreOperation,
    commands: StoreCommands<Answer>,
  ): Promise<Answer | undefined> {
    return this.up ? this.#within(storeTimeoutMs, operation, commands) : undefined
  }

  insist<Answer>(
    operation: StoreOperation,
    commands: StoreCommands<Answer>,
  ): Promise<Answer | undefined> {
    return this.#within(1_000, operation, commands)
  }

  async describeServer() {
    return { version: '7.2.0', maxmemoryPolicy: 'noeviction' }
  }

  appendEntry(_key: string, { text }: { text: string }): Promise<string> {
    return this.#send(() => this.#store.stream.append(text))
  }

  readEntries(_key: string, fromId: string): Promise<StreamPart> {
    return this.#send(() => this.#store.stream.read(fromId))
  }

  async close(): Promise<void> {}
}
