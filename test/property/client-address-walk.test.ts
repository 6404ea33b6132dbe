import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createClientAddress, parseTrustProxy } from '../../src/client/client-address.ts'
import { isUndisclosedNode, nodeAddress } from '../../src/client/forwarded.ts'
import { normalizeAddress } from '../../src/http/ip-address.ts'

// The rule of design.md a second time, with regular expressions where the gateway has a scanner.
const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
const loose = "[!#$%&'*+.^_`|~0-9A-Za-z:[\\]-]+"
const quoted = '"(?:[\\t !#-\\[\\]-~\\x80-\\xff]|\\\\[\\t -~\\x80-\\xff])*"'
const pair = `[ \\t]*(?:${token}=(?:${quoted}|${loose})[ \\t]*)?`
const element = `${pair}(?:;${pair})*`
const wellFormedLine = new RegExp(`^${element}(?:,${element})*$`)

type Hop = { node: string | undefined } | 'broken'

/** The hops of a text; undefined: it is not well-formed. */
function hopsOf(text: string): Hop[] | undefined {
  if (!wellFormedLine.test(text)) return undefined
  const hops: Hop[] = []
  for (const [one] of text.matchAll(new RegExp(element, 'g'))) {
    const parameters = [...one.matchAll(new RegExp(`(${token})=(${quoted}|${loose})`, 'g'))]
    const names = parameters.map(([, name = '']) => name.toLowerCase())
    if (new Set(names).size < names.length) return undefined
    const written = parameters[names.indexOf('for')]?.[2]
    if (names.length > 0) hops.push({ node: written === undefined ? undefined : unquoted(written) })
  }
  return hops
}

function unquoted(value: string): string {
  return value.startsWith('"') ? value.slice(1, -1).replaceAll(/\\(.)/g, '$1') : value
}

const trustProxy = ['10.0.0.0/8']
const trusted = parseTrustProxy(trustProxy)

/** Undefined: no client is named. */
function clientOf(lines: readonly string[]): string | undefined {
  const pieces = (line: string) => line.split(',').flatMap((piece) => hopsOf(piece) ?? ['broken' as const])
  const hops = lines.flatMap((line) => hopsOf(line) ?? pieces(line))
  let client: string | undefined
  for (const hop of hops.reverse()) {
    if (hop === 'broken' || hop.node === undefined || isUndisclosedNode(hop.node)) return client
    const address = normalizeAddress(nodeAddress(hop.node) ?? '')
    if (address === undefined) return client
    client = address
    if (!trusted.trusts(address)) return client
  }
  return client
}

const node = fc.constantFrom(
  ...['203.0.113.7', '10.0.0.2', '10.0.0.2:80', '"10.0.0.3:_x"', '"[2001:db8::1]"', '"[2001:db8::1%eth0]:1"'],
  ...['[::1]', '"[::ffff:10.0.0.4]"', '2001:db8::1', 'unknown', '_hidden', '"_h:1"', 'localhost', '""', '"'],
  ...['"10.0.0.2, for=192.0.2.66"', '"192.0.2.66', '192.0.2.66"', '"\\1\\0.0.0.2"', '"\\', 'a b', ''],
)
const piece = fc.oneof(
  { weight: 6, arbitrary: node.map((text) => `for=${text}`) },
  { weight: 2, arbitrary: fc.tuple(node, node).map(([first, second]) => `for=${first};by=${second}`) },
  fc.constantFrom(
    '',
    ' ',
    ';',
    'for',
    'for=',
    'proto=https',
    'for=10.0.0.2;for=10.0.0.2',
    '"',
    '=',
    ';;for=10.0.0.5;',
  ),
  fc.string({ unit: fc.constantFrom(...'for=",;\\ 10.[]\t\x01\xe9'), maxLength: 8 }),
)
const line = fc.array(piece, { maxLength: 5 }).map((pieces) => pieces.join(', '))

test('the client is the one that a naive reading of the same lines names, or unknown', () => {
  const peer = '10.0.0.1'
  const read = createClientAddress({ trustProxy, ipHeader: 'forwarded' })
  const seen = { nobody: 0, hop: 0, client: 0 }
  fc.assert(
    fc.property(fc.array(line, { minLength: 1, maxLength: 3 }), (lines) => {
      const client = read(
        peer,
        lines.flatMap((text) => ['Forwarded', text]),
      )
      const expected = clientOf(lines)
      expect(client.address).toBe(expected)
      // Never the proxy's own address, unless a hop names it.
      expect(client.note === undefined).toBe(expected !== undefined)
      seen[expected === undefined ? 'nobody' : trusted.trusts(expected) ? 'hop' : 'client'] += 1
    }),
    { numRuns: 20_000 },
  )
  // Each end of the walk was met often, or nothing has been shown.
  expect(Math.min(...Object.values(seen))).toBeGreaterThan(1_000)
})

test('X-Forwarded-For is read the same way, with a comma between any two nodes', () => {
  const read = createClientAddress({ trustProxy, ipHeader: 'x-forwarded-for' })
  const listed = fc.array(node, { maxLength: 5 }).map((nodes) => nodes.join(' ,'))
  fc.assert(
    fc.property(fc.array(listed, { minLength: 1, maxLength: 3 }), (lines) => {
      const nodes = lines.flatMap((text) => text.split(',').map((part) => part.trim()))
      let expected: string | undefined
      for (const text of nodes.filter((part) => part !== '').reverse()) {
        const address = normalizeAddress(nodeAddress(text) ?? '')
        if (address === undefined) break
        expected = address
        if (!trusted.trusts(address)) break
      }
      const headers = lines.flatMap((text) => ['X-Forwarded-For', text])
      expect(read('10.0.0.1', headers).address).toBe(expected)
    }),
    { numRuns: 5_000 },
  )
})

test('text that a client sends never hides the element that the proxy adds after it', () => {
  const read = createClientAddress({ trustProxy, ipHeader: 'forwarded' })
  const added = fc.constantFrom(
    'for=203.0.113.7',
    'for="203.0.113.7:4711";proto=https',
    'by="_p";for=203.0.113.7',
  )
  fc.assert(
    fc.property(fc.oneof(line, fc.string({ unit: 'binary-ascii', maxLength: 30 })), added, (claimed, own) => {
      expect(read('10.0.0.1', ['Forwarded', `${claimed}, ${own}`]).address).toBe('203.0.113.7')
    }),
    { numRuns: 20_000 },
  )
})
