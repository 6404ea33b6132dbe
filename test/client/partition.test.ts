import { describe, expect, it } from 'vitest'
import { createPartition, type PartitionClient } from '../../src/client/partition.ts'
import { headerLines } from '../../src/http/headers.ts'

const trusted = (address?: string): PartitionClient => ({ address, peerTrusted: true })
const untrusted = (address?: string): PartitionClient => ({ address, peerTrusted: false })

describe('a partition by ip', () => {
  const partition = createPartition('ip')

  it('is one address', () => {
    expect(partition(trusted('203.0.113.7'), undefined)).toBe(partition(untrusted('203.0.113.7'), 'DE'))
    expect(partition(trusted('203.0.113.7'), undefined)).not.toBe(
      partition(trusted('203.0.113.8'), undefined),
    )
  })

  it('does not exist for a client whose address is not known', () => {
    expect(partition(trusted(), undefined)).toBeUndefined()
  })
})

describe('a partition by header', () => {
  const byPlace = createPartition('header')
  const partition = (client: PartitionClient, rawHeaders: readonly string[]) =>
    byPlace(client, headerLines(rawHeaders, 'cf-ipcountry'))
  const byAddress = createPartition('ip')(trusted('203.0.113.7'), undefined)
  const of = (...rawHeaders: string[]) => partition(trusted('203.0.113.7'), rawHeaders)

  it('is the place that a trusted peer names, whatever the address', () => {
    const there = partition(trusted('198.51.100.1'), ['CF-IPCountry', 'DE'])
    expect(of('Host', 'a', 'cf-ipcountry', 'DE')).toBe(there)
    expect(of('cf-ipcountry', 'FR')).not.toBe(there)
  })

  it('is the address when the peer is not trusted', () => {
    expect(partition(untrusted('203.0.113.7'), ['cf-ipcountry', 'DE'])).toBe(byAddress)
  })

  it.each([
    ['there is no such header', []],
    ['another header holds the name as its value', ['x', 'cf-ipcountry', 'y', 'DE']],
    ['it is empty', ['cf-ipcountry', '']],
    ['there are two lines', ['cf-ipcountry', 'DE', 'CF-IPCountry', 'DE']],
    ['there are three lines', ['cf-ipcountry', 'DE', 'CF-IPCountry', 'DE', 'cf-ipcountry', 'DE']],
    ['one of two lines is empty', ['cf-ipcountry', '', 'CF-IPCountry', 'DE']],
    ['two lines were joined', ['cf-ipcountry', 'DE, FR']],
    ['the edge does not know', ['cf-ipcountry', 'XX']],
    ['the edge saw Tor', ['cf-ipcountry', 'T1']],
    ['another edge does not know', ['cf-ipcountry', 'zz']],
  ])('is the address when %s', (_when, rawHeaders) => expect(of(...rawHeaders)).toBe(byAddress))

  it('does not exist when the address is not known, of which the provider is told', () => {
    expect(partition(trusted(), [])).toBeUndefined()
    expect(partition(trusted(), ['cf-ipcountry', 'DE'])).toBeUndefined()
    expect(partition(untrusted(), ['cf-ipcountry', 'DE'])).toBeUndefined()
  })
})

describe('no partition', () => {
  it('is the same for everybody', () => {
    const partition = createPartition('none')
    expect(partition(trusted('203.0.113.7'), 'DE')).toBe('')
    expect(partition(untrusted(), undefined)).toBe('')
  })
})
