import type { ServerResponse } from 'node:http'
import { describe, expect, test } from 'vitest'
import { ask, giveQuote, quoteBody, quotePath } from '../support/clients/quotes.ts'
import { gatewayTo, recordingUpstream } from '../support/gateways/between.ts'

const own = ['App-Name', 'wallet', 'X-Request-Id', 'id-1']
const terms = { pairId: 'ETH_USDC', fromAmount: 0.1, fromAddress: '0xf', toAddress: '0xt' }
const order = { method: 'POST', body: JSON.stringify(terms), headers: own }

const requests = [
  ['a quote that is fetched', 200, { path: `${quotePath}?amount=0.1`, headers: own }],
  ['a quote that the provider refuses', 404, { path: `${quotePath}?amount=0.2`, headers: own }],
  ['an answer that is not a quote', 200, { path: `${quotePath}?amount=0.3`, headers: own }],
  ['a HEAD of a quote', 200, { path: `${quotePath}?amount=0.1`, headers: own, method: 'HEAD' }],
  ['a float order', 201, { path: '/v3/orders/float', ...order }],
  ['an order', 201, { path: '/v3/orders', ...order }],
] as const

async function stage(providersId?: string) {
  const upstream = await recordingUpstream((request, response: ServerResponse) => {
    if (providersId !== undefined) response.setHeader('X-Request-Id', providersId)
    const headers = providersId === undefined ? [] : ['X-Request-Id', providersId]
    if (request.method === 'POST') response.writeHead(201).end('{"id":"order-1"}')
    else if (request.target.endsWith('0.2')) response.writeHead(404).end('{}')
    else if (request.target.endsWith('0.3')) response.end('<html>')
    else giveQuote(response, quoteBody(), headers)
  })
  return gatewayTo(upstream.url)
}

describe.each(requests)('%s', (_what, status, request) => {
  test("has the gateway's X-Request-Id, once, where the provider sent none", async () => {
    const answer = await ask((await stage()).url, request)
    expect([answer.status, answer.headers['x-request-id']]).toEqual([status, 'id-1'])
  })

  test("has the provider's, where it sent one", async () => {
    const answer = await ask((await stage('provider-1')).url, request)
    expect([answer.status, answer.headers['x-request-id']]).toEqual([status, 'provider-1'])
  })
})

test("a hit and a shared quote have each client's own, not that of the exchange that brought the quote", async () => {
  const gateway = await stage('provider-1')
  const path = `${quotePath}?amount=0.1`
  const ids = ['id-1', 'id-2', 'id-3']
  const together = await Promise.all(
    ids.map((id) => ask(gateway.url, { path, headers: ['App-Name', 'wallet', 'X-Request-Id', id] })),
  )
  const hit = await ask(gateway.url, { path, headers: ['App-Name', 'wallet', 'X-Request-Id', 'id-4'] })
  expect(hit.headers['x-request-id']).toBe('id-4')
  const received = together.map(({ headers }) => headers['x-request-id'])
  expect(received.filter((id) => id === 'provider-1')).toHaveLength(1)
  for (const id of received) expect([...ids, 'provider-1']).toContain(id)
})
