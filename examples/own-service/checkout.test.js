import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createGateway } from 'quotegate'
import { startSandbox } from 'quotegate/sandbox'
import request from 'supertest'
import { createCheckout } from './checkout.js'

let sandbox
let gateway
let checkout
before(async () => {
  sandbox = await startSandbox({ quoteLifetimeMs: 50 })
  gateway = await createGateway({
    SWAP_BASE_URL: sandbox.url,
    // The service names its users from here.
    TRUST_PROXY: 'loopback',
    CLIENT_IP_HEADER: 'X-Forwarded-For',
    PORT: 0,
    ADMIN_PORT: 0,
  })
  const { trafficUrl } = await gateway.listen()
  checkout = createCheckout({ swapBaseUrl: trafficUrl })
})
after(() => gateway.close())
after(() => sandbox.close())

test('a user who waits too long learns that the price has changed', async () => {
  const { body: quote } = await request(checkout)
    .get('/price/ETH_USDC?amount=0.1')
    .expect(200)
  while (Date.now() < quote.expiry) await sleep(10)

  const answer = await request(checkout)
    .post('/buy')
    .send({ quote, toAddress: '0xto' })
    .expect(409)
  assert.deepEqual(answer.body, { say: 'The price has changed.' })
  // Nothing was sent to the provider.
  assert.equal(sandbox.requests.filter(({ method }) => method === 'POST').length, 0)
})

test('a user who buys in time has bought', async () => {
  sandbox.faults({ quoteLifetimeMs: 60_000 })
  const { body: quote } = await request(checkout).get('/price/ETH_USDC?amount=0.2')
  await request(checkout).post('/buy').send({ quote, toAddress: '0xto' }).expect(201)
})

test('the provider gets the address of the user', async () => {
  await request(checkout)
    .get('/price/BTC_USDC?amount=1')
    .set('X-Forwarded-For', '198.51.100.7')
    .expect(200)
  assert.match(sandbox.requests.at(-1).headers.forwarded, /^for=198\.51\.100\.7\b/)
})
