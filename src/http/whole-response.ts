import { type IncomingMessage, ServerResponse, validateHeaderName, validateHeaderValue } from 'node:http'
import { interrupted } from './problem-response.ts'

/**
 * The answer to a request of the traffic server, which can also go out whole, its head and body in one write. Node
 * makes a head of lists, gathers it with the body and waits to be told that both were written: a fifth of all the
 * work of a request, which an answer does not need that is small and all there.
 */
export class TrafficResponse extends ServerResponse<IncomingMessage> {
  /** What a head says of a connection that is kept. */
  keepAliveLines: string | undefined = undefined
  /** How far it has come since it was written whole, which `headersSent` and `writableFinished` do not know of. */
  whole: 'under-way' | 'sent' | undefined = undefined
  // What some answers are given later, all have from the start, so that V8 takes them for objects of one kind.
  override statusCode = 200;
  [interrupted]: (() => void) | undefined = undefined

  /**
   * Sends `head`, every line of it with its CRLF, then the lines about the connection, then the body. False, and
   * nothing is done, where it takes what only `writeHead` and `end` see to.
   */
  writeWhole(head: string, body: string): boolean {
    const { socket, req, keepAliveLines } = this
    // Without a socket it is not this answer's turn yet.
    if (!socket?.writable || hasBegun(this)) return false
    if (!this.shouldKeepAlive || req.httpVersionMinor !== 1 || req.method === 'HEAD') return false
    // Undefined too where Express has given this prototype to a response of somebody else's server.
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

  /** What Node's server waits for before it goes on with the connection. */
  #finish(): void {
    this.whole = 'sent'
    this.emit('finish')
  }
}

function bodyExpected({ headers }: IncomingMessage): boolean {
  return headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined
}

/** A body up to this size may go out together with its head. */
export const oneWriteBytesMost = 16_384
const plainReason = /^[\t\x20-\x7e\x80-\xff]*$/

/**
 * Sends an answer that is all there in one write. False, and nothing is done, where that cannot be. The body stands by
 * itself so that nobody copies a head to add it: V8 made each such copy a hidden class of its own.
 */
export function answerInOneWrite(
  response: ServerResponse,
  { status, reason, headers }: { status: number; reason: string; headers: readonly string[] },
  body: Buffer,
): boolean {
  if (!(response instanceof TrafficResponse) || body.length > oneWriteBytesMost) return false
  const lines = headLines(headers)
  if (lines === undefined || !plainReason.test(reason)) return false
  response.statusCode = status
  const date = response.sendDate ? dateLine() : ''
  return response.writeWhole(`HTTP/1.1 ${status} ${reason}\r\n${lines}${date}`, body.toString('latin1'))
}

/**
 * Writes the head of an upstream's answer. Behind a Content-Length, Node takes a Content-Disposition for UTF-8 and
 * writes it as latin1: an "ü" comes out as one byte instead of two, and a "€", or a name in latin1, cannot be written
 * at all. So behind such a name the length goes last.
 */
export function writeReceivedHead(
  response: ServerResponse,
  { status, reason, headers }: { status: number; reason: string; headers: string[] },
): void {
  response.writeHead(status, reason, hasForeignDisposition(headers) ? lengthsLast(headers) : headers)
}

function hasForeignDisposition(headers: readonly string[]): boolean {
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

/** Whether all of an answer is on its way; a response that is closed before that was broken off. */
export function isSent(response: ServerResponse): boolean {
  return response.writableFinished || (response instanceof TrafficResponse && response.whole === 'sent')
}

/** Whether anything of an answer went out, so that no other can take its place. */
export function hasBegun(response: ServerResponse): boolean {
  return response.headersSent || (response instanceof TrafficResponse && response.whole !== undefined)
}

/** The Date line of this second: Node remembers its own as well. */
let dateOfSecond = ''
let dateUntilMs = 0

export function dateLine(): string {
  const nowMs = Date.now()
  if (nowMs >= dateUntilMs || nowMs < dateUntilMs - 1_000) {
    dateOfSecond = `Date: ${new Date(nowMs).toUTCString()}\r\n`
    dateUntilMs = nowMs - (nowMs % 1_000) + 1_000
  }
  return dateOfSecond
}

/** Headers as the lines of a head; undefined if Node would refuse to write one of them. */
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

/** The same for lists that come again and again and never change. */
export function createHeadLines(): typeof headLines {
  const known = new WeakMap<readonly string[], string | undefined>()
  return (headers) => {
    const lines = known.get(headers)
    if (lines !== undefined) return lines
    const fresh = headLines(headers)
    known.set(headers, fresh)
    return fresh
  }
}
