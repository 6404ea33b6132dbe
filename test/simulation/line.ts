import { Duplex } from 'node:stream'

/** One end of a connection in memory, with as much of a socket as Node's server and undici use. */
export class Line extends Duplex {
  readonly remoteAddress: string
  readonly localAddress = '10.0.0.1'
  bytesRead = 0
  timeout = 0
  #peer!: Line
  #hasEnded = false

  private constructor(remoteAddress: string) {
    super({ allowHalfOpen: false })
    this.remoteAddress = remoteAddress
    this.on('error', () => {})
  }

  /** Its two ends. `addresses`: what the first and the second see of the other. */
  static pair(addresses: readonly [string, string]): [Line, Line] {
    const [one, other] = [new Line(addresses[0]), new Line(addresses[1])]
    one.#peer = other
    other.#peer = one
    return [one, other]
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error) => void): void {
    const peer = this.#peer
    if (peer.destroyed) {
      done(failure('write', 'EPIPE'))
      return
    }
    process.nextTick(() => {
      peer.#take(chunk)
      done()
    })
  }

  override _final(done: () => void): void {
    process.nextTick(() => this.#peer.#take(null))
    done()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    process.nextTick(() => this.#peer.#take(null))
    done(error)
  }

  #take(chunk: Buffer | null): void {
    if (this.destroyed || this.#hasEnded) return
    this.#hasEnded = chunk === null
    this.bytesRead += chunk?.length ?? 0
    this.push(chunk)
  }

  resetAndDestroy(): this {
    const peer = this.#peer
    process.nextTick(() => peer.destroy(failure('read', 'ECONNRESET')))
    return this.destroy()
  }

  destroySoon(): void {
    this.end(() => this.destroy())
  }

  /** The pipeline looks for idle connections with timers of its own. */
  setTimeout(ms: number): this {
    this.timeout = ms
    return this
  }

  readonly ref = (): this => this
  readonly unref = (): this => this
  readonly setNoDelay = (): this => this
  readonly setKeepAlive = (): this => this
}

/** Its stack takes long to write, and is read by the streams of Node alone. */
function failure(call: string, code: string): Error {
  const message = `${call} ${code}`
  return Object.assign(new Error(message), { code, stack: message })
}

export interface Message {
  /** The first line of its head. */
  readonly line: string
  /** By names in lower case. */
  readonly headers: ReadonlyMap<string, string>
  readonly body: string
}

/** Calls back for each message that a line brings, all of which state their length or have no body. */
export function readMessages(line: Line, onMessage: (message: Message) => void): void {
  let received = ''
  line.on('data', (chunk: Buffer) => {
    received += chunk.toString('latin1')
    for (;;) {
      const headEnd = received.indexOf('\r\n\r\n')
      if (headEnd === -1) return
      const [first = '', ...fields] = received.slice(0, headEnd).split('\r\n')
      const headers = new Map(
        fields.map((field) => {
          const colon = field.indexOf(':')
          return [field.slice(0, colon).toLowerCase(), field.slice(colon + 1).trim()]
        }),
      )
      const end = headEnd + 4 + Number(headers.get('content-length') ?? 0)
      if (received.length < end) return
      const body = received.slice(headEnd + 4, end)
      received = received.slice(end)
      onMessage({ line: first, headers, body })
    }
  })
}
