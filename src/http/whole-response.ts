import { type IncomingMessage, ServerResponse, validateHeaderName, validateHeaderValue } from 'node:http'
import { dateLine } from './date-line.ts'
import { interrupted } from './problem-response.ts'

/**
 * A response of the traffic server that can send its head and body in one write. Node builds the head from lists,
 * joins it with the body and waits for callbacks that both were written. That is a fifth of all the work of a request,
 * and a small answer whose body is complete does not need it.
 */
export class TrafficResponse extends ServerResponse<IncomingMessage> {
  /** The header lines of a connection that is kept open, such as Keep-Alive. */
  keepAliveLines: string | undefined = undefined
  /** Whether the client sends its body only once it has received `100 Continue`. */
  awaitsContinue = false
  /** The progress of an answer sent by `writeWhole`, which `headersSent` and `writableFinished` do not show. */
  whole: 'under-way' | 'sent' | undefined = undefined
  // Properties that some responses get later are set on all from the start, so that V8 uses one hidden class.
  override statusCode = 200;
  [interrupted]: (() => void) | undefined = undefined

  /** Has a client send its body that waits to be asked for it. Without this call it sends none. */
  askForBody(): void {
    if (!this.awaitsContinue) return
    this.awaitsContinue = false
    this.writeContinue()
  }

  /**
   * Sends `head` (each line ends with CRLF), the lines about the connection, and the body. Returns false and sends
   * nothing if the answer needs `writeHead` and `end`.
   */
  writeWhole(head: string, body: string): boolean {
    const { socket, req, keepAliveLines } = this
    // Without a socket, earlier answers on the same connection are not finished.
    if (!socket?.writable || hasBegun(this)) return false
    if (!this.shouldKeepAlive || req.httpVersionMinor !== 1 || req.method === 'HEAD') return false
    // Also undefined if Express has set this prototype on a response of the server that the gateway is mounted in.
    if (keepAliveLines === undefined || (!req.complete && bodyExpected(req))) return false
    this.whole = 'under-way'
    socket.write(`${head}${keepAliveLines}\r\n${body}`, 'latin1')
    if (socket.writableLength === 0) this.#finish()
    else {
      socket.write('', (error) => {
        if (!error) this.#finish()
      })
    }
    return true
  }

  /** Emits the event that Node's server waits for before it goes on with the connection. */
  #finish(): void {
    this.whole = 'sent'
    this.emit('finish')
  }
}

export function bodyExpected({ headers }: IncomingMessage): boolean {
  return headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined
}

/** Whether the client waits to be asked for its body. */
export function awaitsContinue(response: ServerResponse): boolean {
  return response instanceof TrafficResponse && response.awaitsContinue
}

/** A body up to this size may be sent in one write with its head. */
export const maxOneWriteBytes = 16_384
const plainReason = /^[\t\x20-\x7e\x80-\xff]*$/

/**
 * Sends a complete answer in one write, or returns false and sends nothing. The body is a parameter of its own, because
 * callers would copy a head to add the body to it, and V8 made a hidden class of its own for each such copy.
 */
export function answerInOneWrite(
  response: ServerResponse,
  { status, reason, headers }: { status: number; reason: string; headers: readonly string[] },
  body: Buffer,
): boolean {
  if (!(response instanceof TrafficResponse) || body.length > maxOneWriteBytes) return false
  const lines = headLines(headers)
  if (lines === undefined || !plainReason.test(reason)) return false
  response.statusCode = status
  const date = response.sendDate ? dateLine() : ''
  return response.writeWhole(`HTTP/1.1 ${status} ${reason}\r\n${lines}${date}`, body.toString('latin1'))
}

/**
 * Writes the head of an upstream's answer. After a Content-Length, Node takes a Content-Disposition for UTF-8 and
 * writes it as latin1: an "ü" becomes one byte instead of two, and a "€", or a name in latin1, cannot be written at
 * all. So if a Content-Disposition is not ASCII, the Content-Length goes last.
 */
export function writeReceivedHead(
  response: ServerResponse,
  { status, reason, headers }: { status: number; reason: string; headers: string[] },
): void {
  response.writeHead(status, reason, hasNonAsciiDisposition(headers) ? lengthsLast(headers) : headers)
}

function hasNonAsciiDisposition(headers: readonly string[]): boolean {
  for (let index = 0; index < headers.length; index += 2) {
    const name = headers[index] as string
    if (name.length !== 19 || name.toLowerCase() !== 'content-disposition') continue
    if (/[\x80-\xff]/.test(headers[index + 1] as string)) return true
  }
  return false
}

function lengthsLast(headers: readonly string[]): string[] {
  const others: string[] = []
  const lengths: string[] = []
  for (let index = 0; index < headers.length; index += 2) {
    const name = headers[index] as string
    const list = name.toLowerCase() === 'content-length' ? lengths : others
    list.push(name, headers[index + 1] as string)
  }
  return others.concat(lengths)
}

/** Whether the whole answer was sent. A response that closes before that was cut off. */
export function isSent(response: ServerResponse): boolean {
  return response.writableFinished || (response instanceof TrafficResponse && response.whole === 'sent')
}

/** Whether any byte of an answer was sent, so that no other answer can replace it. */
export function hasBegun(response: ServerResponse): boolean {
  return response.headersSent || (response instanceof TrafficResponse && response.whole !== undefined)
}

/** Writes headers as the lines of a head; undefined if Node would refuse to write one of them. */
export function headLines(headers: readonly string[]): string | undefined {
  let lines = ''
  for (let index = 0; index < headers.length; index += 2) {
    const name = headers[index] as string
    const value = headers[index + 1] as string
    try {
      validateHeaderName(name)
      validateHeaderValue(name, value)
    } catch {
      return undefined
    }
    lines += `${name}: ${value}\r\n`
  }
  return lines
}
