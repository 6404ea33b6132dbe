import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { createGateway } from 'quotegate'
import { startSandbox } from 'quotegate/sandbox'
import { askForQuote, orderOnce } from './order.js'

const addresses = { fromAddress: '0xfrom', toAddress: '0xto' }
let sandbox
let gateway
let url
before(async () => {
  sandbox = await startSandbox()
  const settings = { SWAP_BASE_URL: sandbox.url, PAYMENTS_BASE_URL: sandbox.url, PORT: 0, ADMIN_PORT: 0 }
  gateway = await createGateway(settings)
  url = (await gateway.listen()).trafficUrl
})
after(() => gateway.close())
after(() => sandbox.close())
beforeEach(() => {
  sandbox.requests.length = 0
  sandbox.faults({ quoteLifetimeMs: 30_000 })
})

const orders = () => sandbox.requests.filter(({ method }) => method === 'POST')

test('a double click is one order', async () => {
  const quote = await askForQuote(url, '0.1')
  const click = { quote, addresses, tolerance: 0.01, key: 'click-1' }
  const [one, other] = await Promise.all([orderOnce(url, click), orderOnce(url, click)])
  assert.deepEqual(one, other)
  assert.equal(orders().length, 1)
})

test('a user who went for coffee orders at the new price, if it is within the tolerance', async () => {
  sandbox.faults({ quoteLifetimeMs: 100 })
  const quote = await askForQuote(url, '0.2')
  await new Promise((resolve) => setTimeout(resolve, 300))
  sandbox.faults({ quoteLifetimeMs: 30_000 })
  const order = await orderOnce(url, { quote, addresses, tolerance: 0.5 })
  assert.ok(order.id)
  assert.equal(orders().length, 1)
  sandbox.faults({ quoteLifetimeMs: 100 })
  const late = await askForQuote(url, '0.3')
  await new Promise((resolve) => setTimeout(resolve, 300))
  await assert.rejects(orderOnce(url, { quote: late, addresses }), /too old/)
})
