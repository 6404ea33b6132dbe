import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { createGateway } from 'quotegate'
import { startSandbox } from 'quotegate/sandbox'

let sandbox
let gateway
let url
before(async () => {
  sandbox = await startSandbox()
  gateway = await createGateway({
    SWAP_BASE_URL: sandbox.url,
    PAYMENTS_BASE_URL: sandbox.url,
    PORT: 0,
    ADMIN_PORT: 0,
  })
  url = (await gateway.listen()).trafficUrl
})
after(() => gateway.close())
after(() => sandbox.close())
beforeEach(() => {
  sandbox.requests.length = 0
})

const quote = (amount) =>
  fetch(`${url}/v3/pairs/BTC_USDT/quotes?amount=${amount}`, {
    headers: { 'App-Name': 'wallet' },
  })

test('a hundred users who ask at once cost the provider one call', async () => {
  const answers = await Promise.all(Array.from({ length: 100 }, () => quote('0.5')))
  assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]))
  assert.equal(sandbox.requests.length, 1)
})

test('a cached quote is still there while the provider is down', async () => {
  const first = await (await quote('0.7')).json()
  sandbox.faults({ resetRate: 1 })
  try {
    assert.deepEqual(await (await quote('0.7')).json(), first)
    assert.equal((await quote('0.8')).status, 502)
  } finally {
    sandbox.faults({ resetRate: 0 })
  }
})

test('a payment reaches its API byte for byte', async () => {
  const body = '{ "amount": "10.00",  "reference": 1.10 }'
  const headers = { Authorization: 'Bearer any', 'Content-Type': 'application/json' }
  const answer = await fetch(`${url}/checkouts`, { method: 'POST', headers, body })
  assert.equal(answer.status, 201)
  assert.equal(sandbox.requests.at(-1).body.toString(), body)
  assert.equal(sandbox.requests.at(-1).headers.authorization, 'Bearer any')
})
