import { expect, test } from 'vitest'
import { attack, expectRefusal } from '../support/clients/attack.ts'
import { asking } from '../support/clients/quotes.ts'
import { aSecond, gatewayTo, recordedGateway } from '../support/gateways/between.ts'

const closedPort = 'http://127.0.0.1:9'

test.each(['/v3/pairs/ETH_USDC/quotes?amount=1', '/v3/pairs'])(
  'a rate limit cannot be evaded with a second App-Name: %s',
  async (path) => {
    const { upstream, gateway } = await recordedGateway({ RATE_LIMIT_PER_MINUTE: 2 })
    const bytes = `GET ${path} HTTP/1.1\r\nHost: gateway\r\nApp-Name: a\r\nApp-Name: b\r\n\r\n`
    expectRefusal(await attack(gateway.url, bytes), 400, 'malformed-request')
    expect(upstream.requests).toHaveLength(0)
  },
)

test('quotes that were not requested from the provider are not counted as quote calls', async () => {
  const gateway = await gatewayTo(closedPort, {
    breakerFailures: 1,
    breakerOpenMs: 60_000,
  })
  await asking(gateway.url, '1')
  await aSecond()
  for (let count = 2; count <= 5; count++) await asking(gateway.url, `${count}`)
  expect(await gateway.metrics()).toContain('quotegate_quote_calls_total{pair="other"} 0')
})

test('the headers in which trusted proxies describe the user are never sent to the provider', async () => {
  const { upstream, gateway } = await recordedGateway({
    TRUST_PROXY: '10.0.0.1',
    CLIENT_IP_HEADER: 'x-edge-client',
    QUOTE_PARTITION: 'header',
    QUOTE_PARTITION_HEADER: 'cf-ipcountry,x-edge-region',
  })
  const headers = {
    'App-Name': 'wallet',
    'CF-IPCountry': 'US',
    CF_IPCountry: 'US',
    'X-Edge-Region': 'US-CA',
    'X-Edge-Client': '192.0.2.1',
  }
  await fetch(`${gateway.url}/v3/pairs`, { headers })
  await fetch(`${gateway.url}/v3/orders/float`, { method: 'POST', body: '{}', headers })
  expect(upstream.requests).toHaveLength(2)
  expect(JSON.stringify(upstream.requests).toLowerCase()).not.toMatch(
    /cf.ipcountry|x.edge-/,
  )
})
