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
/** How often in a row what comes may be no repeat; then the connection is Node's for good. */
const vainMost = 8

type OnData = (chunk: Buffer) => void

/**
 * Answers hits without having Node read their requests, which costs more than all else that they take. Nothing is
 * parsed here: a piece of bytes is known to be one request because Node has read the same bytes before, on the same
 * connection, as exactly one, and only the target in it is another. Whatever is not so goes to Node as it came.
 */
class Repeats {
  readonly #socket: Socket
  readonly #connection: Connection
  readonly #options: RepeatsOptions
  /** Node's own listener; undefined while it is on the socket. */
  #nodes: OnData | undefined
  /** What Node is reading, where we have seen it. */
  #inHand: Buffer | undefined
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

  /** Told by the call in which Node hands over a request that is then answered. */
  answeredAtOnce(request: IncomingMessage): void {
    if (this.#inHand !== undefined) {
      this.#learn(request, this.#inHand)
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
    // It would have to be told to continue each time.
    if (headers.expect !== undefined) return
    let lines = ''
    for (let index = 0; index < rawHeaders.length; index += 2)
      lines += `${rawHeaders[index]}: ${rawHeaders[index + 1]}\r\n`
    // No head goes on past its first empty line, and this one ends the chunk: Node is at the end of a request, too.
    if (chunk.toString('latin1') !== `${method} ${url} HTTP/1.1\r\n${lines}\r\n`) return
    this.#known = { request, bytes: chunk, lines: chunk.subarray(chunk.length - lines.length - 2) }
  }

  #takeOver(): void {
    if (this.#nodes !== undefined || this.#vain >= vainMost) return
    const [nodes, ...others] = this.#socket.listeners('data') as OnData[]
    if (nodes === undefined || others.length > 0) return
    this.#nodes = nodes
    this.#listen(this.#onData, nodes)
  }

  #listen(next: OnData, before: OnData): void {
    // In this order: without any listener the socket's table of them would become a slower one.
    this.#socket.on('data', next)
    this.#socket.off('data', before)
  }

  readonly #onData = (chunk: Buffer): void => {
    const nodes = this.#nodes as OnData
    const target = this.#targetOf(chunk)
    if (target === undefined) this.#handBack(nodes, chunk)
    else if (this.#answers(target)) this.#vain = 0
    else nodes.call(this.#socket, chunk)
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

  #answers(target: string): boolean {
    const connection = this.#connection
    if (this.#known === undefined || connection.takesNoMore || this.#options.open.isEnding) return false
    // Another answer is under way, or its client does not take it.
    if (connection.turns.length > 0 || this.#socket.writableLength > 0) return false
    if (!this.#options.answerAgain(this.#known.request, target)) return false
    connection.idleLooks = 0
    return true
  }

  /** Before it reads on, Node has its listener back: it takes it off where it lets go of a connection. */
  #handBack(nodes: OnData, chunk: Buffer): void {
    this.#vain += 1
    this.#listen(nodes, this.#onData)
    this.#nodes = undefined
    this.#known = undefined
    this.#inHand = chunk
    nodes.call(this.#socket, chunk)
    this.#inHand = undefined
    if (this.#known !== undefined) this.#takeOver()
  }
}

export function createRepeats(options: RepeatsOptions) {
  return (request: IncomingMessage, connection: Connection): void => {
    connection.repeats ??= new Repeats(request.socket, connection, options)
    connection.repeats.answeredAtOnce(request)
  }
}
