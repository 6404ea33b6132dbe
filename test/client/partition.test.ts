import { describe, expect, it } from 'vitest'
import { createPartition, type PartitionClient } from '../../src/client/partition.ts'

const trusted = (address?: string): PartitionClient => ({ address, peerTrusted: true })
const untrusted = (address?: string): PartitionClient => ({ address, peerTrusted: false })
const client = trusted('203.0.113.7')
const germany = ['cf-ipcountry', 'DE']
const byAddress = createPartition({ mode: 'ip', placeHeaders: [] })

// Places and addresses are never confused, nor two places: test/property/partition.test.ts.

it('a partition by ip is one address, and does not exist for a client with an unknown one', () => {
  expect(byAddress(client, [])).toBe(byAddress(untrusted('203.0.113.7'), germany))
  expect(byAddress(client, [])).not.toBe(byAddress(trusted('203.0.113.8'), []))
  expect(byAddress(trusted(), [])).toBeUndefined()
})

describe('a partition by header', () => {
  const partition = createPartition({ mode: 'header', placeHeaders: ['cf-ipcountry'] })
  const of = (...rawHeaders: string[]) => partition(client, rawHeaders)

  it('is the place that a trusted peer names, whatever the address, and the address of any other peer', () => {
    const there = partition(trusted('198.51.100.1'), ['CF-IPCountry', 'DE'])
    expect(of('Host', 'a', 'cf-ipcountry', 'DE')).toBe(there)
    expect(of('cf-ipcountry', 'FR')).not.toBe(there)
    expect(partition(untrusted('203.0.113.7'), germany)).toBe(byAddress(client, []))
  })

  it.each([
    ['the header is missing', []],
    ['another header holds the name as its value', ['x', 'cf-ipcountry', 'y', 'DE']],
    ['there are two lines', [...germany, 'CF-IPCountry', 'DE']],
    ['one of two lines is empty', ['cf-ipcountry', '', ...germany]],
    ['two lines were joined', ['cf-ipcountry', 'DE, FR']],
  ])('is the address when %s', (_when, rawHeaders) => expect(of(...rawHeaders)).toBe(byAddress(client, [])))

  it('is the address if the place is a placeholder, in any case', () => {
    const known = [
      '',
      'unknown',
      '-',
      '??',
      '**',
      'XX',
      'ZZ',
      'T1',
      'A1',
      'A2',
      'O1',
      'AP',
      'EU',
      'NO REGION',
    ]
    for (const place of known.flatMap((text) => [text.toUpperCase(), text.toLowerCase()]))
      expect(of('cf-ipcountry', place), place).toBe(byAddress(client, []))
    for (const place of ['EUR', 'X', 'A', 'UNKNOWN1', 'NO', '07', 'region'])
      expect(of('cf-ipcountry', place), place).not.toBe(byAddress(client, []))
  })

  it('does not exist when the address is not known, and the provider gets for=unknown', () => {
    for (const unknown of [trusted(), untrusted()]) expect(partition(unknown, germany)).toBeUndefined()
  })
})

describe('a partition by several headers', () => {
  const names = ['cloudfront-viewer-country', 'cloudfront-viewer-country-region']
  const partition = createPartition({ mode: 'header', placeHeaders: names })
  const of = (country: string, region: string) =>
    partition(client, ['CloudFront-Viewer-Country', country, 'CloudFront-Viewer-Country-Region', region])

  it('does not depend on the order of the lines', () => {
    const [country = '', region = ''] = names
    expect(partition(client, [region, '07', 'x', 'y', country, 'JP'])).toBe(of('JP', '07'))
  })

  it.each([
    ['one is absent', ['cloudfront-viewer-country', 'JP']],
    ['one is a placeholder', [...names.flatMap((name) => [name, name.endsWith('region') ? '-' : 'JP'])]],
    ['one is repeated', ['cloudfront-viewer-country-region', '07', ...names.flatMap((name) => [name, '07'])]],
  ])('is the address when %s', (_when, rawHeaders) =>
    expect(partition(client, rawHeaders)).toBe(byAddress(client, [])),
  )
})

it('no partition is the same for all clients', () => {
  const partition = createPartition({ mode: 'none', placeHeaders: [] })
  expect(partition(client, germany)).toBe('')
  expect(partition(untrusted(), [])).toBe('')
})
