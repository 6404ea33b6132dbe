const assert = require('node:assert/strict')
const { after, before, test } = require('node:test')
const { createGateway } = require('quotegate')
const { startSandbox } = require('quotegate/sandbox')
const request = require('supertest')

let sandbox
let gateway
let checkout
before(async () => {
  sandbox = await startSandbox()
  gateway = await createGateway({ SWAP_BASE_URL: sandbox.url, PORT: 0, ADMIN_PORT: 0 })
  const { trafficUrl } = await gateway.listen()
  // A service in CommonJS is required like everything else.
  const { createCheckout } = await import('./checkout.js')
  checkout = createCheckout({ swapBaseUrl: trafficUrl })
})
after(() => gateway.close())
after(() => sandbox.close())

test('two users who ask for the same price cost one call', async () => {
  const [first, second] = [
    await request(checkout).get('/price/ETH_USDC?amount=0.1').expect(200),
    await request(checkout).get('/price/ETH_USDC?amount=0.1').expect(200),
  ]
  assert.equal(second.body.id, first.body.id)
  assert.equal(sandbox.requests.length, 1)
})
