import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { isDeepStrictEqual } from 'node:util'
import type { FastLane } from './fast-lane.ts'
import type { OpenConnections } from './open-connections.ts'
import type { Connection } from './turns.ts'

export interface RepeatsOptions {
  open: OpenConnections
  answerAgain: FastLane['answerAgain']
}

const plainLine = /^GET (\/[\x21-\x7e]*) HTTP\/1\.1\r\n$/
/** Far below every limit of head-checks. */
const headBytesMost = 4_096
/** How often in a row Node may have to read after all; then the connection is Node's for good. */
const vainMost = 8

type OnData = (chunk: Buffer) => void

/**
 * Answers hits without having Node read their requests, which costs more than all else that they take. Nothing is
 * parsed here: a piece of bytes is known to be one request because Node has read the same bytes before, on the same
 * connection, as exactly one, and only the target in it is another. Whatever is not so goes to Node as it came.
 *
 * A connection begins as Node's. Behind two hits with the same headers we listen in its place, and know nothing yet:
 * the next piece of bytes is handed back to Node, and if it is answered within that call, and spells one request and no
 * more, it is what we know. From then on we listen, until a piece comes that is of another form.
 */
class Repeats {
  readonly #socket: Socket
  readonly #connection: Connection
  readonly #options: RepeatsOptions
  /** Node's own listener, while ours is on the socket in its place. */
  #nodesListener: OnData | undefined
  /** The piece that was handed back, while Node reads it. */
  #handedBack: Buffer | undefined
  /** The request that Node read, its bytes, and of them its header lines with the empty one behind them. */
  #known: { request: IncomingMessage; bytes: Buffer; lines: Buffer } | undefined
  /** The headers of the last hit that Node read. */
  #lastHeaders: readonly string[] = []
  #vain = 0

  constructor(socket: Socket, connection: Connection, options: RepeatsOptions) {
    this.#socket = socket
    this.#connection = connection
    this.#options = options
  }

  /** Told of a hit that Node read, while Node is still within the call that handed the request over. */
  answeredAtOnce(request: IncomingMessage): void {
    if (this.#handedBack !== undefined) {
      this.#learn(request, this.#handedBack)
      return
    }
    if (this.#vain >= vainMost) return
    // A client that sends an id or a trace with each request would have nothing of it, and Node reads faster by itself.
    const areAlike = isDeepStrictEqual(request.rawHeaders, this.#lastHeaders)
    this.#lastHeaders = request.rawHeaders
    // Node's listener must not go while it is at work: within this call it may yet let go of the connection.
    if (areAlike) setImmediate(() => this.#takeOver())
    else this.#vain += 1
  }

  #learn(request: IncomingMessage, chunk: Buffer): void {
    const { method, url, rawHeaders, headers } = request
    // Its client waits for a 100 Continue each time.
    if (headers.expect !== undefined) return
    let lines = ''
    for (let index = 0; index < rawHeaders.length; index += 2)
      lines += `${rawHeaders[index]}: ${rawHeaders[index + 1]}\r\n`
    // No head goes on past its first empty line, and this one ends the chunk. So there is one request in it, all of it, and
    // Node stands behind its end.
    if (chunk.toString('latin1') !== `${method} ${url} HTTP/1.1\r\n${lines}\r\n`) return
    this.#known = { request, bytes: chunk, lines: chunk.subarray(chunk.length - lines.length - 2) }
  }

  #takeOver(): void {
    if (this.#nodesListener !== undefined || this.#vain >= vainMost) return
    const [nodesListener, ...others] = this.#socket.listeners('data') as OnData[]
    if (nodesListener === undefined || others.length > 0) return
    this.#nodesListener = nodesListener
    this.#listen(this.#onData, nodesListener)
  }

  #listen(next: OnData, before: OnData): void {
    // In this order: without any listener the socket's table of them would become a slower one.
    this.#socket.on('data', next)
    this.#socket.off('data', before)
  }

  readonly #onData = (chunk: Buffer): void => {
    const nodesListener = this.#nodesListener as OnData
    const target = this.#targetOf(chunk)
    if (target === undefined) this.#handBack(nodesListener, chunk)
    else if (this.#answers(target)) this.#vain = 0
    // Of the known form, such as a miss: Node reads it to its end and keeps the connection, so ours may stay.
    else nodesListener.call(this.#socket, chunk)
  }

  /** The target of a request that is otherwise the known one. */
  #targetOf(chunk: Buffer): string | undefined {
    if (this.#known === undefined || chunk.length > headBytesMost) return undefined
    const { request, bytes, lines } = this.#known
    if (chunk.equals(bytes)) return request.url
    const lineLength = chunk.length - lines.length
    if (lineLength <= 0 || lines.compare(chunk, lineLength) !== 0) return undefined
    return plainLine.exec(chunk.toString('latin1', 0, lineLength))?.[1]
  }

  /** Whether it is a hit, which has then been answered. */
  #answers(target: string): boolean {
    const connection = this.#connection
    if (this.#known === undefined || connection.takesNoMore || this.#options.open.isEnding) return false
    // Another answer is under way, or its client does not take it.
    if (connection.turns.length > 0 || this.#socket.writableLength > 0) return false
    if (!this.#options.answerAgain(this.#known.request, target)) return false
    connection.idleLooks = 0
    return true
  }

  /**
   * Lets Node read whatever it is. It has its listener back before that, because it takes it off where it lets go of a
   * connection (an upgrade, a CONNECT). If this was a hit, it is the known request from now on.
   */
  #handBack(nodesListener: OnData, chunk: Buffer): void {
    this.#vain += 1
    this.#listen(nodesListener, this.#onData)
    this.#nodesListener = undefined
    this.#known = undefined
    this.#handedBack = chunk
    nodesListener.call(this.#socket, chunk)
    this.#handedBack = undefined
    if (this.#known !== undefined) this.#takeOver()
  }
}

/** To be told of each hit that Node read; with the second of a connection that is like the one before, it begins. */
export function createRepeats(options: RepeatsOptions) {
  return (request: IncomingMessage, connection: Connection): void => {
    connection.repeats ??= new Repeats(request.socket, connection, options)
    connection.repeats.answeredAtOnce(request)
  }
}
