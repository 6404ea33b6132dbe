import { describe, expect, it } from 'vitest'
import { ask, giveQuote } from '../support/clients/quotes.ts'
import { recordedGateway } from '../support/gateways/between.ts'

/** Which of these requests share a quote: a letter each, the same for the same quote. */
async function sharing(settings: Record<string, string>, requests: string[][]) {
  const { upstream, gateway } = await recordedGateway(settings, (_request, response) =>
    giveQuote(response),
  )
  const ids: string[] = []
  let letters = ''
  for (const headers of requests) {
    const { body } = await ask(gateway.url, { headers: ['App-Name', 'a', ...headers] })
    const id: string = JSON.parse(body).id
    if (!ids.includes(id)) ids.push(id)
    letters += String.fromCharCode(97 + ids.indexOf(id))
  }
  return {
    letters,
    upstream,
    forwarded: upstream.requests.map(({ headers }) => headers.forwarded),
  }
}

const from = (address: string, ...more: string[]) => [
  'Forwarded',
  `for="${address.includes(':') ? `[${address}]` : address}"`,
  ...more,
]
const trusting = { TRUST_PROXY: 'loopback' }
const byCountry = {
  ...trusting,
  QUOTE_PARTITION: 'header',
  QUOTE_PARTITION_HEADER: 'CF-IPCountry',
}

describe('no quote is served to a partition that it was not fetched for: by ip, the default', () => {
  it('shares a quote between the requests of one address, however it is written, and with no other', async () => {
    const { letters, forwarded } = await sharing(trusting, [
      from('203.0.113.7'),
      from('::ffff:203.0.113.7'),
      from('203.0.113.8'),
      from('2001:db8::1'),
      from('2001:0DB8:0:0::1'),
      from('2001:db8::2'),
      [],
    ])
    expect(letters).toBe('aabccde')
    const own = [
      '203.0.113.7',
      '203.0.113.8',
      '"[2001:db8::1]"',
      '"[2001:db8::2]"',
      '127.0.0.1',
    ]
    expect(forwarded).toEqual(own.map((address) => `for=${address}`))
  })

  it('uses the right-most address that is not trusted, not what a user wrote to its left', async () => {
    const { letters } = await sharing(trusting, [
      ['Forwarded', 'for=198.51.100.1, for=203.0.113.7'],
      ['Forwarded', 'for=198.51.100.2', 'Forwarded', 'for=203.0.113.7, for=127.0.0.5'],
      ['Forwarded', 'for=198.51.100.1'],
    ])
    expect(letters).toBe('aab')
  })
})

describe('by header', () => {
  it('shares a quote within a place that a trusted peer names, and the provider does not see the place', async () => {
    const { letters, upstream } = await sharing(byCountry, [
      from('203.0.113.7', 'CF-IPCountry', 'DE'),
      from('198.51.100.1', 'cf-ipcountry', 'DE'),
      from('198.51.100.1', 'cf-ipcountry', 'FR'),
    ])
    expect(letters).toBe('aab')
    for (const { headers } of upstream.requests)
      expect(headers).not.toHaveProperty('cf-ipcountry')
  })

  it('joins several names into one place: region 07 of two countries is two places', async () => {
    const names = {
      QUOTE_PARTITION_HEADER:
        'CloudFront-Viewer-Country, CloudFront-Viewer-Country-Region',
    }
    const place = (...values: string[]) =>
      values.flatMap((value, at) => [
        `CloudFront-Viewer-Country${at === 0 ? '' : '-Region'}`,
        value,
      ])
    const { letters, upstream } = await sharing({ ...byCountry, ...names }, [
      from('203.0.113.1', ...place('IR', '07')),
      from('203.0.113.2', ...place('JP', '07')),
      from('203.0.113.3', ...place('JP', '07')),
      from('203.0.113.4', ...place('07', 'JP')),
      // No place, so by ip.
      from('203.0.113.5', ...place('JP')),
      from('203.0.113.6', ...place('JP')),
      from('203.0.113.7', ...place('JP', 'no region')),
      from('203.0.113.8', ...place('JP', '07'), ...place('JP')),
    ])
    expect(letters).toBe('abbcdefg')
    for (const { rawHeaders } of upstream.requests)
      expect(rawHeaders.join(' ').toLowerCase()).not.toContain('cloudfront')
  })

  // Each text that names no place: test/client/partition.test.ts.
  it('goes by ip where an untrusted peer names a place, which it could choose', async () => {
    const places = [['CF-IPCountry', 'DE'], ['CF-IPCountry', 'FR'], []]
    const { letters, upstream } = await sharing(
      { ...byCountry, TRUST_PROXY: '192.0.2.1' },
      places,
    )
    expect(letters).toBe('aaa')
    expect(upstream.requests[0]?.headers).not.toHaveProperty('cf-ipcountry')
  })
})

it.each([
  ['none shares a quote between all users', 'none', 'aaab'],
  ['prefix, which earlier versions knew, shares as little as ip does', 'prefix', 'abcd'],
])('%s, but not across different keyed headers', async (_what, mode, expected) => {
  const { letters } = await sharing({ ...trusting, QUOTE_PARTITION: mode }, [
    from('203.0.113.7'),
    from('203.0.113.255', 'Accept-Language', 'de'),
    [],
    ['User-Agent', 'other'],
  ])
  expect(letters).toBe(expected)
})
