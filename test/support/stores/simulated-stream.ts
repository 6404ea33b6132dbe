import { EventEmitter } from 'node:events'
import { Availability } from '../../../src/memory/availability.ts'
import type { ValkeyClient } from '../../../src/memory/client.ts'
import {
  firstId,
  instantOf,
  partEntries,
  type StreamEntry,
  type StreamPart,
  type StreamStore,
} from '../../../src/memory/stream-store.ts'
import { silentLogger } from '../../../src/process/logger.ts'

/** One stream in a store that can be emptied, promoted without its last writes, frozen and full, on the clock that is faked. */
export class SimulatedStream {
  entries: StreamEntry[] = []
  /** Of everything that was appended. */
  #ids: string[] = []
  #behindMs = 0
  isFrozen = false
  isFull = false
  readonly links = new Set<SimulatedLink>()

  refuseIfFull(): void {
    if (this.isFull)
      throw replyError("OOM command not allowed when used memory > 'maxmemory'")
  }

  append(text: string): string {
    this.refuseIfFull()
    const lastId = this.#lastId
    const nowMs = Date.now() - this.#behindMs
    const isOfLast = nowMs <= instantOf(lastId)
    const id = isOfLast ? `${instantOf(lastId)}-${countOf(lastId) + 1}` : `${nowMs}-0`
    this.entries.push({ id, text })
    this.#ids.push(id)
    return id
  }

  info(): Pick<StreamPart, 'oldestId' | 'added' | 'length'> {
    const oldestId = this.entries[0]?.id ?? firstId
    return { oldestId, added: this.#ids.length, length: this.entries.length }
  }

  /** With the entry of that id itself. */
  read(fromId: string): StreamPart {
    this.refuseIfFull()
    const at = this.entries.findIndex(({ id }) => !isLater(fromId, id))
    const entries = at === -1 ? [] : this.entries.slice(at, at + partEntries)
    return { ...this.info(), entries, storeNowMs: Date.now() }
  }

  get #lastId(): string {
    return this.#ids.at(-1) ?? firstId
  }

  empty(): void {
    this.entries = []
    this.#ids = []
  }

  failOver(lost: number, behindMs: number): void {
    const lostIds = new Set(lost === 0 ? [] : this.#ids.splice(-lost))
    this.entries = this.entries.filter(({ id }) => !lostIds.has(id))
    this.#behindMs = behindMs
    for (const link of this.links) link.end({ mayRun: false })
  }

  trim(count: number): StreamEntry[] {
    return this.entries.splice(0, count)
  }

  freezeFor(ms: number): void {
    this.isFrozen = true
    setTimeout(() => {
      this.isFrozen = false
      for (const link of this.links) link.move()
    }, ms)
  }
}

function isLater(id: string, other: string): boolean {
  const [ms, otherMs] = [instantOf(id), instantOf(other)]
  return ms > otherMs || (ms === otherMs && countOf(id) > countOf(other))
}

const countOf = (id: string) => Number(id.slice(id.indexOf('-') + 1))

function replyError(message: string): Error {
  const error = new Error(message)
  error.name = 'ReplyError'
  return error
}

interface Message {
  dueMs: number
  run(): void
}

/** A direction of a connection: messages arrive in order. */
class Way {
  readonly #messages: Message[] = []
  #lastDueMs = 0

  send(takesMs: number, run: () => void, move: () => void): void {
    // Faked timers take whole milliseconds, and a faked `performance.now()` is off by less than a nanosecond.
    const nowMs = Math.round(performance.now())
    this.#lastDueMs = Math.max(this.#lastDueMs, nowMs + takesMs)
    this.#messages.push({ dueMs: this.#lastDueMs, run })
    setTimeout(move, this.#lastDueMs - nowMs)
  }

  move(): void {
    const nowMs = Math.round(performance.now())
    while (this.#messages[0] !== undefined && this.#messages[0].dueMs <= nowMs)
      this.#messages.shift()?.run()
  }
}

interface Connection {
  readonly toStore: Way
  readonly toReplica: Way
  readonly unanswered: Set<(error: Error) => void>
  /** Its commands still reach the store. */
  mayRun: boolean
}

const reconnectAfterMs = 100

/** One replica's connection to the stream, and what `memory/valkey.ts` makes of its answers' age. */
export class SimulatedLink implements StreamStore {
  readonly #stream: SimulatedStream
  readonly #tripMs: () => number
  readonly #availability: Availability
  readonly #client = new EventEmitter()
  #connection: Connection | undefined
  readonly #ended = new Set<Connection>()
  #isGone = false
  readonly backWithinMs = 3_500
  isCut = false
  slowByMs = 0

  constructor(stream: SimulatedStream, timeoutMs: number, tripMs: () => number) {
    this.#stream = stream
    this.#tripMs = tripMs
    const client = Object.assign(this.#client, {
      connect: async () => {
        setTimeout(() => this.#connect(), 1)
      },
      disconnect: () => this.end({ mayRun: true }),
    })
    this.#availability = new Availability({
      client: client as unknown as ValkeyClient,
      greet: () => this.#send(() => this.#stream.refuseIfFull()),
      timeoutMs,
      log: silentLogger(),
    })
    this.#availability.start()
    stream.links.add(this)
  }

  get up(): boolean {
    return this.#availability.up
  }

  get connectionsEnded(): number {
    return this.#availability.connectionsEnded
  }

  async describeServer() {
    return { version: '7.0.15', maxmemoryPolicy: 'noeviction' }
  }

  async appendEntry(_key: string, { text }: { text: string }): Promise<string> {
    return String(await this.#sendJournal(() => this.#stream.append(text)))
  }

  async readEntries(_key: string, fromId: string): Promise<StreamPart> {
    return (await this.#sendJournal(() => this.#stream.read(fromId))) as StreamPart
  }

  async #sendJournal(command: () => unknown): Promise<unknown> {
    try {
      return await this.#send(command)
    } catch (error) {
      if (error instanceof Error && error.name === 'ReplyError')
        this.#availability.refused(error)
      throw error
    }
  }

  #send(run: () => unknown): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const command = { sentAtMs: performance.now(), giveUp: reject }
      const connection = this.#connection
      if (connection === undefined) {
        reject(
          new Error("Stream isn't writeable and enableOfflineQueue options is false"),
        )
        return
      }
      this.#availability.sent(command)
      const fail = (error: Error) => {
        connection.unanswered.delete(fail)
        this.#availability.failed(command, error)
        reject(error)
      }
      connection.unanswered.add(fail)
      this.#request(connection, run, (answer) => {
        if (!connection.unanswered.has(fail)) return
        if (answer instanceof Error) {
          fail(answer)
          return
        }
        connection.unanswered.delete(fail)
        this.#availability.answered(command)
        resolve(answer)
      })
    })
  }

  #request(
    connection: Connection,
    run: () => unknown,
    answered: (answer: unknown) => void,
  ): void {
    const arrives = () => {
      if (!connection.mayRun) return
      const answer = outcomeOf(run)
      connection.toReplica.send(
        this.#tripMs() + this.slowByMs,
        () => answered(answer),
        this.move,
      )
    }
    connection.toStore.send(this.#tripMs() + this.slowByMs, arrives, this.move)
  }

  /** What is due arrives. */
  readonly move = (): void => {
    if (this.isCut) return
    for (const connection of [...this.#ended, this.#connection]) {
      if (!this.#stream.isFrozen) connection?.toStore.move()
      if (connection === this.#connection) connection?.toReplica.move()
    }
  }

  #connect(): void {
    if (this.#isGone) return
    if (this.isCut) {
      setTimeout(() => this.#connect(), reconnectAfterMs)
      return
    }
    this.#connection = {
      toStore: new Way(),
      toReplica: new Way(),
      unanswered: new Set(),
      mayRun: true,
    }
    this.#client.emit('ready')
  }

  /** The connection ends. What was sent may still reach the store, unless that is another one now. */
  end({ mayRun }: { mayRun: boolean }): void {
    const connection = this.#connection
    if (!mayRun) for (const each of this.#ended) each.mayRun = false
    if (connection === undefined) return
    this.#connection = undefined
    connection.mayRun = mayRun
    if (mayRun) this.#ended.add(connection)
    for (const fail of connection.unanswered) fail(new Error('Connection is closed.'))
    this.#client.emit('close')
    setTimeout(() => this.#connect(), reconnectAfterMs)
  }

  cutFor(ms: number): void {
    this.isCut = true
    setTimeout(() => {
      this.isCut = false
      this.move()
    }, ms)
  }

  /** Its process is gone. */
  kill(): void {
    this.#isGone = true
    this.end({ mayRun: true })
    this.#availability.close()
  }
}

function outcomeOf(run: () => unknown): unknown {
  try {
    return run()
  } catch (error) {
    return error
  }
}
