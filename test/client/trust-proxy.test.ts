import { describe, expect, test } from 'vitest'
import { parseTrustProxy } from '../../src/client/client-address.ts'

describe('TRUST_PROXY', () => {
  test.each<[string, string[], string[]]>([
    // Blocks as ipaddr.js matches them: test/property/client-address.test.ts.
    ['10.1.2.3', ['10.1.2.3'], ['10.1.2.4', '::a01:203']],
    [
      '10.1.2.3/8',
      ['10.0.0.0', '10.255.255.255'],
      ['11.0.0.0', '9.255.255.255', 'a00::'],
    ],
    ['0.0.0.0/0', ['0.0.0.0', '255.255.255.255'], ['::', '2001:db8::1']],
    ['2001:DB8::1', ['2001:db8::1'], ['2001:db8::2']],
    ['::ffff:10.0.0.0/104', ['10.255.255.255'], ['11.0.0.0']],
    ['::ffff:a00:0/104', ['10.255.255.255'], ['11.0.0.0']],
    ['::ffff:0:0/96', ['192.0.2.1'], ['::1']],
    ['::10.0.0.1', ['::a00:1'], ['10.0.0.1']],
    ['loopback', ['127.0.0.1', '127.255.0.1', '::1'], ['128.0.0.1', '::2']],
    ['linklocal', ['169.254.9.9', 'fe80::1', 'febf::1'], ['169.255.0.0', 'fec0::1']],
    [
      'UniqueLocal',
      ['10.0.0.1', '172.16.0.1', '172.31.0.1', '192.168.0.1', 'fc00::1', 'fdff::1'],
      ['172.15.0.1', '172.32.0.1', 'fe00::1'],
    ],
  ])('%s trusts exactly the addresses that it lists', (entry, inside, outside) => {
    const trusts = parseTrustProxy(['198.51.100.99', entry])
    for (const address of inside) expect(trusts(address), address).toBe(true)
    for (const address of outside) expect(trusts(address), address).toBe(false)
  })

  test('no peer is trusted by default', () =>
    expect(parseTrustProxy([])('127.0.0.1')).toBe(false))

  test.each([
    ['', 'not an IP address'],
    ['0x7f.1', 'not an IP address'],
    ['010.0.0.0/8', 'not an IP address'],
    ['loopback/8', 'not an IP address'],
    ['fe80::1%eth0', 'not an IP address'],
    ['[::1]', 'not an IP address'],
    ['10.0.0.0/33', 'from 0 to 32'],
    ['2001:db8::/129', 'from 0 to 128'],
    ['10.0.0.0/', 'from 0 to 32'],
    ['10.0.0.0/08', 'from 0 to 32'],
    ['10.0.0.0/+8', 'from 0 to 32'],
    ['10.0.0.0/8/8', 'from 0 to 32'],
    ['::ffff:10.0.0.0/90', 'at least 96'],
  ])('%j is refused, with the reason', (entry, reason) => {
    expect(() => parseTrustProxy([entry])).toThrow(RangeError)
    expect(() => parseTrustProxy([entry])).toThrow(reason)
  })
})
