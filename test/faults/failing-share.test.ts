import type { ServerResponse } from 'node:http'
import { expect, test } from 'vitest'
import { ask, giveQuote } from '../support/clients/quotes.ts'
import { gatewayTo, pause, recordingUpstream, until } from '../support/gateways/between.ts'
import { edgeTo } from '../support/gateways/edge.ts'

// Failures are faster than successes. Of 20 requests at once six failed at once and 14 succeeded 100 ms later: five
// failures in a row opened the breaker, and 9 to 14 % of the orders came through where 70 % would have.

const burst = 20
const failing = 6
const headers = ['App-Name', 'wallet']

const requests: Record<string, (number: number) => Parameters<typeof ask>[1]> = {
  'float orders': () => ({ path: '/v3/orders/float', method: 'POST', headers, body: '{}' }),
  'requests that are neither quotes nor orders': () => ({ path: '/v3/assets', headers }),
  'quotes of 20 pairs': (number) => ({
    path: `/v3/pairs/A_B${number % burst}/quotes?amount=${number}`,
    headers,
  }),
  'quotes of one pair': (number) => ({ path: `/v3/pairs/A_B/quotes?amount=${number}`, headers }),
}

test.each(Object.keys(requests))(
  'while 30 percent of the %s fail before any of the others succeeds, 70 percent come through',
  async (what) => {
    const waiting: ServerResponse[] = []
    const upstream = await recordingUpstream((_request, response) => void waiting.push(response))
    const gateway = await gatewayTo(upstream.url, { breakerFailures: 5, retries: 0 })
    const ended: number[] = []
    let sent = 0
    const send = async () => {
      sent += 1
      ended.push((await ask(gateway.url, requests[what]?.(sent))).status)
    }
    for (let count = 1; count <= 4; count += 1) {
      const all = Array.from({ length: burst }, send)
      await until(() => waiting.length + ended.length === sent, 'every request to be sent or refused')
      for (const response of waiting.splice(0, failing)) response.writeHead(503).end()
      await until(() => waiting.length + ended.length === sent, 'the failures')
      for (const response of waiting.splice(0)) giveQuote(response)
      await Promise.all(all)
    }
    expect(ended.filter((status) => status === 200)).toHaveLength(0.7 * sent)
  },
)

// A provider that sheds a third of its load is often slow for the rest: its first success comes later than a second.
test('failures at once stop nothing while slower requests, which were sent before them, may yet succeed', async () => {
  const waiting: ServerResponse[] = []
  const upstream = await recordingUpstream(({ target }, response) => {
    if (target.endsWith('fails')) response.writeHead(503).end()
    else waiting.push(response)
  })
  const minFailingMs = 3_000
  const limits = { breakerFailures: 5, breakerMinFailingMs: minFailingMs, connections: burst, retries: 0 }
  const edge = await edgeTo(upstream.url, limits)
  const fail = async () => {
    const all = Array.from({ length: failing }, () => ask(edge.url, { path: '/kind/order/fails' }))
    return (await Promise.all(all)).map(({ body }) => body)
  }
  const slow = ask(edge.url, { path: '/kind/order/slow' })
  await until(() => waiting.length === 1, 'the slow one to arrive')
  const byProvider = Array(failing).fill('')
  expect(await fail()).toEqual(byProvider)
  await pause(minFailingMs + 50)
  expect(await fail()).toEqual(byProvider)
  waiting[0]?.end('ok')
  expect((await slow).body).toBe('ok')
  expect(await fail()).toEqual(byProvider)
  expect(edge.states).toEqual([])
})
