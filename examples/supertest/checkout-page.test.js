import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createGateway } from 'quotegate'
import { startSandbox } from 'quotegate/sandbox'
import request from 'supertest'

let sandbox
let gateway
before(async () => {
  sandbox = await startSandbox({ quoteLifetimeMs: 50, prices: { ETH_USDC: 2900 } })
  gateway = await createGateway({
    SWAP_BASE_URL: sandbox.url,
    SWAP_APP_NAME: 'checkout-page',
  })
})
after(() => gateway.close())
after(() => sandbox.close())

const askForQuote = (amount) =>
  request(gateway.app).get(`/v3/pairs/ETH_USDC/quotes?amount=${amount}`).expect(200)
const order = (quote) =>
  request(gateway.app).post('/v3/orders/float').set('Quotegate-Quote', quote.id).send({
    pairId: quote.pairId,
    fromAmount: quote.fromAmount.value,
    toAmount: quote.toAmount.value,
    toAddress: '0xto',
  })

test('a quote has the price of the pair', async () => {
  const { body: quote } = await askForQuote('0.1')
  assert.equal(quote.toAmount.value, '290')
})

test('an order whose quote has expired is refused, and says where a new price is', async () => {
  const { body: quote } = await askForQuote('0.1')
  while (Date.now() < quote.expiry) await sleep(10)

  const { body: problem } = await order(quote).expect(409)
  assert.equal(problem.type, 'urn:quotegate:problem:quote-expired')
  await request(gateway.app).get(problem.requote).expect(200)
  // Nothing was sent to the provider.
  assert.equal(sandbox.requests.filter(({ method }) => method === 'POST').length, 0)
})

test('an order whose quote is live goes through', async () => {
  sandbox.faults({ quoteLifetimeMs: 60_000 })
  // Another amount, for a quote that is not in the cache from before.
  const { body: quote } = await askForQuote('0.2')
  await order(quote).expect(201)
  assert.equal(sandbox.requests.at(-1).target, '/v3/orders/float')
})
