import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { createGateway, type Gateway } from 'quotegate'
import { type Sandbox, startSandbox } from 'quotegate/sandbox'

let sandbox: Sandbox
let gateway: Gateway
let url: string
beforeAll(async () => {
  sandbox = await startSandbox({ prices: { ETH_USDC: 2900 } })
  gateway = await createGateway({ SWAP_BASE_URL: sandbox.url, PORT: 0, ADMIN_PORT: 0 })
  url = (await gateway.listen()).trafficUrl
})
afterAll(async () => {
  await gateway.close()
  await sandbox.close()
})

const headers = { 'App-Name': 'wallet', 'Content-Type': 'application/json' }

test('an order for a live quote goes through', async () => {
  const answer = await fetch(`${url}/v3/pairs/ETH_USDC/quotes?amount=0.1`, { headers })
  const quote = (await answer.json()) as { id: string; toAmount: { value: string } }
  expect(quote.toAmount.value).toBe('290')
  const body = JSON.stringify({
    pairId: 'ETH_USDC',
    fromAmount: 0.1,
    toAmount: '290',
    toAddress: '0xto',
  })
  const order = await fetch(`${url}/v3/orders/float`, {
    method: 'POST',
    headers: { ...headers, 'Quotegate-Quote': quote.id },
    body,
  })
  expect(order.status).toBe(201)
})
