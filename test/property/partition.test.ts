import fc from 'fast-check'
import ipaddr from 'ipaddr.js'
import { expect, it } from 'vitest'
import { createPartition } from '../../src/client/partition.ts'

const bytes = (length: number) => fc.array(fc.nat(255), { minLength: length, maxLength: length })
const ipv4 = bytes(4)
// Zeros are frequent, since "::" is where a reader goes wrong.
const ipv6 = fc.array(fc.oneof(fc.constant(0), fc.nat(255)), { minLength: 16, maxLength: 16 })
const address = fc.oneof(ipv4, ipv6).filter(isCanonical)

/** An IPv4-mapped address is IPv4 by the time it is partitioned. */
function isCanonical(list: number[]): boolean {
  return list.length === 4 || ipaddr.fromByteArray(list).range() !== 'ipv4Mapped'
}

const text = (list: number[]) => ipaddr.fromByteArray(list).toString()

it('never lets a place pass for an address, whatever the header says', () => {
  const byHeader = createPartition('header')
  const byIp = createPartition('ip')
  fc.assert(
    fc.property(address, fc.string(), (list, suffix) => {
      const client = { address: text(list), peerTrusted: true }
      const other = { address: '192.0.2.99', peerTrusted: true }
      for (const claimed of [suffix, text(list), `ip:${text(list)}`])
        expect(byHeader(other, claimed)).not.toBe(byIp(client, undefined))
    }),
  )
})

it('gives one string to one place or address, and to nothing else', () => {
  const modes = [createPartition('ip'), createPartition('header')]
  const client = fc.record({
    address: fc.option(fc.constantFrom('192.0.2.1', '192.0.2.2', '2001:db8::1'), { nil: undefined }),
    peerTrusted: fc.boolean(),
    place: fc.constantFrom('', 'DE', 'FR', 'XX', '192.0.2.1'),
  })
  type Client = typeof client extends fc.Arbitrary<infer T> ? T : never
  const meaning = (mode: number, { address, peerTrusted, place }: Client) =>
    mode === 1 && address && peerTrusted && !['', 'XX'].includes(place)
      ? ['place', place]
      : ['address', address]

  fc.assert(
    fc.property(client, client, fc.nat(1), fc.nat(1), (left, right, leftMode, rightMode) => {
      const of = (mode: number, one: Client) => modes[mode]?.(one, one.place)
      const same = JSON.stringify(meaning(leftMode, left)) === JSON.stringify(meaning(rightMode, right))
      expect(of(leftMode, left) === of(rightMode, right)).toBe(same)
    }),
    { numRuns: 3_000 },
  )
})
