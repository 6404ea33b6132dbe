import { once } from 'node:events'
import { request } from 'node:http'
import { json } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import { asking, giveQuote, quoteBody } from '../support/clients/quotes.ts'
import { gatewayTo, recordingUpstream } from '../support/gateways/between.ts'

async function limited(perMinute: number, settings: Record<string, string> = {}) {
  const upstream = await recordingUpstream(({ target }, response) => {
    if (target.includes('/quotes')) giveQuote(response)
    else response.writeHead(201).end('{}')
  })
  const gateway = await gatewayTo(upstream.url, { RATE_LIMIT_PER_MINUTE: perMinute, ...settings })
  const post = (path: string, body: string) =>
    fetch(gateway.url + path, { method: 'POST', body, headers: { 'App-Name': 'wallet' } })
  const order = (body: object) => post('/v3/orders/float', JSON.stringify(body))
  return { upstream, gateway, post, order }
}

const left = ({ headers }: Response) => /r=(\d+)/.exec(headers.get('ratelimit') ?? '')?.[1]
const problemType = async (response: Response) => ((await response.json()) as { type: string }).type
const rateLimited = 'urn:quotegate:problem:rate-limited'

describe('orders under a rate limit', () => {
  it('count, both float and other orders, and are not sent beyond the limit', async () => {
    const { order, post, upstream } = await limited(2)
    expect(left(await order({ pairId: 'ETH_USDC' }))).toBe('1')
    expect(left(await post('/v3/orders', '{}'))).toBe('0')
    for (const refused of [await order({ pairId: 'ETH_USDC' }), await post('/v3/orders', '{}')]) {
      expect([refused.status, left(refused)]).toEqual([429, '0'])
      expect(await problemType(refused)).toBe(rateLimited)
    }
    expect(upstream.requests).toHaveLength(2)
  })

  it('are not counted if the gateway refuses them: late, unknown, unreadable, or at the wrong path', async () => {
    const { gateway, order, post, upstream } = await limited(3, { ORDER_UNKNOWN_QUOTE: 'refuse' })
    upstream.answer((_request, response) =>
      giveQuote(response, quoteBody({ id: 'late', expiry: Date.now() - 1 })),
    )
    await asking(gateway.url, '1')
    upstream.answer((_request, response) => giveQuote(response, quoteBody({ id: 'live' })))
    await asking(gateway.url, '2')
    const refused = [
      await order({ quoteId: 'late' }),
      await order({ quoteId: 'never seen' }),
      await post('/v3/orders/float', '{"id":'),
      await post('/v3/orders', '{"quoteId":"live"}'),
    ]
    expect(refused.map(({ status }) => status)).toEqual([409, 409, 400, 409])
    expect(refused.map(left)).toEqual([undefined, undefined, undefined, undefined])
    expect(left(await order({ quoteId: 'live' }))).toBe('0')
    expect(upstream.requests).toHaveLength(3)
    // That their quote has expired they are told at the limit too.
    expect(await problemType(await order({ quoteId: 'late' }))).toBe('urn:quotegate:problem:quote-expired')
  })

  // What is larger than what is looked at is passed on while it still comes in. Many clients read the answer
  // only when all is sent: a refusal that leaves the rest unread is never read itself.
  it('are read to their end when they are refused, however large', async () => {
    const { gateway, post, upstream } = await limited(1)
    const large = JSON.stringify({ note: 'n'.repeat(16_000_000) })
    expect((await post('/v3/orders', large)).status).toBe(201)
    const { hostname, port } = new URL(gateway.url)
    const options = { hostname, port, path: '/v3/orders', method: 'POST', agent: false }
    const refused = request({ ...options, headers: { 'App-Name': 'wallet' } })
    const broken: Error[] = []
    refused.on('error', (error) => broken.push(error))
    const answered = once(refused, 'response')
    const closed = once(refused, 'close')
    refused.setHeader('Content-Length', large.length)
    refused.end(large)
    const [response] = await answered
    expect(response.statusCode).toBe(429)
    expect(((await json(response)) as { type: string }).type).toBe(rateLimited)
    await closed
    expect(broken).toEqual([])
    expect(upstream.requests.map(({ body }) => body.length)).toEqual([large.length])
  })
})
