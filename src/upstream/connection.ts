import type { Socket } from 'node:net'
import { type buildConnector, Client, type Dispatcher } from 'undici'
import { type ConnectionOptions, guardSocket, withoutAltNameCode } from './connector.ts'

/** One connection at a time to one origin. It connects at the first request, and again when it is lost or too old. */
export class Connection {
  readonly #options: ConnectionOptions
  readonly #connector: buildConnector.connector
  #client: Client
  #socket: Socket | undefined
  #retiresAtMs = Number.POSITIVE_INFINITY
  /** How many bytes of the answer have come; undefined once its version was seen. */
  #answerBytes: number | undefined
  /** Whether the last answer came in HTTP/1.0. */
  answersInHttp10 = false
  /** Whether the connection ended with a reset, so that the answer that ended with it is incomplete. */
  wasReset = false
  /** Of the answer that is under way. */
  #control: Pick<Dispatcher.DispatchController, 'resume'> | undefined

  constructor(options: ConnectionOptions, connector: buildConnector.connector) {
    this.#options = options
    this.#connector = connector
    this.#client = this.#newClient()
  }

  get isOpen(): boolean {
    return this.#socket?.destroyed === false
  }

  get bytesRead(): number {
    return this.#socket?.bytesRead ?? 0
  }

  dispatch(request: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): void {
    this.closeIfRetired()
    this.#client.dispatch(request, handler)
  }

  /** Has a new connection made for the next request. */
  retire(): void {
    this.#retiresAtMs = Number.NEGATIVE_INFINITY
  }

  /** Not while a request is under way. */
  closeIfRetired(): void {
    if (performance.now() <= this.#retiresAtMs || !this.isOpen) return
    void this.#client.destroy()
    this.#client = this.#newClient()
  }

  /** A request is about to be sent. */
  expectAnswer(control: Pick<Dispatcher.DispatchController, 'resume'>): void {
    this.#control = control
    this.#answerBytes = 0
    this.answersInHttp10 = false
  }

  /** A free connection would keep the last request and its body in memory. */
  answerEnded(): void {
    this.#control = undefined
  }

  close(error: Error): Promise<void> {
    return this.#client.destroy(error)
  }

  #newClient(): Client {
    return new Client(this.#options.origin, {
      ...this.#options.client,
      pipelining: 1,
      connect: (target, callback) => {
        this.#connector(target, (...[error, socket]) => {
          if (error) return callback(withoutAltNameCode(error), null)
          this.#socket = socket
          this.wasReset = false
          this.#retiresAtMs = performance.now() + lifeMs(this.#options.maxAgeMs)
          guardSocket(socket, {
            received: (bytes) => this.#readVersion(bytes),
            beforeEnd: () => this.#control?.resume(),
            ended: ({ wasReset }) => {
              this.wasReset = wasReset
            },
          })
          callback(null, socket)
        })
      },
    })
  }

  /** undici does not say in which version an answer came. */
  #readVersion(bytes: Buffer): void {
    if (this.#answerBytes === undefined) return
    const minor = bytes[minorVersionAt - this.#answerBytes]
    this.#answerBytes += bytes.length
    if (minor === undefined) return
    this.#answerBytes = undefined
    this.answersInHttp10 = minor === zero
  }
}

/** Of `HTTP/1.0`. */
const minorVersionAt = 7
const zero = '0'.charCodeAt(0)

/** Connections that were made together are not all renewed in one instant. */
export function lifeMs(maxAgeMs: number, random = Math.random()): number {
  return maxAgeMs * (1 - random / 4)
}
