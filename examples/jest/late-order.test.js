const { createGateway, SettingsError } = require('quotegate')
const { startSandbox } = require('quotegate/sandbox')

const clock = { ms: Date.now(), nowMs: () => clock.ms }
let sandbox
let gateway
let url
beforeAll(async () => {
  sandbox = await startSandbox({ clock })
  gateway = await createGateway(
    { SWAP_BASE_URL: sandbox.url, PORT: 0, ADMIN_PORT: 0 },
    { clock },
  )
  url = (await gateway.listen()).trafficUrl
})
afterAll(async () => {
  await gateway.close()
  await sandbox.close()
})

const headers = { 'App-Name': 'wallet', 'Content-Type': 'application/json' }

test('an order forty seconds after its quote is refused, and nothing is sent to the provider', async () => {
  const quote = await (
    await fetch(`${url}/v3/pairs/ETH_USDC/quotes?amount=0.1`, { headers })
  ).json()
  clock.ms += 40_000
  const order = {
    pairId: 'ETH_USDC',
    fromAmount: 0.1,
    toAmount: quote.toAmount.value,
    toAddress: '0xto',
  }
  const answer = await fetch(`${url}/v3/orders/float`, {
    method: 'POST',
    headers: { ...headers, 'Quotegate-Quote': quote.id },
    body: JSON.stringify(order),
  })
  expect(answer.status).toBe(409)
  expect((await answer.json()).expiredForMs).toBe(10_000)
  expect(sandbox.requests.filter(({ method }) => method === 'POST')).toHaveLength(0)
})

test('a wrong setting is a SettingsError', async () => {
  await expect(createGateway({ PORT: -1 })).rejects.toThrow(SettingsError)
})
