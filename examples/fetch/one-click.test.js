import assert from 'node:assert/strict'
import { createServer } from 'node:http'
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
  const settings = {
    SWAP_BASE_URL: sandbox.url,
    PAYMENTS_BASE_URL: sandbox.url,
    PORT: 0,
    ADMIN_PORT: 0,
  }
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
  const click = { quote, addresses, tolerance: 0.5, key: 'click-2' }
  const order = await orderOnce(url, click)
  assert.ok(order.id)
  assert.equal(orders().length, 1)
  // The page was reloaded, and knows the old price and the key of the click.
  const { mayBeAmong } = await orderOnce(url, click)
  assert.ok(mayBeAmong.some(({ id }) => id === order.id))
  assert.equal(orders().length, 1)
  sandbox.faults({ quoteLifetimeMs: 100 })
  const late = await askForQuote(url, '0.3')
  await new Promise((resolve) => setTimeout(resolve, 300))
  await assert.rejects(
    orderOnce(url, { quote: late, addresses, key: 'click-3' }),
    /too old/,
  )
})

test('an order without the key of its click is not sent', async () => {
  const quote = await askForQuote(url, '0.4')
  await assert.rejects(orderOnce(url, { quote, addresses }), TypeError)
  assert.equal(orders().length, 0)
})

test('an order whose answer was lost is looked up, and is not missing while it cannot be looked up', async () => {
  const quote = await askForQuote(url, '0.5')
  const click = { quote, addresses, key: 'click-4' }
  sandbox.faults({ resetRate: 1 })
  try {
    await assert.rejects(orderOnce(url, click), /502 for/)
  } finally {
    sandbox.faults({ resetRate: 0 })
  }
  assert.ok(Array.isArray((await orderOnce(url, click)).mayBeAmong))
  assert.equal(orders().length, 1)
})

test('an answer that is not JSON says its status', async () => {
  const page = createServer((_request, response) =>
    response.writeHead(503).end('<h1>Sorry</h1>'),
  ).listen(0)
  try {
    const down = `http://127.0.0.1:${page.address().port}`
    const quote = await askForQuote(url, '0.6')
    await assert.rejects(
      orderOnce(down, { quote, addresses, key: 'click-5' }),
      /answered 503/,
    )
  } finally {
    page.close()
  }
})
