import { hash } from 'node:crypto'
import { Cluster } from 'ioredis'
import { type Clock, endOfTurn, inTime, systemClock, type Timers } from '../clock.ts'
import type { Events, StoreOperation, StoreOutcome } from '../events.ts'
import type { Logger } from '../process/logger.ts'
import { currentSpan } from '../process/span.ts'
import { Availability, lastGreetAgainMs, type Unanswered } from './availability.ts'
import {
  connectTimeoutMs,
  createClient,
  retryAfterMs,
  type StoreAddress,
  type ValkeyClient,
} from './client.ts'
import { isRefusal } from './failure.ts'
import { createScript, StrayReply } from './script.ts'
import type { SharedStore, StoreCommands } from './store.ts'
import {
  firstId,
  partEntries,
  type ServerFacts,
  type StreamEntry,
  type StreamPart,
} from './stream-store.ts'

export interface ValkeyOptions {
  address: StoreAddress
  keyPrefix: string
  timeoutMs: number
  log: Logger
  events: Events
  clock?: Clock
}

/** A Redis or Valkey: single, with Sentinels, or a Cluster. */
export class Valkey implements SharedStore {
  /** A connection attempt that just began fails, the next one waits, and its first greeting is refused. */
  readonly backWithinMs = connectTimeoutMs + retryAfterMs + lastGreetAgainMs
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
    this.#timers = (options.clock ?? systemClock).timers
    this.keyPrefix = keyPrefix
    this.salt = hash('sha256', `${address.password ?? ''}\n${keyPrefix}`)
    this.#client = createClient(address)
    this.#availability = new Availability({
      ...options,
      client: this.#client,
      greet: () => this.#greet(),
    })
  }

  /** Connects, and keeps connecting until it is closed. */
  start(): this {
    this.#availability.start()
    return this
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

  run<Answer>(
    operation: StoreOperation,
    commands: StoreCommands<Answer>,
  ): Promise<Answer | undefined> {
    return this.#within(this.up ? this.#options.timeoutMs : 0, operation, commands)
  }

  insist<Answer>(
    operation: StoreOperation,
    commands: StoreCommands<Answer>,
  ): Promise<Answer | undefined> {
    return this.#within(this.#availability.isGreeted ? insistMs : 0, operation, commands)
  }

  /** `ms` 0: nothing is sent. */
  async #within<Answer>(
    ms: number,
    operation: StoreOperation,
    commands: StoreCommands<Answer>,
  ): Promise<Answer | undefined> {
    if (ms === 0) {
      this.#options.events.storeAsked(operation, 'skipped', 0)
      return undefined
    }
    const run = this.#atTurnsEnd(ms, operation, commands)
    this.#runs.add(run)
    const answer = await run
    this.#runs.delete(run)
    return answer
  }

  /**
   * What all requests of this turn want goes out in one write, which saves each of them system calls. The time is
   * counted from that write: this process may stand still before it.
   */
  async #atTurnsEnd<Answer>(
    ms: number,
    operation: StoreOperation,
    commands: StoreCommands<Answer>,
  ): Promise<Answer | undefined> {
    await endOfTurn()
    const report = this.#report(operation)
    const sent = this.#send(commands, report).then(
      (answer) => ({ answer }),
      () => ({ answer: undefined }),
    )
    const ended = await inTime(sent, ms, this.#timers)
    if (ended !== undefined) return ended.answer
    report('timeout')
    this.#availability.late()
    return undefined
  }

  appendEntry(
    key: string,
    { text, maxEntries }: { text: string; maxEntries: number },
  ): Promise<string> {
    const add = (client: ValkeyClient) =>
      client.xadd(key, 'MAXLEN', '~', maxEntries, '*', 'r', text)
    return this.#journal('journal-append', add).then(String)
  }

  async readEntries(key: string, fromId: string): Promise<StreamPart> {
    const read = (client: ValkeyClient) => readScript(client, key, [fromId, partEntries])
    const [now, added, length, oldestId, ...rest] = await this.#journal(
      'journal-read',
      read,
    )
    const entries: StreamEntry[] = []
    for (let at = 0; at < rest.length; at += 2)
      entries.push({ id: String(rest[at]), text: String(rest[at + 1]) })
    return {
      storeNowMs: now,
      added: added ?? undefined,
      length,
      oldestId: String(oldestId),
      entries,
    }
  }

  async describeServer(): Promise<ServerFacts> {
    // A store whose user may not ask this can still be used.
    const ask = (client: ValkeyClient) =>
      client.info().catch((error) => {
        if (isRefusal(error)) return ''
        throw error
      })
    const info = String(await this.#send(ask, () => {}))
    const facts = new Map(
      info.split('\r\n').map((line) => line.split(':', 2) as [string, string]),
    )
    return {
      version: facts.get('redis_version'),
      maxmemoryPolicy: facts.get('maxmemory_policy'),
    }
  }

  async close(): Promise<void> {
    // Commands may still run for answered requests. Each has its deadline.
    await Promise.all(this.#runs)
    this.#availability.close()
    this.#client.disconnect()
  }

  /** A store that refuses journal commands is of no use, whatever the reason. */
  async #journal<Answer>(
    operation: StoreOperation,
    commands: StoreCommands<Answer>,
  ): Promise<Answer> {
    try {
      return await this.#send(commands, this.#report(operation))
    } catch (error) {
      if (isRefusal(error)) this.#availability.refused(error)
      // A reply was lost, and each further one is to another command.
      else if (error instanceof StrayReply) this.#availability.replaceConnection(error)
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
      const late =
        outcome === 'ok' && tookMs > this.#options.timeoutMs ? 'timeout' : outcome
      this.#options.events.storeAsked(operation, late, tookMs)
      traced?.end(late === 'ok' ? undefined : late)
    }
  }

  /** Also rejects if the connection was replaced, whatever became of the commands. */
  #send<Answer>(
    commands: StoreCommands<Answer>,
    report: (outcome: StoreOutcome) => void,
  ): Promise<Answer> {
    this.#cork()
    return new Promise((resolve, reject) => {
      const command: Unanswered = { giveUp: reject }
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

  /** Collects the commands of one callback. A Cluster has several connections, and is not corked. */
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

  /** Greets with a script, because scripts write all that replicas share. Every master of a Cluster has to answer. */
  #greet(): Promise<unknown> {
    const probeKey = `${this.keyPrefix}alive`
    const greet = (client: ValkeyClient) => {
      const answers: Promise<unknown>[] = []
      if (client instanceof Cluster)
        answers.push(...client.nodes('master').map((node) => node.ping()))
      // If the server refuses the database, ioredis goes on in database 0, which may belong to another environment.
      else if (client.options.db) answers.push(client.select(client.options.db))
      answers.push(
        client.eval(
          "return redis.call('SET', KEYS[1], '1', 'PX', ARGV[1])",
          1,
          probeKey,
          aliveMs,
        ),
      )
      return Promise.all(answers)
    }
    return this.#send(greet, () => {})
  }
}

const aliveMs = 10_000
const insistMs = 1_000

type ReadReply = [
  now: number,
  added: number | null,
  length: number,
  oldestId: Buffer,
  ...entries: Buffer[],
]

const readScript = createScript<ReadReply>(
  `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if redis.call('EXISTS', KEYS[1]) == 0 then return {now, 0, 0, '${firstId}'} end
local facts = {}
local info = redis.call('XINFO', 'STREAM', KEYS[1])
for at = 1, #info, 2 do facts[info[at]] = info[at + 1] end
local oldest = facts['first-entry']
local reply = {now, facts['entries-added'] or false, facts['length'], oldest and oldest[1] or '${firstId}'}
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])) do
  reply[#reply + 1] = entry[1]
  reply[#reply + 1] = entry[2][2]
end
return reply
`,
  (answer) => Array.isArray(answer) && Number.isFinite(answer[0]) && answer.length >= 4,
)
