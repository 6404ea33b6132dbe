import type { Socket } from 'node:net'
import { type buildConnector, Client, type Dispatcher } from 'undici'
import { type ConnectionOptions, guardSocket, withoutAltNameCode } from './connector.ts'

/** One connection at a time to one origin. It connects at the first request, and again when it is lost or too old. */
export class Connection {
  readonly #options: ConnectionOptions
  readonly #connector: buildConnector.connector
  #client: Client
  #socket: Socket | undefined
  #connectedAtMs = 0
  /** Whether the connection ended with a reset, so that the answer that ended with it is incomplete. */
  wasReset = false
  /** Resumes the last answer if it is paused. */
  #resume: (() => void) | undefined

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
    const isOld = performance.now() - this.#connectedAtMs > this.#options.maxAgeMs
    if (isOld && this.isOpen) {
      void this.#client.destroy()
      this.#client = this.#newClient()
    }
    this.#client.dispatch(request, handler)
  }

  /** Has a new connection made for the next request. */
  retire(): void {
    this.#connectedAtMs = Number.NEGATIVE_INFINITY
  }

  setResume(resume: () => void): void {
    this.#resume = resume
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
          this.#connectedAtMs = performance.now()
          guardSocket(socket, {
            beforeEnd: () => this.#resume?.(),
            ended: ({ wasReset }) => {
              this.wasReset = wasReset
            },
          })
          callback(null, socket)
        })
      },
    })
  }
}
