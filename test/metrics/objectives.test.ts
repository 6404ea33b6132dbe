import { expect, test } from 'vitest'
import { ask, counted, giveQuote, quotePath } from '../support/clients/quotes.ts'
import { recordedGateway } from '../support/gateways/between.ts'

const errors = (source: string) => `quotegate_server_errors_total{source="${source}"}`
const quotes = (how: string, objective: string) =>
  `quotegate_quote_latency_total{how="${how}",objective="${objective}"}`

test('a 5xx is counted by who caused it', async () => {
  const { gateway } = await recordedGateway({}, (_request, response) =>
    response.writeHead(500).end(),
  )
  expect((await ask(gateway.url, { path: '/v3/pairs' })).status).toBe(500)
  expect(
    (await ask(gateway.url, { path: '/v3/pairs', headers: ['Via', '1.1 quotegate'] }))
      .status,
  ).toBe(508)
  expect((await ask(gateway.url, { path: '/nowhere' })).status).toBe(404)
  expect(await counted(gateway, errors('provider'))).toBe(1)
  expect(await counted(gateway, errors('gateway'))).toBe(1)
})

test("the provider's time does not count as the gateway's latency, and waiting for a connection does", async () => {
  const { gateway } = await recordedGateway(
    { UPSTREAM_CONNECTIONS: 1 },
    (_request, response) => {
      setTimeout(() => giveQuote(response), 300)
    },
  )
  const amounts = ['0.1', '0.2']
  await Promise.all(
    amounts.map((amount) => ask(gateway.url, { path: `${quotePath}?amount=${amount}` })),
  )
  // The first may be late on a loaded machine too; the second has waited for 300 ms at least.
  const missed = await counted(gateway, quotes('miss', 'missed'))
  expect(missed).toBeGreaterThanOrEqual(1)
  expect((await counted(gateway, quotes('miss', 'met'))) + missed).toBe(2)
  await ask(gateway.url, { path: `${quotePath}?amount=0.1` })
  const hits = await Promise.all(
    ['met', 'missed'].map((objective) => counted(gateway, quotes('hit', objective))),
  )
  expect(hits.reduce((sum, each) => sum + each, 0)).toBe(1)
})
