import { describe, expect, it } from 'vitest'
import { ask, asking, giveQuote } from '../support/clients/quotes.ts'
import { valuesOf, withoutHopByHop } from '../support/clients/raw-connection.ts'
import { recordedGateway } from '../support/gateways/between.ts'

const parts = (settings: Record<string, string> = {}) =>
  recordedGateway(settings, (_request, response) => giveQuote(response))

describe('a quote call', () => {
  it('sends the keyed headers, Forwarded, Via, Accept, Accept-Encoding, request id and trace; nothing else', async () => {
    const { upstream, gateway } = await parts()
    const trace = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
    const sent = `app-name: wallet|APP-VERSION: 2.1|user-agent: caf\xe9/1|AUTHORIZATION: Bearer k|Cookie: a=b
      |Accept: text/html|Accept-Encoding: gzip, br|Accept-Language: de|X-Forwarded-For: 198.51.100.1
      |X-Real-IP: 198.51.100.2|CF-Connecting-IP: 198.51.100.3|Forwarded: for=198.51.100.4|DNT: 1
      |CF-IPCountry: DE|Cache-Control: no-cache|If-None-Match: "x"|Range: bytes=0-1|Via: 1.1 edge
      |traceparent: ${trace}|TraceState: a=1|X-Request-Id: mine-1|X-Custom: 1`
    await ask(gateway.url, {
      headers: sent.split('|').flatMap((line) => line.trim().split(': ')),
    })
    expect(withoutHopByHop(upstream.requests[0]?.rawHeaders ?? [])).toEqual([
      'App-Name',
      'wallet',
      'App-Version',
      '2.1',
      'User-Agent',
      'caf\xe9/1',
      'Authorization',
      'Bearer k',
      'Accept',
      'application/json',
      'Accept-Encoding',
      'identity',
      'traceparent',
      trace,
      'tracestate',
      'a=1',
      'X-Request-Id',
      'mine-1',
      'Forwarded',
      'for=127.0.0.1',
      'Via',
      '1.1 quotegate',
    ])
  })

  it('invents nothing for what the caller left out, apart from a request id, and says nothing of a body', async () => {
    const { upstream, gateway } = await parts()
    await ask(gateway.url, {
      headers: ['App-Name', 'a', 'Content-Length', '0', 'Content-Type', 'text/plain'],
    })
    const got = withoutHopByHop(upstream.requests[0]?.rawHeaders ?? [])
    expect(got.filter((_, index) => index % 2 === 0)).toEqual([
      'App-Name',
      'Accept',
      'Accept-Encoding',
      'X-Request-Id',
      'Forwarded',
      'Via',
    ])
    expect(valuesOf(got, 'x-request-id')).toEqual([
      expect.stringMatching(/^[0-9a-f-]{36}$/),
    ])
  })

  it('supplies the SWAP_ settings for missing headers only', async () => {
    const { upstream, gateway } = await parts({
      SWAP_APP_NAME: 'ours',
      SWAP_APP_VERSION: '9',
      SWAP_AUTHORIZATION: 'Bearer ours',
    })
    await asking(gateway.url, '1', [])
    await asking(gateway.url, '1', ['App-Version', '1', 'Authorization', 'Bearer theirs'])
    expect(
      upstream.requests.map(({ headers }) => [
        headers['app-version'],
        headers.authorization,
      ]),
    ).toEqual([
      ['9', 'Bearer ours'],
      ['1', 'Bearer theirs'],
    ])
  })
})

describe('QUOTE_KEY_HEADERS', () => {
  /** What the upstream gets for these requests, each a list of headers. */
  async function callsFor(settings: Record<string, string>, requests: string[][]) {
    const { upstream, gateway } = await parts(settings)
    for (const headers of requests)
      expect(
        (await ask(gateway.url, { headers: ['App-Name', 'a', ...headers] })).status,
      ).toBe(200)
    return upstream.requests
  }

  it('keys these by default, each value its own quote, and no other', async () => {
    const names = ['App-Version', 'User-Agent', 'Authorization']
    const keyed = names.flatMap((name) => [
      [name, '1'],
      [name, '2'],
      [name, ''],
      [name.toLowerCase(), '1'],
    ])
    const others = [
      'Accept-Language',
      'Cookie',
      'traceparent',
      'X-Request-Id',
      'Cache-Control',
      'Accept',
    ]
    expect(
      await callsFor({}, [[], ...keyed, ...others.map((name) => [name, '1'])]),
    ).toHaveLength(10)
  })

  it('makes a listed header both forwarded and keyed, in any case, and an unlisted header neither', async () => {
    const tiers = ['X-Tier: gold', 'x-tier: gold', 'X-TIER: iron'].map((line) =>
      line.split(': '),
    )
    const calls = await callsFor({ QUOTE_KEY_HEADERS: 'App-Name,X-Tier' }, [
      ...tiers,
      ['User-Agent', 'x'],
      [],
    ])
    expect(calls.map(({ headers }) => headers['x-tier'])).toEqual([
      'gold',
      'iron',
      undefined,
    ])
    for (const { headers } of calls) expect(headers).not.toHaveProperty('user-agent')
  })

  it('may name a header that is called like a property of every object', async () => {
    const settings = { QUOTE_KEY_HEADERS: 'app-name,constructor,__proto__' }
    const calls = await callsFor(settings, [[], ['constructor', 'x']])
    expect(calls.map(({ headers }) => Object.hasOwn(headers, 'constructor'))).toEqual([
      false,
      true,
    ])
  })

  it('keeps several lines apart from one line that looks like them, and forwards them as lines', async () => {
    const tiers = [['a', 'b'], ['a, b'], ['b', 'a']]
    const requests = tiers.map((values) => values.flatMap((value) => ['X-Tier', value]))
    const calls = await callsFor({ QUOTE_KEY_HEADERS: 'app-name,x-tier' }, requests)
    expect(calls.map(({ rawHeaders }) => valuesOf(rawHeaders, 'x-tier'))).toEqual(tiers)
  })

  // The upstream would answer for no tier, and that answer must not stand in the cache under the tier named.
  it('goes by what is left of a request whose Connection removes a keyed header', async () => {
    const gold = ['X-Tier', 'gold']
    const requests = [[...gold, 'Connection', 'close, x-TIER'], gold, []]
    const calls = await callsFor({ QUOTE_KEY_HEADERS: 'app-name,x-tier' }, requests)
    expect(calls.map(({ headers }) => headers['x-tier'])).toEqual([undefined, 'gold'])
  })
})
