import { describe, expect, test } from 'vitest'
import { createClientAddress } from '../../src/client/client-address.ts'
import { claimsClientAddress, clientAddressHeaders } from '../../src/http/forwarded.ts'

const client = '203.0.113.7'
const proxy = '10.0.0.1'

function reader(ipHeader: string) {
  return createClientAddress({ trustProxy: ['10.0.0.0/8'], ipHeader })
}

describe('X-Forwarded-For', () => {
  const read = reader('x-forwarded-for')

  // Its walk: test/property/client-address-walk.test.ts.
  test.each([
    [`192.0.2.66, ${client},10.0.0.2`, client],
    [`${client}:4711 , 10.0.0.2:80`, client],
    ['2001:DB8::1', '2001:db8::1'],
    [`,, ${client}, , 10.0.0.2,`, client],
    [`"${client}", 10.0.0.2`, '10.0.0.2'],
    [`"<rubbish>, ${client}`, client],
  ])('%s is read as %s', (value, address) => {
    expect(read(proxy, ['X-Forwarded-For', value])).toMatchObject({ address })
  })

  test.each([
    [`${client}, rubbish`, 'malformed-header'],
    [`${client}, unknown`, 'no-client-named'],
    [' , ', 'no-client-named'],
  ])('%s names no client: %s', (value, note) => {
    const nobody = { address: undefined, note, noteHeader: 'x-forwarded-for' }
    expect(read(proxy, ['x-forwarded-for', value])).toMatchObject(nobody)
  })

  test('several lines are one list, and Forwarded changes nothing', () => {
    const headers = ['X-Forwarded-For', client, 'Forwarded', 'for=192.0.2.66', 'x-forwarded-for', '10.0.0.2']
    expect(read(proxy, headers)).toMatchObject({ address: client })
  })
})

describe('a header of one address', () => {
  const read = reader('cf-connecting-ip')

  test.each([
    [client, client],
    [` ${client} `, client],
    ['2001:DB8::1', '2001:db8::1'],
    [`${client}:4711`, client],
  ])('%j is read as %s', (value, address) => {
    expect(read(proxy, ['CF-Connecting-IP', value])).toMatchObject({ address })
  })

  test.each([[[`${client}, ${client}`]], [[client, client]], [['for=1.2.3.4']]])(
    '%j is malformed',
    (lines) => {
      const headers = lines.flatMap((line) => ['CF-Connecting-IP', line])
      expect(read(proxy, headers)).toMatchObject({ address: undefined, note: 'malformed-header' })
    },
  )

  test.each(['', 'unknown', '_hidden'])('%j names no client', (value) => {
    expect(read(proxy, ['CF-Connecting-IP', value])).toMatchObject({
      address: undefined,
      note: 'no-client-named',
    })
  })

  test("CloudFront's last group is the port, also without brackets", () => {
    const cloudFront = reader('cloudfront-viewer-address')
    expect(cloudFront(proxy, ['CloudFront-Viewer-Address', '2001:db8::1:46532']).address).toBe('2001:db8::1')
    expect(cloudFront(proxy, ['CloudFront-Viewer-Address', `${client}:46532`]).address).toBe(client)
  })
})

test('every header that claims an address is known, and nothing else', () => {
  for (const name of ['forwarded', 'x-real-ip', 'cf-connecting-ip', 'x-forwarded-for', 'x-forwarded-host']) {
    expect(claimsClientAddress(name), name).toBe(true)
  }
  for (const name of ['host', 'x-request-id', 'cf-ipcountry', 'via', 'x-forwardedly', '']) {
    expect(claimsClientAddress(name), name).toBe(false)
  }
  for (const name of clientAddressHeaders) expect(name).toMatch(/^[a-z0-9-]+$/)
})
