import fc from 'fast-check'
import ipaddr from 'ipaddr.js'
import { describe, expect, test } from 'vitest'
import { createClientAddress } from '../../src/client/client-address.ts'
import { clientAddressHeaders } from '../../src/http/forwarded.ts'
import { normalizeAddress } from '../../src/http/ip-address.ts'

const ipAddress = fc.oneof(fc.ipV4(), fc.ipV6())

describe('addresses', () => {
  test('are spelled as ipaddr.js spells them', () => {
    fc.assert(
      fc.property(ipAddress, (text) => {
        // ipaddr.js takes the IPv4-compatible ::192.0.2.1 for the IPv4-mapped ::ffff:192.0.2.1.
        fc.pre(!/^[0:]*:\d+\.\d+\.\d+\.\d+$/.test(text))
        const parsed = ipaddr.process(text)
        const expected = parsed instanceof ipaddr.IPv6 ? parsed.toRFC5952String() : parsed.toString()
        expect(normalizeAddress(text)).toBe(expected)
      }),
      { numRuns: 1000 },
    )
  })

  test('are trusted as ipaddr.js matches them', () => {
    const block = fc.oneof(fc.tuple(fc.ipV4(), fc.nat(32)), fc.tuple(fc.ipV6(), fc.nat(128)))
    fc.assert(
      fc.property(block, ipAddress, fc.boolean(), ([base, prefix], other, near) => {
        const network = normalizeAddress(base) ?? ''
        const candidate = near ? flipBit(network, prefix) : (normalizeAddress(other) ?? '')
        fc.pre(network.includes(':') === base.includes(':'))
        const range = ipaddr.parse(network)
        const address = ipaddr.parse(candidate)
        const expected = range.kind() === address.kind() && address.match(range, prefix)
        const read = createClientAddress({ trustProxy: [`${base}/${prefix}`], ipHeader: 'forwarded' })
        expect(read(candidate, []).peerTrusted).toBe(expected)
      }),
      { numRuns: 1000 },
    )
  })
})

/** The address that differs in just that bit: the last one that counts, or the first that does not. */
function flipBit(address: string, bit: number): string {
  const bytes = ipaddr.parse(address).toByteArray()
  const index = Math.min(bit >> 3, bytes.length - 1)
  bytes[index] = (bytes[index] ?? 0) ^ (0x80 >> (bit & 7))
  const flipped = ipaddr.fromByteArray(bytes)
  return normalizeAddress(flipped.toString()) ?? ''
}

describe('the client of a request', () => {
  const untrusted = ipAddress.filter((text) => normalizeAddress(text)?.startsWith('10.0.') === false)
  const trustProxy = ['10.0.0.0/16']

  test('an untrusted peer is its own client, whatever it sends', () => {
    const name = fc.constantFrom(...clientAddressHeaders, 'X-Forwarded-For', 'X-Forwarded-Host', 'Host')
    const value = fc.oneof(
      fc.string({ unit: 'binary-ascii' }),
      ipAddress.map((address) => `for="[${address}]"`),
      ipAddress,
    )
    fc.assert(
      fc.property(untrusted, fc.array(fc.tuple(name, value)), name, (peer, headers, ipHeader) => {
        const read = createClientAddress({ trustProxy, ipHeader: ipHeader.toLowerCase() })
        expect(read(peer, headers.flat())).toMatchObject({
          address: normalizeAddress(peer),
          peerTrusted: false,
        })
      }),
    )
  })
})
