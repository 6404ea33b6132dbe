import { isIPv4 } from 'node:net'
import { plainAddress } from '../http/ip-address.ts'

/**
 * Reads a `Forwarded` field by RFC 7239 section 4: the `for` of each element, unquoted, or undefined if that hop names
 * none. Undefined: malformed.
 *
 * The field is read from the left, because a quoted string may hold commas, and only the text before it tells where it
 * begins. So one mistake makes the whole value unreadable.
 *
 * Three mistakes against the grammar are accepted: an unquoted port (`for=192.0.2.1:4711`), an unquoted IPv6 address
 * (`for=[2001:db8::1]`), and blanks around a semicolon. Proxies write them, and each can only mean one thing. Refusing
 * them would put every user of such a proxy at the proxy's own address.
 */
export function parseForwarded(value: string): (string | undefined)[] | undefined {
  let position = 0
  const read = (run: RegExp) => {
    run.lastIndex = position
    const found = run.exec(value)?.[0]
    position += found?.length ?? 0
    return found
  }
  const nodes: (string | undefined)[] = []
  let element = new Map<string, string>()
  let separator: string | undefined
  do {
    read(blanks)
    const name = read(tokenRun)?.toLowerCase()
    // RFC 7239 section 4: every pair is optional, `;;` included.
    if (name !== undefined) {
      if (read(equalsSign) === undefined) return undefined
      const quoted = read(quotedString)
      const text = quoted?.slice(1, -1).replace(/\\(.)/g, '$1') ?? read(unquotedRun)
      // RFC 7239 section 4: "Each parameter MUST NOT occur more than once per field-value" (by its examples: element).
      // Picking one of two addresses would be a guess.
      if (text === undefined || element.has(name)) return undefined
      element.set(name, text)
      read(blanks)
    }
    separator = read(separators)
    if (separator === ';') continue
    // RFC 9110 section 5.6.1.2: empty list elements are ignored. RFC 7239 also allows an element without any pair
    // (`;`).
    if (element.size > 0) nodes.push(element.get('for'))
    element = new Map()
  } while (separator !== undefined)
  return position === value.length ? nodes : undefined
}

/** The address of a node as received, without port, brackets and zone. Undefined: the node has none. */
export function nodeAddress(node: string): string | undefined {
  // An IPv6 address without brackets is malformed in Forwarded but usual in X-Forwarded-For. Its last group is not a
  // port, because RFC 5952 section 6 requires brackets before a port.
  const bare = plainAddress(node)
  if (bare !== undefined) return bare
  const match = nodeWithPort.exec(node)
  if (match === null) return undefined
  const [, bracketed, unbracketed = ''] = match
  if (bracketed === undefined) return isIPv4(unbracketed) ? unbracketed : undefined
  return bracketed.includes(':') ? plainAddress(bracketed) : undefined
}

/** Whether the node hides its address: RFC 7239 sections 6.2 (`unknown`) and 6.3 (`_hidden`). */
export function isUndisclosedNode(node: string): boolean {
  return undisclosedNode.test(node)
}

// RFC 7239 section 6: the port is at most five digits, or an obfuscated name.
const nodeWithPort = /^(?:\[([^\]]*)\]|([^:]*))(?::(?:\d{1,5}|_[\w.-]+))?$/
const undisclosedNode = /^(?:unknown|_[\w.-]+)(?::(?:\d{1,5}|_[\w.-]+))?$/i

// At each character only one branch of these patterns matches, so none of them backtracks.
const tokenRun = /[!#$%&'*+.^_`|~0-9A-Za-z-]+/y
const unquotedRun = /[!#$%&'*+.^_`|~0-9A-Za-z:[\]-]+/y
// RFC 9110 section 5.6.4: tab, blank, visible characters and obs-text.
const quotedString = /"(?:[\t !#-[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*"/y
const blanks = /[ \t]+/y
const equalsSign = /=/y
const separators = /[;,]/y
