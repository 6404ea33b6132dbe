import { setTimeout } from 'node:timers/promises'
import type { Config } from '../config/config.ts'
import type { LoadedConfig } from '../config/load.ts'
import type { OperationsApp } from '../operations/operations-app.ts'
import { answerStarting } from '../operations/probes.ts'
import { ListenError } from '../process/errors.ts'
import type { Logger } from '../process/logger.ts'
import { closeServer, cutBacklog, listen } from '../server/listen.ts'
import { createOperationsServer } from '../server/pipeline.ts'
import type { TrafficServer } from '../server/traffic-server.ts'
import type { Gateway } from './types.ts'

/** What the listeners serve, and what a shutdown waits for. */
interface Served {
  readonly traffic: TrafficServer
  readonly operations: OperationsApp
  /** Requests without a complete answer, also those through a mounted app. */
  readonly exchanges: { readonly inFlight: number }
  /** Orders that were sent and have no whole answer yet. Their callers may have left. */
  readonly orders: { readonly underWay: number }
}

/** Closes a part within what is left of DRAIN_TIMEOUT_MS, and a moment more. */
type Close = (leftMs: number) => unknown

const lookEveryMs = 20
/** Lets requests notice that their connection was cut; otherwise the closing of the upstreams counts as failures. */
const noticeCutMs = 200
/** Enough for a scrape that is being answered. */
const closeOperationsWithinMs = 2_000
/** Node's default. With a shorter backlog the kernel would drop connections that we want to answer with 503. */
const minBacklog = 511

/** Opens both listeners, and closes them and what is behind them in order. */
export class Lifecycle {
  trafficUrl: string | undefined
  /** Undefined: the operations listener answers that the gateway is starting. */
  served: Served | undefined
  readonly #config: Config
  /** Whether CLIENT_CONNECTIONS is set. */
  readonly #asksForConnections: boolean
  readonly #log: Logger
  readonly #operations = createOperationsServer((request, response) => {
    const answer = this.served?.operations.listener ?? answerStarting
    answer(request, response)
  })
  #operationsUrl: string | undefined
  /** The part that was opened last comes first. */
  readonly #closes: Close[] = []
  readonly #drainDelay = new AbortController()
  #opening: ReturnType<Gateway['listen']> | undefined
  #closing: Promise<void> | undefined

  constructor({ config, sources }: LoadedConfig, log: Logger) {
    this.#config = config
    this.#asksForConnections = sources.CLIENT_CONNECTIONS.source === 'environment'
    this.#log = log
  }

  /** Called with how to close a part, once the part is open. */
  readonly opened = (close: Close): void => {
    this.#closes.unshift(close)
  }

  /** Whether both listeners accept; false again as soon as the gateway is asked to stop. */
  get isReady(): boolean {
    return this.trafficUrl !== undefined && this.#closing === undefined
  }

  /** Opens early, before the traffic listener, because reading the ledger may take long. */
  async listenForOperations(): Promise<string> {
    const options = { setting: 'ADMIN_PORT', log: this.#log } as const
    this.#operationsUrl ??= await listen(this.#operations, this.#config.admin, options)
    return this.#operationsUrl
  }

  async #closeOperations(): Promise<void> {
    this.#operationsUrl = undefined
    await closeServer(this.#operations, { timeoutMs: closeOperationsWithinMs })
  }

  async listen(): ReturnType<Gateway['listen']> {
    if (this.#closing !== undefined)
      throw new ListenError('This gateway is closed: create another one.')
    this.#opening ??= this.#open(this.served as Served).catch((error) => {
      // The port may be free later.
      this.#opening = undefined
      throw error
    })
    return this.#opening
  }

  async #open({ operations, traffic }: Served): ReturnType<Gateway['listen']> {
    await operations.filesRead
    const operationsUrl = await this.listenForOperations()
    const { connections } = this.#config.requests
    // Room for all connections, so that callers that connect at once are answered. The kernel drops further ones, which
    // try again after a second.
    const at = { ...this.#config.traffic, backlog: Math.max(minBacklog, connections) }
    const trafficUrl = await listen(traffic, at, {
      setting: 'PORT',
      log: this.#log,
    }).catch(async (error) => {
      await this.#closeOperations()
      throw error
    })
    this.#warnOfCutBacklog(connections)
    this.trafficUrl = trafficUrl
    return { trafficUrl, operationsUrl }
  }

  /** The default is more than a stock Linux allows: every log would begin with a warning. */
  #warnOfCutBacklog(connections: number): void {
    const cut = cutBacklog(connections)
    if (cut === undefined) return
    if (this.#asksForConnections) this.#log.warn(...cut)
    else if (this.#config.production) this.#log.debug(...cut)
  }

  close({ delayMs = 0 }: { delayMs?: number } = {}): Promise<void> {
    const served = this.served as Served
    // /readyz has never said ready, so no load balancer needs time to notice the end.
    const wasNeverReady = this.#closing === undefined && !this.isReady
    served.traffic.announceEnd()
    if (delayMs === 0 || wasNeverReady) this.#drainDelay.abort()
    this.#closing ??= this.#end(served, delayMs)
    return this.#closing
  }

  async #end(served: Served, delayMs: number): Promise<void> {
    await this.#opening?.catch(() => {})
    await setTimeout(delayMs, undefined, { signal: this.#drainDelay.signal }).catch(
      () => {},
    )
    await this.closeParts(await this.#drain(served))
  }

  /** Answers or cuts the requests in flight. Returns how long closing the parts may take. */
  async #drain({ traffic, exchanges, orders }: Served): Promise<number> {
    const { timeoutMs } = this.#config.drain
    const startedAtMs = performance.now()
    const text =
      'DRAIN_TIMEOUT_MS has passed: cutting the requests that are still in flight'
    const cut = () => {
      const requests = exchanges.inFlight
      if (requests > 0) this.#log.warn({ requests }, text)
      traffic.cutConnections()
    }
    await closeServer(traffic, {
      timeoutMs,
      closeSilent: traffic.closeSilentConnections,
      cut,
    })
    // The listener's own requests have ended by now. Requests of a mounted app, and orders whose callers have left, get
    // the rest of the time.
    const endsAtMs = Math.max(performance.now(), startedAtMs + timeoutMs) + noticeCutMs
    const isBusy = () => exchanges.inFlight > 0 || orders.underWay > 0
    while (isBusy() && performance.now() < endsAtMs) await setTimeout(lookEveryMs)
    return Math.max(noticeCutMs, endsAtMs - performance.now())
  }

  /** The operations listener closes last, so that the shutdown can be watched. */
  async closeParts(leftMs: number): Promise<void> {
    const endsAtMs = performance.now() + leftMs
    await closeAll([
      ...this.#closes.map(
        (close) => () => close(Math.max(0, endsAtMs - performance.now())),
      ),
      () => this.served?.operations.close(),
      () => this.#closeOperations(),
    ])
  }
}

/** Calls each after the one before, even if that failed: a journal that is not closed counts as a crash. */
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
  if (errors.length > 1)
    throw new AggregateError(errors, errors.map(({ message }) => message).join('; '))
}
