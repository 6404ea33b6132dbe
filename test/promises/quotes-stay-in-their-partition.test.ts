import { describe, expect, it } from 'vitest'
import { ask, giveQuote } from '../support/clients/quotes.ts'
import { gatewayTo, recordingUpstream } from '../support/gateways/between.ts'

/** Which of these requests share a quote: a letter each, the same for the same quote. */
async function sharing(settings: Record<string, string>, requests: string[][]) {
  const upstream = await recordingUpstream((_request, response) => giveQuote(response))
  const gateway = await gatewayTo(upstream.url, settings)
  const ids: string[] = []
  let letters = ''
  for (const headers of requests) {
    const { body } = await ask(gateway.url, { headers: ['App-Name', 'a', ...headers] })
    const id: string = JSON.parse(body).id
    if (!ids.includes(id)) ids.push(id)
    letters += String.fromCharCode(97 + ids.indexOf(id))
  }
  return { letters, upstream }
}

const from = (address: string, ...more: string[]) => [
  'Forwarded',
  `for="${address.includes(':') ? `[${address}]` : address}"`,
  ...more,
]
const trusting = { TRUST_PROXY: 'loopback' }

describe('no quote is served to a partition that it was not fetched for: by ip, the default', () => {
  it('shares a quote between the requests of one address, however it is written, and with no other', async () => {
    const { letters, upstream } = await sharing(trusting, [
      from('203.0.113.7'),
      from('203.0.113.7'),
      from('::ffff:203.0.113.7'),
      from('203.0.113.8'),
      from('2001:db8::1'),
      from('2001:0DB8:0:0::1'),
      from('2001:db8::2'),
      [],
    ])
    expect(letters).toBe('aaabccde')
    expect(upstream.requests.map(({ headers }) => headers.forwarded)).toEqual([
      'for=203.0.113.7',
      'for=203.0.113.8',
      'for="[2001:db8::1]"',
      'for="[2001:db8::2]"',
      'for=127.0.0.1',
    ])
  })

  it.each(['Forwarded', 'X-Forwarded-For', 'X-Real-IP', 'CF-Connecting-IP', 'True-Client-IP'])(
    'does not let an untrusted peer choose another address with %s',
    async (name) => {
      const value = (address: string) => (name === 'Forwarded' ? `for=${address}` : address)
      const { letters, upstream } = await sharing({}, [
        [name, value('203.0.113.7')],
        [name, value('203.0.113.8')],
        [],
      ])
      expect(letters).toBe('aaa')
      expect(upstream.requests[0]?.headers.forwarded).toBe('for=127.0.0.1')
    },
  )

  it('reads only the header of CLIENT_IP_HEADER from a trusted peer, not similar headers', async () => {
    const settings = { ...trusting, CLIENT_IP_HEADER: 'cf-connecting-ip' }
    const { letters } = await sharing(settings, [
      ['CF-Connecting-IP', '203.0.113.7', 'X-Forwarded-For', '203.0.113.8'],
      ['CF-Connecting-IP', '203.0.113.7', 'Forwarded', 'for=203.0.113.9'],
      ['cf-connecting-ip', '203.0.113.8'],
    ])
    expect(letters).toBe('aab')
  })

  it('uses the right-most address that is not trusted, not what a client wrote to its left', async () => {
    const { letters } = await sharing(trusting, [
      ['Forwarded', 'for=198.51.100.1, for=203.0.113.7'],
      ['Forwarded', 'for=198.51.100.2', 'Forwarded', 'for=203.0.113.7, for=127.0.0.5'],
      ['Forwarded', 'for=198.51.100.1'],
    ])
    expect(letters).toBe('aab')
  })
})

describe('by prefix, which earlier versions knew', () => {
  it('shares as little as ip does', async () => {
    const { letters } = await sharing({ ...trusting, QUOTE_PARTITION: 'prefix' }, [
      from('203.0.113.7'),
      from('203.0.113.255'),
      from('203.0.113.7'),
    ])
    expect(letters).toBe('aba')
  })
})

describe('by header', () => {
  const settings = { ...trusting, QUOTE_PARTITION: 'header', QUOTE_PARTITION_HEADER: 'CF-IPCountry' }

  it('shares a quote within a place that a trusted peer names, and fetches it once', async () => {
    const { letters, upstream } = await sharing(settings, [
      from('203.0.113.7', 'CF-IPCountry', 'DE'),
      from('198.51.100.1', 'cf-ipcountry', 'DE'),
      from('198.51.100.1', 'cf-ipcountry', 'FR'),
    ])
    expect(letters).toBe('aab')
    for (const { rawHeaders } of upstream.requests)
      expect(rawHeaders.join(' ').toLowerCase()).not.toContain('cf-ipcountry')
  })

  it('goes by ip where the place is absent, empty, unknown, repeated or a list', async () => {
    for (const place of [[], ...['', 'XX', 't1', 'Unknown', 'eu'].map((text) => ['CF-IPCountry', text])]) {
      const { letters } = await sharing(settings, [
        from('203.0.113.7', ...place),
        from('203.0.113.8', ...place),
      ])
      expect(letters).toBe('ab')
    }
    for (const place of [
      ['CF-IPCountry', 'DE', 'cf-ipcountry', 'DE'],
      ['CF-IPCountry', 'DE, FR'],
    ]) {
      const { letters } = await sharing(settings, [
        from('203.0.113.7', 'CF-IPCountry', 'DE'),
        from('203.0.113.7', ...place),
        from('203.0.113.8', ...place),
      ])
      expect(letters).toBe('abc')
    }
  })

  it('joins several names into one place: region 07 of two countries is two places', async () => {
    const names = { QUOTE_PARTITION_HEADER: 'CloudFront-Viewer-Country, CloudFront-Viewer-Country-Region' }
    const place = (...values: string[]) =>
      values.flatMap((value, at) => [`CloudFront-Viewer-Country${at === 0 ? '' : '-Region'}`, value])
    const { letters, upstream } = await sharing({ ...settings, ...names }, [
      from('203.0.113.1', ...place('IR', '07')),
      from('203.0.113.2', ...place('JP', '07')),
      from('203.0.113.3', ...place('JP', '07')),
      from('203.0.113.4', ...place('07', 'JP')),
      // No place, so by ip.
      from('203.0.113.5', ...place('JP')),
      from('203.0.113.6', ...place('JP')),
      from('203.0.113.7', ...place('JP', '-')),
      from('203.0.113.8', ...place('JP', 'no region')),
      from('203.0.113.9', ...place('JP', '07'), ...place('JP')),
    ])
    expect(letters).toBe('abbcdefgh')
    for (const { rawHeaders } of upstream.requests)
      expect(rawHeaders.join(' ').toLowerCase()).not.toContain('cloudfront')
  })

  it('goes by ip where an untrusted peer names a place, which it could choose', async () => {
    const untrusting = { ...settings, TRUST_PROXY: '192.0.2.1' }
    const { letters, upstream } = await sharing(untrusting, [
      ['CF-IPCountry', 'DE'],
      ['CF-IPCountry', 'FR'],
      [],
    ])
    expect(letters).toBe('aaa')
    expect(upstream.requests[0]?.headers).not.toHaveProperty('cf-ipcountry')
  })

  it('never confuses a place with an address', async () => {
    const { letters } = await sharing(settings, [
      from('203.0.113.7'),
      from('203.0.113.8', 'CF-IPCountry', '203.0.113.7'),
      from('203.0.113.9', 'CF-IPCountry', 'ip:203.0.113.7'),
    ])
    expect(letters).toBe('abc')
  })
})

describe('none', () => {
  it('shares a quote between all clients, but not across different keyed headers', async () => {
    const { letters } = await sharing({ ...trusting, QUOTE_PARTITION: 'none' }, [
      from('203.0.113.7'),
      from('198.51.100.1', 'Accept-Language', 'de'),
      ['User-Agent', 'other'],
    ])
    expect(letters).toBe('aab')
  })
})

it('a second gateway in the same process shares nothing with the first', async () => {
  const upstream = await recordingUpstream((_request, response) => setTimeout(() => giveQuote(response), 50))
  const gateways = [await gatewayTo(upstream.url), await gatewayTo(upstream.url)]
  const together = await Promise.all(gateways.map(({ url }) => ask(url)))
  expect(upstream.requests).toHaveLength(2)
  const later = await Promise.all(gateways.map(({ url }) => ask(url)))
  expect(later.map(({ body }) => body)).toEqual(together.map(({ body }) => body))
  expect(later[0]?.body).not.toBe(later[1]?.body)
})
