import type { RequestListener } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import type { Config } from '../config/config.ts'
import { answerStarting } from '../operations/probes.ts'
import { ListenError } from '../process/errors.ts'
import type { Logger } from '../process/logger.ts'
import { listenBacklog, warnOfCutBacklog } from '../server/connection-limits.ts'
import { closeServer, listen } from '../server/listen.ts'
import { createOperationsServer } from '../server/pipeline.ts'
import type { TrafficServer } from '../server/traffic-server.ts'

interface LifecycleParts {
  config: Pick<Config, 'traffic' | 'drain' | 'requests'>
  log: Logger
  traffic: TrafficServer
  operations: OperationsListener
  /** Requests without a complete answer, those that came through an app mounted elsewhere too. */
  inFlight(): number
  /** Orders that were sent and have no whole answer yet. Their clients may have left. */
  ordersSent(): number
  /** What a start waits for; it never rejects. */
  opensAfter: Promise<unknown>
  /**
   * What is behind the traffic listener, ended after it, and last the other. `leftMs`: of DRAIN_TIMEOUT_MS, and a moment
   * more.
   */
  closeParts(leftMs: number): Promise<void>
}

export interface Urls {
  trafficUrl: string
  operationsUrl: string
}

export interface Lifecycle {
  /** Whether both listeners accept; false again as soon as the gateway is asked to stop. */
  readonly ready: boolean
  readonly trafficUrl: string | undefined
  listen(): Promise<Urls>
  close(options?: { delayMs?: number }): Promise<void>
}

const lookEveryMs = 20
/** Lets requests notice that their connection was cut; otherwise the closing of the upstreams counts as failures. */
const noticeCutMs = 200

/** Opens both listeners, and closes them in order. */
export function createLifecycle(parts: LifecycleParts): Lifecycle {
  const { config, log, traffic, operations } = parts
  const drainDelay = new AbortController()
  let opening: Promise<Urls> | undefined
  let closing: Promise<void> | undefined
  let urls: Urls | undefined
  let ready = false

  async function open(): Promise<Urls> {
    await parts.opensAfter
    const operationsUrl = await operations.listen()
    const at = { ...config.traffic, backlog: listenBacklog(config.requests.connections) }
    const trafficUrl = await listen(traffic, at, { setting: 'PORT', log }).catch(async (error) => {
      await operations.close()
      throw error
    })
    warnOfCutBacklog(config.requests.connections, log)
    urls = { trafficUrl, operationsUrl }
    ready = closing === undefined
    return urls
  }

  function cutTheRest(): void {
    const requests = parts.inFlight()
    if (requests > 0)
      log.warn({ requests }, 'DRAIN_TIMEOUT_MS has passed: cutting the requests that are still in flight')
    traffic.cutConnections()
  }

  /** Answers or cuts what is in flight. Returns how long what is behind it may take. */
  async function drain(): Promise<number> {
    const startedAtMs = performance.now()
    await closeServer(traffic, {
      timeoutMs: config.drain.timeoutMs,
      closeSilent: traffic.closeSilentConnections,
      cut: cutTheRest,
    })
    // Requests of the listener are answered or cut by now. Those of a mounted app, and orders whose clients have left,
    // get what is left of the same time.
    const closedAtMs = performance.now()
    const leftMs = Math.max(0, config.drain.timeoutMs - (closedAtMs - startedAtMs)) + noticeCutMs
    const isBusy = () => parts.inFlight() > 0 || parts.ordersSent() > 0
    while (isBusy() && performance.now() - closedAtMs < leftMs) await setTimeout(lookEveryMs)
    return Math.max(noticeCutMs, closedAtMs + leftMs - performance.now())
  }

  async function end(delayMs: number): Promise<void> {
    await opening?.catch(() => {})
    await setTimeout(delayMs, undefined, { signal: drainDelay.signal }).catch(() => {})
    const leftMs = await drain()
    await parts.closeParts(leftMs)
  }

  return {
    get ready() {
      return ready
    },
    get trafficUrl() {
      return urls?.trafficUrl
    },
    async listen() {
      if (closing !== undefined) throw new ListenError('This gateway is closed: create another one.')
      opening ??= open().catch((error) => {
        // The port may be free later.
        opening = undefined
        throw error
      })
      return opening
    },
    close({ delayMs = 0 } = {}) {
      // /readyz has never said ready, so no load balancer needs time to notice that it no longer does.
      const isStarting = closing === undefined && opening !== undefined && !ready
      ready = false
      traffic.announceEnd()
      if (delayMs === 0 || isStarting) drainDelay.abort()
      closing ??= end(delayMs)
      return closing
    },
  }
}

/**
 * The operations listener. It can listen before there is anything to operate, because reading the ledger may take long.
 */
export class OperationsListener {
  readonly #at: Config['admin']
  readonly #log: Logger
  readonly #server = createOperationsServer((request, response) => this.#answer(request, response))
  #answer: RequestListener = answerStarting
  #url: string | undefined

  constructor(at: Config['admin'], log: Logger) {
    this.#at = at
    this.#log = log
  }

  /** What it answers from now on; before, that the gateway starts. */
  serve(listener: RequestListener): void {
    this.#answer = listener
  }

  /** Resolves to its URL, also if it listens already. */
  async listen(): Promise<string> {
    this.#url ??= await listen(this.#server, this.#at, { setting: 'ADMIN_PORT', log: this.#log })
    return this.#url
  }

  async close(): Promise<void> {
    this.#url = undefined
    await closeServer(this.#server, { timeoutMs: closeWithinMs })
  }
}

/** Enough for a scrape that is being answered. */
const closeWithinMs = 2_000

/** Calls each after the one before has settled, also if that failed: a journal that is not closed counts as a crash. */
export async function closeAll(closes: readonly (() => unknown)[]): Promise<void> {
  const errors: Error[] = []
  for (const close of closes) {
    try {
      await close()
    } catch (error) {
      errors.push(error as Error)
    }
  }
  if (errors.length === 1) throw errors[0]
  if (errors.length > 1) throw new AggregateError(errors, errors.map(({ message }) => message).join('; '))
}
