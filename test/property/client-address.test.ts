import { createRequire } from 'node:module'
import fc from 'fast-check'
import ipaddr from 'ipaddr.js'
import { expect, test } from 'vitest'
import { parseTrustProxy, Users } from '../../src/client/client-address.ts'
import {
  isUndisclosedNode,
  nodeAddress,
  parseForwarded,
} from '../../src/client/forwarded.ts'
import { Events } from '../../src/events.ts'
import { clientAddressHeaders } from '../../src/http/headers.ts'
import { formatForwarded, normalizeAddress } from '../../src/http/ip-address.ts'

const readerOf = (options: ConstructorParameters<typeof Users>[0]) =>
  new Users(options, new Events()).read

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
    const parameters = [
      ...one.matchAll(new RegExp(`(${token})=(${quoted}|${loose})`, 'g')),
    ]
    const names = parameters.map(([, name = '']) => name.toLowerCase())
    if (new Set(names).size < names.length) return undefined
    const written = parameters[names.indexOf('for')]?.[2]
    if (names.length > 0)
      hops.push({ node: written === undefined ? undefined : unquoted(written) })
  }
  return hops
}

function unquoted(value: string): string {
  return value.startsWith('"') ? value.slice(1, -1).replaceAll(/\\(.)/g, '$1') : value
}

const trustProxy = ['10.0.0.0/8']
const trusts = parseTrustProxy(trustProxy)

/** Of Forwarded. */
function allHops(lines: readonly string[]): Hop[] {
  const pieces = (line: string) =>
    line.split(',').flatMap((piece) => hopsOf(piece) ?? ['broken' as const])
  return lines.flatMap((line) => hopsOf(line) ?? pieces(line))
}

/** Of X-Forwarded-For. */
function listedHops(lines: readonly string[]): Hop[] {
  const nodes = lines.flatMap((text) => text.split(',').map((part) => part.trim()))
  return nodes.filter((part) => part !== '').map((part) => ({ node: part }))
}

/** Undefined: no user is named. */
function clientOf(hops: Hop[]): string | undefined {
  let client: string | undefined
  for (const hop of hops.reverse()) {
    if (hop === 'broken' || hop.node === undefined || isUndisclosedNode(hop.node))
      return client
    const address = normalizeAddress(nodeAddress(hop.node) ?? '')
    if (address === undefined) return client
    client = address
    if (!trusts(address)) return client
  }
  return client
}

const node = fc.constantFrom(
  ...[
    '203.0.113.7',
    '10.0.0.2',
    '10.0.0.2:80',
    '"10.0.0.3:_x"',
    '"[2001:db8::1]"',
    '"[2001:db8::1%eth0]:1"',
  ],
  ...[
    '[::1]',
    '"[::ffff:10.0.0.4]"',
    '2001:db8::1',
    'unknown',
    '_hidden',
    '"_h:1"',
    'localhost',
    '""',
    '"',
  ],
  ...[
    '"10.0.0.2, for=192.0.2.66"',
    '"192.0.2.66',
    '192.0.2.66"',
    '"\\1\\0.0.0.2"',
    '"\\',
    'a b',
    '',
  ],
)
const piece = fc.oneof(
  { weight: 6, arbitrary: node.map((text) => `for=${text}`) },
  {
    weight: 2,
    arbitrary: fc.tuple(node, node).map(([first, second]) => `for=${first};by=${second}`),
  },
  fc.constantFrom(
    ...['', ' ', ';', 'for', 'for=', 'proto=https', '"', '=', ';;for=10.0.0.5;'],
  ),
  fc.constantFrom('for=10.0.0.2;for=10.0.0.2', 'for=10.0.0.2;proto=http;FOR="10.0.0.3"'),
  fc
    .string({ unit: 'binary', maxLength: 12 })
    .map((text) => `By=_x;fOr="${text.replace(/["\\]/g, '\\$&')}"`),
  fc.string({ unit: fc.constantFrom(...'for=",;\\ 10.[]\t\x01\xe9'), maxLength: 8 }),
)
const line = fc.array(piece, { maxLength: 5 }).map((pieces) => pieces.join(', '))

/** Without types of its own; throws on what it takes for malformed. */
const parseOracle = createRequire(import.meta.url)('forwarded-parse') as (
  value: string,
) => { for?: string }[]

test('a header that forwarded-parse reads is read alike, unless a parameter is repeated, of which it keeps the last', () => {
  let read = 0
  fc.assert(
    fc.property(line, (value) => {
      let theirs: { for?: string }[]
      try {
        theirs = parseOracle(value)
      } catch {
        return
      }
      if (hopsOf(value) === undefined) return
      expect(parseForwarded(value)).toEqual(theirs.map((parsed) => parsed.for))
      read += 1
    }),
    { numRuns: 10_000 },
  )
  expect(read).toBeGreaterThan(500)
})

const listed = fc.array(node, { maxLength: 5 }).map((nodes) => nodes.join(' ,'))

test.each([
  ['Forwarded', line, allHops],
  // With a comma between any two nodes.
  ['X-Forwarded-For', listed, listedHops],
] as const)(
  'the user is the one that a naive reading of the same lines of %s names, or unknown',
  (name, one, hopsOf) => {
    const read = readerOf({ trustProxy, ipHeader: name.toLowerCase() })
    const seen = { none: 0, hop: 0, client: 0 }
    fc.assert(
      fc.property(fc.array(one, { minLength: 1, maxLength: 3 }), (lines) => {
        const headers = lines.flatMap((text) => [name, text])
        const { address, note } = read('10.0.0.1', headers)
        const expected = clientOf(hopsOf(lines))
        expect(address).toBe(expected)
        // Never the proxy's own address, unless a hop names it.
        expect(note === undefined).toBe(expected !== undefined)
        seen[expected === undefined ? 'none' : trusts(expected) ? 'hop' : 'client'] += 1
      }),
      { numRuns: 10_000 },
    )
    // Each end of the walk was met often, or nothing has been shown.
    expect(Math.min(...Object.values(seen))).toBeGreaterThan(500)
  },
)

test('text that a user sends never hides the element that the proxy adds after it', () => {
  const read = readerOf({ trustProxy, ipHeader: 'forwarded' })
  const added = fc.constantFrom(
    'for=203.0.113.7',
    'by="_p";for="203.0.113.7:4711";proto=https',
  )
  fc.assert(
    fc.property(
      fc.oneof(line, fc.string({ unit: 'binary-ascii', maxLength: 30 })),
      added,
      (claimed, own) => {
        expect(read('10.0.0.1', ['Forwarded', `${claimed}, ${own}`]).address).toBe(
          '203.0.113.7',
        )
      },
    ),
    { numRuns: 20_000 },
  )
})

const ipAddress = fc.oneof(fc.ipV4(), fc.ipV6())

test('an untrusted peer is its own user, whatever it sends', () => {
  const untrusted = ipAddress.filter(
    (text) => normalizeAddress(text)?.startsWith('10.') === false,
  )
  const name = fc.constantFrom(
    ...clientAddressHeaders,
    'X-Forwarded-For',
    'X-Forwarded-Host',
    'Host',
  )
  const value = fc.oneof(line, ipAddress, fc.string({ unit: 'binary-ascii' }))
  fc.assert(
    fc.property(
      untrusted,
      fc.array(fc.tuple(name, value)),
      name,
      (peer, headers, ipHeader) => {
        const read = readerOf({ trustProxy, ipHeader: ipHeader.toLowerCase() })
        const own = { address: normalizeAddress(peer), peerTrusted: false }
        expect(read(peer, headers.flat())).toMatchObject(own)
      },
    ),
  )
})

test('addresses are spelled as ipaddr.js spells them', () => {
  fc.assert(
    fc.property(ipAddress, (text) => {
      // ipaddr.js takes the IPv4-compatible ::192.0.2.1 for the IPv4-mapped ::ffff:192.0.2.1.
      fc.pre(!/^[0:]*:\d+\.\d+\.\d+\.\d+$/.test(text))
      const parsed = ipaddr.process(text)
      const expected =
        parsed instanceof ipaddr.IPv6 ? parsed.toRFC5952String() : parsed.toString()
      expect(normalizeAddress(text)).toBe(expected)
    }),
    { numRuns: 1000 },
  )
})

test('addresses are trusted as ipaddr.js matches them', () => {
  const block = fc.oneof(
    fc.tuple(fc.ipV4(), fc.nat(32)),
    fc.tuple(fc.ipV6(), fc.nat(128)),
  )
  fc.assert(
    fc.property(block, ipAddress, fc.boolean(), ([base, prefix], other, near) => {
      const network = normalizeAddress(base) ?? ''
      const candidate = near ? flipBit(network, prefix) : (normalizeAddress(other) ?? '')
      fc.pre(network.includes(':') === base.includes(':'))
      const range = ipaddr.parse(network)
      const address = ipaddr.parse(candidate)
      const expected = range.kind() === address.kind() && address.match(range, prefix)
      const read = readerOf({
        trustProxy: [`${base}/${prefix}`],
        ipHeader: 'forwarded',
      })
      expect(read(candidate, []).peerTrusted).toBe(expected)
    }),
    { numRuns: 1000 },
  )
})

/** The address that differs in just that bit: the last one that counts, or the first that does not. */
function flipBit(address: string, bit: number): string {
  const bytes = ipaddr.parse(address).toByteArray()
  const index = Math.min(bit >> 3, bytes.length - 1)
  bytes[index] = (bytes[index] ?? 0) ^ (0x80 >> (bit & 7))
  const flipped = ipaddr.fromByteArray(bytes)
  return normalizeAddress(flipped.toString()) ?? ''
}

test('a header takes processor time in proportion to its length, whatever is repeated in it', () => {
  const opening = fc.constantFrom('', 'for="', 'for=', 'for', 'for="\\', 'for="[', ',')
  const frequent = ['\\"', '\\\\', 'for=1.2.3.4,', 'for="a",', 'for="\\a",']
  const unit = fc
    .array(fc.constantFrom(...'"\\,;= a:[]', ...frequent), { minLength: 1, maxLength: 5 })
    .map((parts) => parts.join(''))
  const read = readerOf({
    trustProxy: ['0.0.0.0/0', '::/0'],
    ipHeader: 'forwarded',
  })
  const readList = readerOf({
    trustProxy: ['0.0.0.0/0', '::/0'],
    ipHeader: 'x-forwarded-for',
  })
  fc.assert(
    fc.property(opening, unit, (start, repeated) => {
      // Sixteen times what Node lets in: anything quadratic takes minutes here.
      const value = start + repeated.repeat(Math.ceil(262_144 / repeated.length))
      const before = process.cpuUsage()
      read('10.0.0.1', ['Forwarded', value])
      readList('10.0.0.1', ['X-Forwarded-For', value])
      nodeAddress(value)
      expect(process.cpuUsage(before).user).toBeLessThan(1_500_000)
    }),
    { numRuns: 40 },
  )
})

test('an address survives every way to write a node, and being formatted', () => {
  const named = fc.oneof(
    fc.nat(65535).map(String),
    fc.stringMatching(/^_[A-Za-z0-9._-]{1,8}$/),
  )
  fc.assert(
    fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), fc.option(named), (text, port) => {
      const address = normalizeAddress(text) ?? ''
      const host = address.includes(':') ? `[${address}]` : address
      const node = port === null ? host : `${host}:${port}`
      expect(nodeAddress(node)).toBe(address)
      expect(parseForwarded(`for="${node}"`)).toEqual([node])
      expect(parseForwarded(`for=${node}`)).toEqual([node])
      expect(parseForwarded(formatForwarded(address))).toEqual([host])
    }),
  )
})
