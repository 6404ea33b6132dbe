import { expect, test } from 'vitest'
import { maskedAddress } from '../../src/http/masked-address.ts'

test.each([
  ['203.0.113.77', '203.0.113.x'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2:x'],
  ['2001:db8::1', '2001:db8:0:0:x'],
  ['::1', '0:0:0:0:x'],
  ['fe80::', 'fe80:0:0:0:x'],
  ['::ffff:203.0.113.77', '203.0.113.x'],
  [undefined, 'unknown'],
  ['<b>', 'unknown'],
])('of the address %s people see %s', (address, shown) => {
  expect(maskedAddress(address)).toBe(shown)
})
