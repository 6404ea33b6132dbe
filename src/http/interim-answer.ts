import type { IncomingMessage, ServerResponse } from 'node:http'
import { answerHeaders, reasonBytes } from './headers.ts'
import { hasBegun, headLines } from './whole-response.ts'

/** 100 is the gateway's own answer to `Expect`, and 101 answers an `Upgrade` that is never passed on. */
const ofThisHop: ReadonlySet<number> = new Set([100, 101])
const writableReason = /^[\t\x20-\x7e\x80-\xff]*$/

/**
 * Relays an interim answer of an upstream, such as 103 Early Hints (RFC 9110 15.2). A client of HTTP/1.0 cannot read one,
 * and a client that reads nothing would have them pile up.
 */
export function relayInterim(
  request: IncomingMessage,
  response: ServerResponse,
  { status, reason, rawHeaders }: { status: number; reason: string; rawHeaders: readonly string[] },
): void {
  const { socket } = response
  if (ofThisHop.has(status) || request.httpVersionMinor === 0 || hasBegun(response)) return
  if (!socket?.writable || socket.writableNeedDrain) return
  const lines = headLines(answerHeaders(status, rawHeaders))
  if (lines === undefined) return
  const phrase = reasonBytes(reason)
  socket.write(`HTTP/1.1 ${status} ${writableReason.test(phrase) ? phrase : ''}\r\n${lines}\r\n`, 'latin1')
}
