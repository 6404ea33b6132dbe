import { hash } from 'node:crypto'
import { Cluster } from 'ioredis'
import { PatientTimer, systemTimers, type Timers } from '../clock.ts'
import type { Events, StoreOperation, StoreOutcome } from '../events.ts'
import { firstId, partEntries, type ServerFacts, type StreamPart } from '../journal/stream-store.ts'
import type { Logger } from '../process/logger.ts'
import { currentSpan } from '../process/span.ts'
import { Availability, type Unanswered } from './availability.ts'
import { createClient, type StoreAddress, type ValkeyClient } from './client.ts'
import { isRefusal } from './failure.ts'
import type { SharedStore, StoreCommands } from './store.ts'

export interface ValkeyOptions {
  address: StoreAddress
  keyPrefix: string
  timeoutMs: number
  log: Logger
  events: Events
  /** Default: Node's. */
  timers?: Timers
}

/** A Redis or Valkey: single, with Sentinels, or a Cluster. */
export class Valkey implements SharedStore {
  readonly #options: ValkeyOptions
  readonly #timers: Timers
  readonly #client: ValkeyClient
  readonly #availability: Availability
  readonly #runs = new Set<Promise<unknown>>()
  #isCorked = false
  readonly keyPrefix: string
  readonly salt: string

  constructor(options: ValkeyOptions) {
    const { address, keyPrefix } = options
    this.#options = options
    this.#timers = options.timers ?? systemTimers
    this.keyPrefix = keyPrefix
    this.salt = hash('sha256', `${address.password ?? ''}\n${keyPrefix}`)
    this.#client = createClient(address)
    this.#availability = new Availability({ ...options, client: this.#client, greet: () => this.#greet() })
  }

  get up(): boolean {
    return this.#availability.up
  }

  get connectionsEnded(): number {
    return this.#availability.connectionsEnded
  }

  get outage() {
    return this.#availability.outage
  }

  run<Answer>(operation: StoreOperation, commands: StoreCommands<Answer>): Promise<Answer | undefined> {
    return this.#within(this.up ? this.#options.timeoutMs : 0, operation, commands)
  }

  insist<Answer>(operation: StoreOperation, commands: StoreCommands<Answer>): Promise<Answer | undefined> {
    return this.#within(this.#availability.isGreeted ? insistMs : 0, operation, commands)
  }

  /** 0: not at all. */
  #within<Answer>(
    ms: number,
    operation: StoreOperation,
    commands: StoreCommands<Answer>,
  ): Promise<Answer | undefined> {
    if (ms === 0) {
      this.#options.events.storeAsked(operation, 'skipped', 0)
      return Promise.resolve(undefined)
    }
    const answer = new Promise<Answer | undefined>((resolve) => {
      const report = this.#report(operation)
      const onTime = () => {
        report('timeout')
        this.#availability.late()
        resolve(undefined)
      }
      const timer = new PatientTimer(ms, onTime, this.#timers)
      const end = (answered: Answer | undefined) => {
        timer.clear()
        resolve(answered)
      }
      this.#send(commands, report).then(end, () => end(undefined))
    })
    this.#runs.add(answer)
    void answer.finally(() => this.#runs.delete(answer))
    return answer
  }

  post(operation: StoreOperation, commands: StoreCommands<unknown>): void {
    this.#send(commands, this.#report(operation)).catch(() => {})
  }

  appendEntry(key: string, { text, maxEntries }: { text: string; maxEntries: number }): Promise<string> {
    const add = (client: ValkeyClient) => client.xadd(key, 'MAXLEN', '~', maxEntries, '*', 'r', text)
    return this.#journal('journal-append', add).then(String)
  }

  async readEntries(key: string, { id, withTime }: { id: string; withTime: boolean }): Promise<StreamPart> {
    // In a Cluster a pipeline goes to the server of its keys, and ioredis knows none of XINFO and TIME.
    const read = async (client: ValkeyClient) => {
      const commands = client
        .pipeline()
        .xinfo('STREAM', key)
        .xread('COUNT', partEntries, 'STREAMS', key, id)
        // On the stream's server. What other replicas noted is refused there where this is.
        .set(`${this.keyPrefix}alive:{${key}}`, '1', 'PX', aliveMs)
      const replies = await (withTime ? commands.time() : commands).exec()
      return (replies ?? []).map(([error, reply]) => {
        if (error !== null && !isNoStream(error)) throw error
        return error === null ? reply : noStream
      })
    }
    const [info, streams, , time] = await this.#journal('journal-read', read)
    try {
      return readPart(info, streams, time)
    } catch (error) {
      // A reply was lost, and each that follows is that to another command.
      this.#availability.replaceConnection(error as Error)
      throw error
    }
  }

  async describeServer(): Promise<ServerFacts> {
    // A user that may not ask can still use the store.
    const ask = (client: ValkeyClient) =>
      client.info().catch((error) => {
        if (isRefusal(error)) return ''
        throw error
      })
    const info = String(await this.#send(ask, () => {}))
    const facts = new Map(info.split('\r\n').map((line) => line.split(':', 2) as [string, string]))
    return { version: facts.get('redis_version'), maxmemoryPolicy: facts.get('maxmemory_policy') }
  }

  async close(): Promise<void> {
    // Commands that still run for requests already answered. Each has its deadline.
    await Promise.all(this.#runs)
    this.#availability.close()
    this.#client.disconnect()
  }

  /** Refused journal commands make the store useless, whatever the refusal says. */
  async #journal<Answer>(operation: StoreOperation, commands: StoreCommands<Answer>): Promise<Answer> {
    try {
      return await this.#send(commands, this.#report(operation))
    } catch (error) {
      if (isRefusal(error)) this.#availability.refused(error)
      throw error
    }
  }

  #report(operation: StoreOperation): (outcome: StoreOutcome) => void {
    const startedAtMs = this.#timers.steadyMs()
    const traced = currentSpan()?.child(operation, 'client')
    traced?.set('db.system.name', 'redis')
    let isReported = false
    return (outcome) => {
      if (isReported) return
      isReported = true
      const tookMs = this.#timers.steadyMs() - startedAtMs
      const late = outcome === 'ok' && tookMs > this.#options.timeoutMs ? 'timeout' : outcome
      this.#options.events.storeAsked(operation, late, tookMs)
      traced?.end(late === 'ok' ? undefined : late)
    }
  }

  /** Rejects also where the connection was replaced, whatever became of the commands. */
  #send<Answer>(commands: StoreCommands<Answer>, report: (outcome: StoreOutcome) => void): Promise<Answer> {
    this.#cork()
    return new Promise((resolve, reject) => {
      const command: Unanswered = { sentAtMs: this.#timers.steadyMs(), giveUp: reject }
      this.#availability.sent(command)
      commands(this.#client).then(
        (answer) => {
          this.#availability.answered(command)
          report('ok')
          resolve(answer)
        },
        (error) => {
          this.#availability.failed(command, error)
          report('failed')
          reject(error)
        },
      )
    })
  }

  /** Until all that is sent now was sent. A Cluster has a connection for each server. */
  #cork(): void {
    const stream = this.#client instanceof Cluster ? undefined : this.#client.stream
    if (this.#isCorked || stream === undefined) return
    this.#isCorked = true
    stream.cork()
    process.nextTick(() => {
      this.#isCorked = false
      stream.uncork()
    })
  }

  /** By a script, because all that replicas share is written by scripts. Every master of a Cluster has to answer. */
  #greet(): Promise<unknown> {
    const probeKey = `${this.keyPrefix}alive`
    const greet = (client: ValkeyClient) => {
      const answers: Promise<unknown>[] = []
      if (client instanceof Cluster) answers.push(...client.nodes('master').map((node) => node.ping()))
      // If the server refuses the database, ioredis goes on in number 0, which may belong to another environment.
      else if (client.options.db) answers.push(client.select(client.options.db))
      answers.push(client.eval("return redis.call('SET', KEYS[1], '1', 'PX', ARGV[1])", 1, probeKey, aliveMs))
      return Promise.all(answers)
    }
    return this.#send(greet, () => {})
  }
}

const aliveMs = 10_000
const insistMs = 1_000
const noStream = 'no stream'

/** Nothing was appended yet. */
function isNoStream({ message }: Error): boolean {
  return /no such key/i.test(message)
}

function readPart(info: unknown, streams: unknown, time: unknown): StreamPart {
  const [seconds, micros] = listOf(time).map(Number)
  const storeNowMs = seconds === undefined ? undefined : seconds * 1_000 + Math.floor((micros ?? 0) / 1_000)
  if (info === noStream)
    return { lastId: firstId, oldestId: firstId, added: 0, length: 0, entries: [], storeNowMs }
  const facts = new Map<unknown, unknown>()
  for (const [index, name] of listOf(info).entries())
    if (index % 2 === 0) facts.set(name, listOf(info)[index + 1])
  const [lastId, added, length] = ['last-generated-id', 'entries-added', 'length'].map((name) =>
    facts.get(name),
  )
  if (typeof lastId !== 'string' || typeof length !== 'number') throw new Error(notOurs)
  const [oldestId = firstId] = listOf(facts.get('first-entry')).map(String)
  const [stream] = listOf(streams)
  const entries = listOf(listOf(stream)[1]).map((entry) => {
    const [id, fields] = listOf(entry)
    if (typeof id !== 'string') throw new Error(notOurs)
    return { id, text: String(listOf(fields)[1]) }
  })
  return {
    lastId,
    oldestId,
    added: typeof added === 'number' ? added : undefined,
    length,
    entries,
    storeNowMs,
  }
}

const notOurs = 'its answer is not that to our command'

/** What is missing is an empty list. */
function listOf(answer: unknown): readonly unknown[] {
  if (answer === null || answer === undefined) return []
  if (!Array.isArray(answer)) throw new Error(notOurs)
  return answer
}
