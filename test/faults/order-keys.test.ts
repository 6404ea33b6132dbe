import { expect, test } from 'vitest'
import { post } from '../support/clients/orders.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { gatewayTo, pause, recordingUpstream } from '../support/gateways/between.ts'

const clients = 200
const body = '{"pairId":"ETH_USDC","fromAmount":"0.1","toAddress":"0xab"}'

test('200 clients click twice at a provider that fails at random: no second order, no click without an answer', async () => {
  const random = (below: number) => Math.floor(Math.random() * below)
  const upstream = await recordingUpstream((_request, response) => {
    const made = () => response.writeHead(201, { 'Content-Length': 12 })
    switch (random(6)) {
      case 0:
        return void response.destroy()
      case 1:
        return
      case 2:
        made().write('{"id":')
        return void setTimeout(() => response.destroy(), random(20))
      case 3:
        return void response.writeHead(500).end('failed')
      default:
        setTimeout(() => made().end('{"id":"abc"}'), random(50))
    }
  })
  const gateway = await gatewayTo(upstream.url, { UPSTREAM_TOTAL_TIMEOUT_MS: 2_000 })
  const click = (key: string) =>
    rawExchange(gateway.url, post(body, { headers: ['App-Name: wallet', `Idempotency-Key: ${key}`] }))
  const both = await Promise.all(
    Array.from({ length: clients }, async (_, number) => {
      const key = `click-${number}`
      const first = click(key)
      await pause(random(100))
      return { key, answers: await Promise.all([first, click(key)]) }
    }),
  )
  for (const { key, answers } of both) {
    const sent = upstream.requests.filter(({ headers }) => headers['idempotency-key'] === key)
    expect(sent.length, key).toBeLessThanOrEqual(1)
    for (const { status } of answers) expect([201, 409, 500, 502, 503, 504]).toContain(status)
    // And the third time, when all is over.
    const again = await click(key)
    const answered = answers.find(({ status }) => status === 201 || status === 500)
    if (answered !== undefined) expect(again.body.toString()).toBe(answered.body.toString())
  }
  expect(new Set(upstream.requests.map(({ headers }) => headers['idempotency-key'])).size).toBe(
    upstream.requests.length,
  )
})
