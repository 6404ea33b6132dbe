import { expect, test } from 'vitest'
import { ask, giveQuote, quoteBody, quotePath } from '../support/clients/quotes.ts'
import { gatewayTo, recordingUpstream } from '../support/gateways/between.ts'

const own = ['App-Name', 'wallet', 'X-Request-Id', 'id-1']
const order = {
  method: 'POST',
  body: '{"pairId":"ETH_USDC","fromAmount":0.1}',
  headers: own,
}

/** `headers`: those of every answer of the provider. */
async function stage(headers: string[]) {
  const upstream = await recordingUpstream(({ method, target }, response) => {
    if (method === 'POST') response.writeHead(201, headers).end('{"id":"order-1"}')
    else if (target.endsWith('0.2')) response.writeHead(404, headers).end('{}')
    else if (target.endsWith('0.3')) response.writeHead(200, headers).end('<html>')
    else giveQuote(response, quoteBody(), headers)
  })
  return gatewayTo(upstream.url)
}

test.each([
  ['a quote that is fetched', 200, { path: `${quotePath}?amount=0.1`, headers: own }],
  [
    'a quote that the provider refuses',
    404,
    { path: `${quotePath}?amount=0.2`, headers: own },
  ],
  [
    'an answer that is not a quote',
    200,
    { path: `${quotePath}?amount=0.3`, headers: own },
  ],
  [
    'a HEAD of a quote',
    200,
    { path: `${quotePath}?amount=0.1`, headers: own, method: 'HEAD' },
  ],
  ['a float order', 201, { path: '/v3/orders/float', ...order }],
  ['an order', 201, { path: '/v3/orders', ...order }],
])(
  "%s has the gateway's X-Request-Id, once, and the provider's where it sent one",
  async (_what, status, request) => {
    const without = await ask((await stage([])).url, request)
    expect([without.status, without.headers['x-request-id']]).toEqual([status, 'id-1'])
    const withOne = await ask((await stage(['X-Request-Id', 'provider-1'])).url, request)
    expect([withOne.status, withOne.headers['x-request-id']]).toEqual([
      status,
      'provider-1',
    ])
  },
)

test("a hit and a shared quote have each caller's own, not that of the exchange that brought the quote", async () => {
  const gateway = await stage(['X-Request-Id', 'provider-1'])
  const ids = ['id-1', 'id-2', 'id-3']
  const asked = (id: string) =>
    ask(gateway.url, { headers: ['App-Name', 'wallet', 'X-Request-Id', id] })
  const together = await Promise.all(ids.map(asked))
  expect((await asked('id-4')).headers['x-request-id']).toBe('id-4')
  const received = together.map(({ headers }) => headers['x-request-id'])
  expect(received.filter((id) => id === 'provider-1')).toHaveLength(1)
  for (const id of received) expect([...ids, 'provider-1']).toContain(id)
})
