import { describe, expect, test } from 'vitest'
import {
  isUndisclosedNode,
  nodeAddress,
  parseForwarded,
} from '../../src/client/forwarded.ts'
import { formatForwarded } from '../../src/http/ip-address.ts'

describe('formatForwarded', () => {
  test('writes IPv4 as a token and IPv6 in brackets and quotes', () => {
    expect(formatForwarded('203.0.113.7')).toBe('for=203.0.113.7')
    expect(formatForwarded('2001:db8::17')).toBe('for="[2001:db8::17]"')
  })

  test('writes only addresses into the header', () => {
    for (const text of [
      undefined,
      '',
      '1.2.3.4\r\nx: y',
      '1.2.3.4;proto=https',
      '0x7f.1',
      '"',
      '::1"]',
    ])
      expect(formatForwarded(text), text).toBe('for=unknown')
  })

  test('never sends a zone', () =>
    expect(formatForwarded('fe80::1%eth0')).toBe('for="[fe80::1]"'))
})

// What is valid is read as it was written: test/property/client-address.test.ts, also what is malformed elsewhere.
test('parseForwarded calls malformed what would be a guess, and all of a value of which a part is malformed', () => {
  const noPair = [
    'for',
    '192.0.2.1',
    '=192.0.2.1',
    'for =192.0.2.1',
    'for=;proto=http',
    'host=a=b',
  ]
  const noString = [
    'for="192.0.2.1',
    'for="192.0.2.1"x',
    'for=x"192.0.2.1"',
    'for="a\\"',
    'for="\x00"',
    'for="\u0100"',
  ]
  const guesses = [
    'for=192.0.2.1;FOR=192.0.2.2',
    'a=1;for=192.0.2.1;a=1',
    'for=192\\.0.2.1',
    'for=192.0.2.1\r\n',
  ]
  for (const value of [
    ...noPair,
    ...noString,
    ...guesses,
    'for=192.0.2.1, for',
    'for, for=192.0.2.1',
  ])
    expect(parseForwarded(value), value).toBeUndefined()
})

describe('nodeAddress', () => {
  test.each([
    ['[fe80::1%eth0]', 'fe80::1'],
    ['[fe80::1%25eth0]:80', 'fe80::1'],
    ['fe80::1%br_lan', 'fe80::1'],
    // Without brackets the last group is part of the address.
    ['2001:db8::1:4711', '2001:db8::1:4711'],
  ])('finds the address of %s', (node, address) =>
    expect(nodeAddress(node)).toBe(address),
  )

  test('finds none in anything else', () => {
    const no = [
      '',
      'unknown',
      '_hidden',
      'localhost',
      '0x7f.1',
      '192.0.2.256',
      '192.0.2.1\n',
      ' 192.0.2.1',
    ]
    const noPort = [
      '192.0.2.1:',
      '192.0.2.1:123456',
      '192.0.2.1:80:80',
      '192.0.2.1:-1',
      '192.0.2.1%eth0',
    ]
    const noBrackets = [
      '[192.0.2.1]',
      '[2001:db8::1',
      '2001:db8::1]',
      '[[2001:db8::1]]',
      '[2001:db8::1]x',
    ]
    const noZone = ['[fe80::1%]', '[fe80::1%a b]', '1:2:3:4:5:6:7:8:9']
    for (const node of [...no, ...noPort, ...noBrackets, ...noZone])
      expect(nodeAddress(node), node).toBeUndefined()
  })
})

test('distinguishes obfuscated nodes from malformed nodes', () => {
  for (const node of [
    'unknown',
    'UNKNOWN',
    'unknown:80',
    '_hidden',
    '_a.b-c_d',
    '_a:_b',
  ]) {
    expect(isUndisclosedNode(node), node).toBe(true)
  }
  for (const node of [
    '',
    '_',
    'unknown2',
    '_a b',
    '_a:',
    '192.0.2.1',
    'localhost',
    '_a\n',
  ]) {
    expect(isUndisclosedNode(node), node).toBe(false)
  }
})
