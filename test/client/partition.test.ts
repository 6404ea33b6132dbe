import { describe, expect, it } from 'vitest'
import {
  createPartition,
  isAddress,
  type PartitionUser,
} from '../../src/client/partition.ts'

const trusted = (address?: string): PartitionUser => ({ address, peerTrusted: true })
const untrusted = (address?: string): PartitionUser => ({ address, peerTrusted: false })
const client = trusted('203.0.113.7')
const japan = ['x-country', 'JP', 'x-region', '07']
const byAddress = createPartition({ mode: 'ip', placeHeaders: [] })

// Places and addresses are never confused, nor two places: test/property/partition.test.ts.

it('a partition by ip is one address, and does not exist for a user with an unknown one', () => {
  expect(byAddress(client, [])).toBe(byAddress(untrusted('203.0.113.7'), japan))
  expect(byAddress(client, [])).not.toBe(byAddress(trusted('203.0.113.8'), []))
  expect(byAddress(trusted(), [])).toBeUndefined()
  expect([byAddress(client, []), byAddress(trusted(), [])].map(isAddress)).toEqual([
    true,
    false,
  ])
})

describe('a partition by headers', () => {
  const partition = createPartition({
    mode: 'header',
    placeHeaders: ['x-country', 'x-region'],
  })

  it.each([
    ['both are absent', []],
    ['one is absent', ['x-country', 'JP']],
    [
      'another header holds the name as its value',
      ['x-country', 'JP', 'x', 'x-region', 'y', '07'],
    ],
    ['one has two lines', [...japan, 'X-Region', '07']],
    ['one of two lines is empty', ['x-region', '', ...japan]],
    ['two lines were joined', ['x-country', 'JP, FR', 'x-region', '07']],
  ])('is the address when %s', (_when, rawHeaders) =>
    expect(partition(client, rawHeaders)).toBe(byAddress(client, [])),
  )

  it('is the address if one says a placeholder, in any case', () => {
    const region = (text: string) =>
      partition(client, ['x-country', 'JP', 'x-region', text])
    const placeholders = ',unknown,-,??,**,XX,ZZ,T1,A1,A2,O1,AP,EU,no region'.split(',')
    for (const place of placeholders.flatMap((text) => [
      text,
      text.toUpperCase(),
      text.toLowerCase(),
    ]))
      expect(region(place), place).toBe(byAddress(client, []))
    for (const place of ['EUR', 'X', 'A', 'UNKNOWN1', 'NO', '07', 'region'])
      expect(region(place), place).not.toBe(byAddress(client, []))
  })

  it('does not exist when the address is not known, and the provider gets for=unknown', () => {
    for (const unknown of [trusted(), untrusted()])
      expect(partition(unknown, japan)).toBeUndefined()
  })
})

it('no partition is the same for all users', () => {
  const partition = createPartition({ mode: 'none', placeHeaders: [] })
  expect(partition(client, japan)).toBe('')
  expect(partition(untrusted(), [])).toBe('')
})
