import { describe, expect, test } from 'vitest'
import { post } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import { RawConnection } from '../support/clients/raw-connection.ts'
import {
  gatewayTo,
  pause,
  recordingUpstream,
  until,
} from '../support/gateways/between.ts'

const quote = (amount: number) =>
  `GET /v3/pairs/ETH_USDC/quotes?amount=${amount} HTTP/1.1\r\nHost: g\r\nApp-Name: wallet\r\n\r\n`
const asset = 'GET /v3/assets HTTP/1.1\r\nHost: g\r\nApp-Name: wallet\r\n\r\n'
const floatOrder = post('{}')
const plainOrder = post('{}', { path: '/v3/orders' })

/** A provider that answers each request when the test says so. */
async function stage(settings: Record<string, number>) {
  const held: { what: string; answer(): void }[] = []
  const upstream = await recordingUpstream((request, response) => {
    const what = `${request.method} ${request.target}`
    held.push({ what, answer: () => response.writeHead(404).end() })
  })
  const gateway = await gatewayTo(upstream.url, settings)
  const inFlight = async () => {
    const line = /^quotegate_upstream_requests_in_flight\{upstream="swap"\} (\d+)$/m.exec(
      await gateway.metrics(),
    )
    return Number(line?.[1])
  }
  async function send(...requests: (string | Buffer)[]): Promise<RawConnection[]> {
    const clients: RawConnection[] = []
    for (const request of requests) {
      const before = await inFlight()
      const client = new RawConnection(gateway.url)
      client.write(request)
      while ((await inFlight()) === before && client.received.length === 0) await pause(5)
      clients.push(client)
    }
    return clients
  }
  return { held, send, arrived: () => held.map(({ what }) => what) }
}

describe('of the connections to the swap API', () => {
  // The numbers, and what any requests get in any order, are in test/upstream/lanes.test.ts.
  test.each([
    [1, 0],
    [16, 2],
  ])('of %i, %i are for float orders alone', async (connections, reserved) => {
    const { arrived, held, send } = await stage({
      UPSTREAM_CONNECTIONS: connections,
      DRAIN_TIMEOUT_MS: 0,
    })
    const others = [
      quote(1),
      asset,
      plainOrder,
      ...Array.from({ length: connections }, (_, i) => quote(i + 2)),
    ]
    await send(...others)
    await until(
      () => held.length === connections - reserved,
      'the others to be under way',
    )
    await send(...Array.from({ length: reserved }, () => floatOrder))
    await until(() => held.length === connections, 'the orders to be under way')
    expect(arrived().slice(connections - reserved)).toEqual(
      Array(reserved).fill('POST /v3/orders/float'),
    )
  })
})

test('where requests wait, float orders go first, in the order in which they came', async () => {
  const { arrived, held, send } = await stage({ UPSTREAM_CONNECTIONS: 1 })
  const bodied = (path: string) => post('{}', { path: `/v3/orders/float${path}` })
  await send(asset, quote(1), plainOrder, bodied('?1'), quote(2), bodied('?2'))
  for (let count = 0; count < 6; count += 1) {
    await until(() => held.length > count, 'the next one')
    held[count]?.answer()
  }
  expect(arrived()).toEqual([
    'GET /v3/assets',
    'POST /v3/orders/float?1',
    'POST /v3/orders/float?2',
    'GET /v3/pairs/ETH_USDC/quotes?amount=1',
    'POST /v3/orders',
    'GET /v3/pairs/ETH_USDC/quotes?amount=2',
  ])
})

test('a queue full of other requests still has room for queue float orders', async () => {
  const { held, send } = await stage({ UPSTREAM_CONNECTIONS: 2, queue: 2 })
  await send(quote(1), quote(2), quote(3))
  const [refused] = await send(quote(4))
  expectProblem(await (refused as RawConnection).answer(), 503, 'saturated')
  const orders = await send(floatOrder, floatOrder, floatOrder)
  await until(() => held.length === 2, 'an order to be under way')
  const [oneTooMany] = await send(floatOrder)
  expectProblem(await (oneTooMany as RawConnection).answer(), 503, 'saturated')
  for (let count = 0; count < 6; count += 1) {
    await until(() => held.length > count, 'the next one')
    held[count]?.answer()
  }
  for (const order of orders) expect((await order.answer()).status).toBe(404)
})
