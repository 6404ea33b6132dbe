import { describe, expect, test } from 'vitest'
import { canonicalHost } from '../../src/config/urls.ts'
import { maskedAddress, normalizeAddress } from '../../src/http/ip-address.ts'

describe('normalizeAddress', () => {
  test.each([
    // As ipaddr.js spells them: test/property/client-address.test.ts. It differs in the last but two.
    ['::FFFF:192.0.2.1', '192.0.2.1'],
    ['2001:DB8:0000:0:0:0:0:0001', '2001:db8::1'],
    ['2001:db8:0:0:1:0:0:1', '2001:db8::1:0:0:1'],
    ['2001:db8::1:1:1:1:1', '2001:db8:0:1:1:1:1:1'],
    ['0:0:0:0:0:0:0:0', '::'],
    ['2001:db8::ffff:192.0.2.1', '2001:db8::ffff:c000:201'],
    ['::192.0.2.1', '::c000:201'],
    ['fe80::1%br_lan', 'fe80::1'],
    ['::ffff:192.0.2.1%1', '192.0.2.1'],
  ])('spells %s as %s', (text, address) => {
    expect(normalizeAddress(text)).toBe(address)
    expect(normalizeAddress(address)).toBe(address)
  })

  test.each([
    '',
    '0x7f.1',
    '01.2.3.4',
    '1.2.3.4 ',
    '1.2.3.4%1',
    '::1%',
    '[::1]',
    ':::',
    '1.2.3.4:80',
  ])('finds no address in %j', (text) => {
    expect(normalizeAddress(text)).toBeUndefined()
  })
})

test.each([
  ['203.0.113.77', '203.0.113.x'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2:x'],
  ['2001:db8::1', '2001:db8:0:0:x'],
  ['::1', '0:0:0:0:x'],
  ['::ffff:203.0.113.77', '203.0.113.x'],
  [undefined, 'unknown'],
  ['<b>', 'unknown'],
])('the address %s is shown as %s', (address, shown) =>
  expect(maskedAddress(address)).toBe(shown),
)

test.each([
  ['Swap.Example.', 'swap.example'],
  ['[2001:DB8::1]', '2001:db8::1'],
  ['fe80::1%eth0', 'fe80::1'],
  ['[::ffff:c000:201]', '192.0.2.1'],
])('the host %s is %s', (host, canonical) => expect(canonicalHost(host)).toBe(canonical))
