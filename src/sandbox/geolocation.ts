import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import { blocksHold, normalizeAddress, parseAddressBlock } from '../http/ip-address.ts'

/** Locates by the connection's address if `Forwarded` is unusable. */
export function locate(request: IncomingMessage, restrictedPlace: string) {
  const forwarded = forwardedFor(request.headers.forwarded ?? '')
  const ip = forwarded ?? normalizeAddress(request.socket.remoteAddress ?? '') ?? ''
  const source = forwarded === undefined ? 'peer' : 'forwarded'
  const block = parseAddressBlock(restrictedPlace)
  return { ip, source, allowed: 'problem' in block || !blocksHold([block], ip) }
}

/** A `Forwarded` pair, or the comma that ends an element: https://www.rfc-editor.org/rfc/rfc7239#section-4 */
const pairOrComma =
  /\s*(?:([^\s=;,"]+)=("(?:[^"\\]|\\.)*"|[^\s;,"]*)\s*(?:;|(?=,|$))|(,))/y

/** `for=` of the first element, if the provider would accept it. */
export function forwardedFor(header: string): string | undefined {
  pairOrComma.lastIndex = 0
  for (
    let match = pairOrComma.exec(header);
    match !== null;
    match = pairOrComma.exec(header)
  ) {
    const [, name, value, comma] = match
    if (comma !== undefined) return undefined
    if (name?.toLowerCase() === 'for') return readNode(value ?? '')
  }
  return undefined
}

function readNode(value: string): string | undefined {
  const isQuoted = value.startsWith('"')
  const node = isQuoted ? value.slice(1, -1).replaceAll(/\\(.)/g, '$1') : value
  const bracketed = /^\[([^\]%]*)\](?::\w+)?$/.exec(node)
  if (bracketed !== null) {
    const address = bracketed[1] ?? ''
    // The provider was seen to ignore IPv6 that is not both bracketed and quoted.
    return isQuoted && isIP(address) === 6 ? normalizeAddress(address) : undefined
  }
  const address = node.replace(/:\w+$/, '')
  return isIP(address) === 4 ? address : undefined
}
