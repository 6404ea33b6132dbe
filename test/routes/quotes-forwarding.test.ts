import { describe, expect, it } from 'vitest'
import { ask, asking, counted, giveQuote, lookups } from '../support/clients/quotes.ts'
import { valuesOf, withoutHopByHop } from '../support/clients/raw-connection.ts'
import { gatewayTo, recordingUpstream } from '../support/gateways/between.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import { keptLog } from '../support/observing/log-lines.ts'

async function parts(settings: Record<string, string> = {}) {
  const upstream = await recordingUpstream((_request, response) => giveQuote(response))
  const gateway = await gatewayTo(upstream.url, settings)
  return { upstream, gateway }
}

const keyed = 'app-name,app-version,user-agent,authorization'

describe('a quote call', () => {
  it('sends the keyed headers, Forwarded, Via, Accept, Accept-Encoding, request id and trace; nothing else', async () => {
    const { upstream, gateway } = await parts()
    const trace = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
    const sent = `app-name: wallet|APP-VERSION: 2.1|user-agent: caf\xe9/1|AUTHORIZATION: Bearer k|Cookie: a=b
      |Accept: text/html|Accept-Encoding: gzip, br|Accept-Language: de|X-Forwarded-For: 198.51.100.1
      |X-Real-IP: 198.51.100.2|CF-Connecting-IP: 198.51.100.3|Forwarded: for=198.51.100.4|DNT: 1
      |X-Forwarded-Host: evil.example|True-Client-IP: 198.51.100.5|CF-IPCountry: DE|Origin: https://evil.example
      |Referer: https://evil.example/|Cache-Control: no-cache|If-None-Match: "x"|Range: bytes=0-1|Via: 1.1 edge
      |traceparent: ${trace}|TraceState: a=1|X-Request-Id: mine-1|X-Custom: 1`
    await ask(gateway.url, {
      headers: sent.split('|').flatMap((line) => line.trim().split(': ')),
    })
    expect(withoutHopByHop(upstream.requests[0]?.rawHeaders ?? [])).toEqual([
      ...['App-Name', 'wallet', 'App-Version', '2.1', 'User-Agent', 'caf\xe9/1', 'Authorization', 'Bearer k'],
      ...['Accept', 'application/json', 'Accept-Encoding', 'identity'],
      ...['traceparent', trace, 'tracestate', 'a=1', 'X-Request-Id', 'mine-1'],
      ...['Forwarded', 'for=127.0.0.1', 'Via', '1.1 quotegate'],
    ])
  })

  it('invents nothing for what the client left out, apart from a request id, and says nothing of a body', async () => {
    const { upstream, gateway } = await parts()
    await ask(gateway.url, {
      headers: ['App-Name', 'a', 'Content-Length', '0', 'Content-Type', 'text/plain'],
    })
    const got = withoutHopByHop(upstream.requests[0]?.rawHeaders ?? [])
    expect(got.filter((_, index) => index % 2 === 0)).toEqual([
      ...['App-Name', 'Accept', 'Accept-Encoding', 'X-Request-Id', 'Forwarded', 'Via'],
    ])
    expect(valuesOf(got, 'x-request-id')).toEqual([expect.stringMatching(/^[0-9a-f-]{36}$/)])
  })

  it('carries the trace and request id of the client that caused it, not of one that joined or came later', async () => {
    const { upstream, gateway } = await parts()
    for (const id of ['first', 'second'])
      await ask(gateway.url, { headers: ['App-Name', 'a', 'X-Request-Id', id, 'traceparent', id] })
    expect(upstream.requests).toHaveLength(1)
    expect(upstream.requests[0]?.headers).toMatchObject({ 'x-request-id': 'first', traceparent: 'first' })
  })

  it('supplies the SWAP_ settings for missing headers only', async () => {
    const { upstream, gateway } = await parts({
      SWAP_APP_NAME: 'ours',
      SWAP_APP_VERSION: '9',
      SWAP_AUTHORIZATION: 'Bearer ours',
    })
    await asking(gateway.url, '1', [])
    await asking(gateway.url, '1', ['App-Version', '1', 'Authorization', 'Bearer theirs'])
    expect(upstream.requests.map(({ headers }) => [headers['app-version'], headers.authorization])).toEqual([
      ['9', 'Bearer ours'],
      ['1', 'Bearer theirs'],
    ])
  })
})

describe('QUOTE_KEY_HEADERS', () => {
  /** How many upstream calls these requests make, each a list of headers. */
  async function callsFor(settings: Record<string, string>, requests: string[][]): Promise<number> {
    const { upstream, gateway } = await parts(settings)
    for (const headers of requests) await ask(gateway.url, { headers: ['App-Name', 'a', ...headers] })
    return upstream.requests.length
  }

  it.each(['App-Version', 'User-Agent', 'Authorization'])(
    'keys %s by default: each value its own quote',
    async (name) => {
      const requests = [[name, '1'], [name, '2'], [], [name, ''], [name.toLowerCase(), '1']]
      expect(await callsFor({}, requests)).toBe(4)
    },
  )

  it('leaves any other header out by default: it changes nothing', async () => {
    const others = ['Accept-Language', 'Cookie', 'traceparent', 'X-Request-Id', 'Cache-Control', 'Accept']
    expect(await callsFor({}, [[], ...others.map((name) => [name, '1'])])).toBe(1)
  })

  it('makes a listed header both forwarded and keyed, in any case, and an unlisted header neither', async () => {
    const { upstream, gateway } = await parts({ QUOTE_KEY_HEADERS: 'App-Name,X-Tier' })
    for (const headers of [
      ['X-Tier', 'gold'],
      ['x-tier', 'gold'],
      ['X-TIER', 'iron'],
      ['User-Agent', 'x'],
      [],
    ])
      await ask(gateway.url, { headers: ['App-Name', 'a', ...headers] })
    expect(upstream.requests.map(({ headers }) => headers['x-tier'])).toEqual(['gold', 'iron', undefined])
    for (const { headers } of upstream.requests) expect(headers).not.toHaveProperty('user-agent')
  })

  it('may name a header that is called like a property of every object', async () => {
    const { upstream, gateway } = await parts({ QUOTE_KEY_HEADERS: `${keyed},constructor,__proto__` })
    expect((await ask(gateway.url)).status).toBe(200)
    expect((await ask(gateway.url, { headers: ['App-Name', 'wallet', 'constructor', 'x'] })).status).toBe(200)
    expect(upstream.requests.map(({ headers }) => Object.hasOwn(headers, 'constructor'))).toEqual([
      false,
      true,
    ])
  })

  it('keeps several lines apart from one line that looks like them, and forwards them as lines', async () => {
    const { upstream, gateway } = await parts({ QUOTE_KEY_HEADERS: 'app-name,x-tier' })
    for (const headers of [
      ['X-Tier', 'a', 'X-Tier', 'b'],
      ['X-Tier', 'a, b'],
      ['X-Tier', 'b', 'X-Tier', 'a'],
    ])
      await ask(gateway.url, { headers: ['App-Name', 'a', ...headers] })
    const lines = upstream.requests.map(({ rawHeaders }) => valuesOf(rawHeaders, 'x-tier'))
    expect(lines).toEqual([['a', 'b'], ['a, b'], ['b', 'a']])
  })
})

describe('a Connection header', () => {
  it('of a client cannot remove a header that identifies it', async () => {
    const { upstream, gateway } = await parts()
    const connection = 'App-Name, App-Version, User-Agent, Authorization, Forwarded, Via, close'
    const headers = ['App-Name', 'a', 'App-Version', '1', 'User-Agent', 'u', 'Authorization', 'k']
    await ask(gateway.url, { headers: [...headers, 'Connection', connection] })
    expect(upstream.requests[0]?.headers).toMatchObject({
      'app-name': 'a',
      'app-version': '1',
      'user-agent': 'u',
      authorization: 'k',
      forwarded: 'for=127.0.0.1',
      via: '1.1 quotegate',
    })
  })

  // The upstream would answer for no tier, and that answer must not stand in the cache under the tier named.
  it('that removes a keyed header removes it from the call and the key alike', async () => {
    const { upstream, gateway } = await parts({ QUOTE_KEY_HEADERS: 'app-name,x-tier' })
    const ids = []
    for (const headers of [['X-Tier', 'gold', 'Connection', 'close, x-TIER'], ['X-Tier', 'gold'], []])
      ids.push(JSON.parse((await ask(gateway.url, { headers: ['App-Name', 'a', ...headers] })).body).id)
    expect(upstream.requests.map(({ headers }) => headers['x-tier'])).toEqual([undefined, 'gold'])
    expect(ids[2]).toBe(ids[0])
    expect(ids[1]).not.toBe(ids[0])
  })
})

it('no secret appears in a log or a metric in the clear', async () => {
  const upstream = await recordingUpstream((_request, response) => giveQuote(response))
  const log = await keptLog()
  const gateway = await startGateway(
    { SWAP_BASE_URL: upstream.url, QUOTE_KEY_HEADERS: `${keyed},x-api-key` },
    { logger: log.logger },
  )
  const headers = ['App-Name', 'a', 'Authorization', 'Bearer hunter2', 'X-Api-Key', 'hunter2-key']
  for (let time = 0; time < 2; time += 1) await ask(gateway.url, { headers })
  const metrics = await gateway.metrics()
  expect(await counted(gateway, lookups('hit'))).toBe(1)
  await gateway.close()
  expect(upstream.requests[0]?.headers.authorization).toBe('Bearer hunter2')
  expect(log.text() + metrics).not.toContain('hunter2')
})
