import { describe, expect, test } from 'vitest'
import { post } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import { counted, quotePath } from '../support/clients/quotes.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { aSecond, gatewayTo, recordingUpstream } from '../support/gateways/between.ts'

const bodiless = (method: string, path: string) =>
  `${method} ${path} HTTP/1.1\r\nHost: g\r\nApp-Name: wallet\r\n\r\n`
const quote = `${quotePath}?amount=1`
const settings = { breakerFailures: 1, breakerOpenMs: 600_000, retries: 0 }
const isOpen = (breaker: string) =>
  `quotegate_breaker_state{upstream="swap",breaker="${breaker}",state="open"}`

async function failingGateway() {
  const upstream = await recordingUpstream((_request, response) => response.writeHead(503).end())
  return { upstream, gateway: await gatewayTo(upstream.url, settings) }
}

describe('a 503 of the provider', () => {
  test.each<[string, string, string | Buffer]>([
    ['a float order', 'orders', post('{}')],
    ['a float order by another spelling', 'orders', post('{}', { path: '/v3//orders/float/' })],
    ['an order', 'orders', post('{}', { path: '/v3/orders' })],
    ['an order by another spelling', 'orders', post('{}', { path: '/v3/Orders/' })],
    ['an order that is read', 'rest', bodiless('GET', '/v3/orders/1')],
    ['orders that are read', 'rest', bodiless('GET', '/v3/orders?toAddress=0xt')],
    ['an order that is changed', 'rest', post('{}', { method: 'PATCH', path: '/v3/orders/1' })],
    ['anything else', 'rest', bodiless('GET', '/v3/assets')],
    ['OPTIONS of a quote', 'rest', bodiless('OPTIONS', quote)],
    ['a quote', 'pair', bodiless('GET', quote)],
    ['HEAD of a quote', 'pair', bodiless('HEAD', quote)],
  ])('to %s stops %s', async (_what, breaker, request) => {
    const { gateway, upstream } = await failingGateway()
    expect((await rawExchange(gateway.url, request)).status).toBe(503)
    await aSecond()
    expect((await rawExchange(gateway.url, request)).status).toBe(503)
    const open = await Promise.all(
      ['connections', 'orders', 'rest'].map(async (name) => [name, await counted(gateway, isOpen(name))]),
    )
    const pair = await counted(gateway, 'quotegate_breaker_open_pairs{pair="other"}')
    const closed = { connections: 0, orders: 0, rest: 0, pair: 0 }
    expect({ ...Object.fromEntries(open), pair }).toEqual({ ...closed, [breaker]: 1 })
    const again = await rawExchange(gateway.url, request)
    if (again.body.length > 0) expect(expectProblem(again, 503, 'breaker-open').breaker).toBe(breaker)
    expect(upstream.requests).toHaveLength(2)
  })
})

test('an order whose body streams is answered at once when a breaker refuses it', async () => {
  const { gateway } = await failingGateway()
  await rawExchange(gateway.url, post('{}', { path: '/v3/orders' }))
  await aSecond()
  await rawExchange(gateway.url, post('{}', { path: '/v3/orders' }))
  const request = post('x'.repeat(300_000), { path: '/v3/orders' })
  for (let count = 0; count < 5; count += 1) {
    expectProblem(await rawExchange(gateway.url, request), 503, 'breaker-open')
  }
  expect(await counted(gateway, 'quotegate_upstream_requests_in_flight{upstream="swap"}')).toBe(0)
})
