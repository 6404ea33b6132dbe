import { describe, expect, test } from 'vitest'
import { isUndisclosedNode, nodeAddress, parseForwarded } from '../../src/client/forwarded.ts'
import { formatForwarded } from '../../src/http/forwarded.ts'

describe('formatForwarded', () => {
  test('writes IPv4 as a token and IPv6 in brackets and quotes', () => {
    expect(formatForwarded('203.0.113.7')).toBe('for=203.0.113.7')
    expect(formatForwarded('2001:db8::17')).toBe('for="[2001:db8::17]"')
  })

  test('says unknown where no address is known', () => {
    expect(formatForwarded(undefined)).toBe('for=unknown')
  })

  test.each(['', 'unknown', '1.2.3.4\r\nx: y', '1.2.3.4;proto=https', '0x7f.1', '"', '::1"]'])(
    'writes only addresses into the header: %j',
    (text) => {
      expect(formatForwarded(text)).toBe('for=unknown')
    },
  )

  test('never sends a zone', () => {
    expect(formatForwarded('fe80::1%eth0')).toBe('for="[fe80::1]"')
  })
})

describe('parseForwarded reads', () => {
  test.each<[string, string[]]>([
    ['for="_gazonk"', ['_gazonk']],
    ['For="[2001:db8:cafe::17]:4711"', ['[2001:db8:cafe::17]:4711']],
    ['for=192.0.2.60;proto=http;by=203.0.113.43', ['192.0.2.60']],
    ['for=192.0.2.43, for=198.51.100.17', ['192.0.2.43', '198.51.100.17']],
    ['for=_hidden, for=_SEVKISEK', ['_hidden', '_SEVKISEK']],
    [
      'for=192.0.2.43,for="[2001:db8:cafe::17]",for=unknown',
      ['192.0.2.43', '[2001:db8:cafe::17]', 'unknown'],
    ],
  ])("RFC 7239's own example %s", (value, nodes) => {
    expect(parseForwarded(value)).toEqual(nodes)
  })

  test('an element without a `for` as one that names no client', () => {
    expect(parseForwarded('for=192.0.2.1, secret=x')).toEqual(['192.0.2.1', undefined])
  })

  test('an unquoted port and an unquoted IPv6 address, which many proxies write', () => {
    expect(parseForwarded('for=192.0.2.1:4711;host=example.com:8080, for=[2001:db8::1]:80')).toEqual([
      '192.0.2.1:4711',
      '[2001:db8::1]:80',
    ])
  })
})

describe('parseForwarded calls malformed', () => {
  test.each([
    ['a parameter twice in one element', 'for=192.0.2.1;for=192.0.2.2'],
    ['a parameter twice, in another case', 'for=192.0.2.1;FOR="192.0.2.2"'],
    ['an extension twice', 'a=1;for=192.0.2.1;a=1'],
    ['a name without a value', 'for'],
    ['a name with an empty value', 'for='],
    ['an empty value before a semicolon', 'for=;proto=http'],
    ['a value without a name', '=192.0.2.1'],
    ['an address alone', '192.0.2.1'],
    ['blanks before the equals sign', 'for =192.0.2.1'],
    ['blanks after the equals sign', 'for= 192.0.2.1'],
    ['no equals sign', 'for"192.0.2.1"'],
    ['two values', 'for=192.0.2.1 192.0.2.2'],
    ['text after a quoted string', 'for="192.0.2.1"x'],
    ['a second quoted string', 'for="_a""_b"'],
    ['text before a quoted string', 'for=x"192.0.2.1"'],
    ['a quoted string that never ends', 'for="192.0.2.1'],
    ['a quoted string that ends in an escape', 'for="192.0.2.1\\"'],
    ['a backslash at the very end', 'for="192.0.2.1\\'],
    ['an escape outside quotes', 'for=192\\.0.2.1'],
    ['a control character in quotes', 'for="\x00"'],
    ['an escaped control character', 'for="\\\x7f"'],
    ['a line break', 'for=192.0.2.1\r\n ,for=192.0.2.2'],
    ['a character outside Latin-1', 'for="\u0100"'],
    ['a quoted name', '"for"=192.0.2.1'],
    ['a bad element after a good one', 'for=192.0.2.1, for'],
    ['a bad element before a good one', 'for, for=192.0.2.1'],
    ['an unquoted slash', 'host=a/b'],
    ['an unquoted second equals sign', 'host=a=b'],
  ])('%s', (_, value) => {
    expect(parseForwarded(value)).toBeUndefined()
  })
})

describe('nodeAddress', () => {
  test.each([
    ['192.0.2.1', '192.0.2.1'],
    ['192.0.2.1:4711', '192.0.2.1'],
    ['192.0.2.1:_port', '192.0.2.1'],
    ['[2001:db8::1]', '2001:db8::1'],
    ['[2001:db8::1]:4711', '2001:db8::1'],
    ['[2001:db8::1]:_a.b-c', '2001:db8::1'],
    ['[fe80::1%eth0]', 'fe80::1'],
    ['[fe80::1%25eth0]:80', 'fe80::1'],
    ['fe80::1%br_lan', 'fe80::1'],
    ['2001:db8::1', '2001:db8::1'],
    ['::ffff:192.0.2.1', '::ffff:192.0.2.1'],
  ])('finds the address of %s', (node, address) => {
    expect(nodeAddress(node)).toBe(address)
  })

  test('reads the last group of an IPv6 address without brackets as part of the address', () => {
    expect(nodeAddress('2001:db8::1:4711')).toBe('2001:db8::1:4711')
  })

  test.each([
    '',
    'unknown',
    '_hidden',
    'localhost',
    '0x7f.1',
    '127.1',
    '010.0.0.1',
    '192.0.2.256',
    '192.0.2.1:',
    '192.0.2.1:123456',
    '192.0.2.1:80:80',
    '192.0.2.1:-1',
    '192.0.2.1%eth0',
    ' 192.0.2.1',
    '192.0.2.1 ',
    '192.0.2.1\n',
    '[192.0.2.1]',
    '[2001:db8::1',
    '2001:db8::1]',
    '[[2001:db8::1]]',
    '[2001:db8::1]x',
    '[2001:db8::1]80',
    '[fe80::1%]',
    '[fe80::1%a b]',
    '1:2:3:4:5:6:7:8:9',
  ])('finds no address in %j', (node) => {
    expect(nodeAddress(node)).toBeUndefined()
  })
})

test('distinguishes obfuscated nodes from malformed nodes', () => {
  for (const node of ['unknown', 'UNKNOWN', 'unknown:80', '_hidden', '_a.b-c_d', '_a:_b']) {
    expect(isUndisclosedNode(node), node).toBe(true)
  }
  for (const node of ['', '_', 'unknown2', '_a b', '_a:', '192.0.2.1', 'localhost', '_a\n']) {
    expect(isUndisclosedNode(node), node).toBe(false)
  }
})
