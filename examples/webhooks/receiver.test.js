import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { after, before, beforeEach, test } from 'node:test'
import { createGateway } from 'quotegate'
import { startSandbox } from 'quotegate/sandbox'
import { createReceiver } from './receiver.js'

const secret = 'whsec_test'
const taken = []
let work
const oldSecret = 'whsec_before'
const receiver = createReceiver({
  secret,
  oldSecret,
  take: async (event) => {
    await work()
    taken.push(event)
  },
})
let sandbox
let gateway
let url
before(async () => {
  sandbox = await startSandbox()
  await once(receiver.listen(0, '127.0.0.1'), 'listening')
  const webhooks = `http://127.0.0.1:${receiver.address().port}`
  const settings = {
    SWAP_BASE_URL: sandbox.url,
    WEBHOOKS_BASE_URL: webhooks,
    PORT: 0,
    ADMIN_PORT: 0,
  }
  gateway = await createGateway(settings)
  url = `${(await gateway.listen()).trafficUrl}/webhooks/payments`
})
after(() => gateway.close())
after(() => sandbox.close())
after(() => receiver.close())
beforeEach(() => {
  taken.length = 0
  work = () => new Promise((resolve) => setTimeout(resolve, 50))
})

const send = (id) => sandbox.sendWebhook({ url, secret, type: 'payment.settled', id })
/** Bytes that the provider has signed, or not. */
const post = async (bytes, signature, more = {}) => {
  const headers = {
    'Content-Type': 'application/json',
    'X-Signature': signature,
    ...more,
  }
  return (await fetch(url, { method: 'POST', headers, body: bytes })).status
}
const sign = (bytes, key = secret) =>
  createHmac('sha256', key).update(bytes).digest('hex')

test('an event is taken once, also if it is delivered again or twice at once', async () => {
  const both = await Promise.all([send('evt_1'), send('evt_1')])
  const again = await send('evt_1')
  assert.deepEqual(
    [...both, again].flatMap(({ statuses }) => statuses),
    [204, 204, 204],
  )
  assert.equal(taken.length, 1)
})

test('an event whose work fails is answered 500, and taken when it is sent again', async () => {
  let fails = 1
  work = async () => {
    await new Promise((resolve) => setTimeout(resolve, 50))
    if (fails-- > 0) throw new Error('the database is away')
  }
  const both = await Promise.all([send('evt_2'), send('evt_2')])
  assert.deepEqual(
    both.map(({ statuses }) => statuses.at(-1)),
    [204, 204],
  )
  assert.equal(both.flatMap(({ statuses }) => statuses).includes(500), true)
  assert.equal(taken.length, 1)
})

test('the signature is over the bytes as they were sent', async () => {
  const bytes =
    '{ "type":"payment.settled",\t"id" : "evt_3", "amount":9007199254740993, "name":"Zo\\u00eb \u00eb" }\r\n'
  assert.equal(await post(bytes, sign(bytes)), 204)
  assert.equal(await post(JSON.stringify(JSON.parse(bytes)), sign(bytes)), 401)
  assert.equal(taken.length, 1)
})

test('nothing is taken that is not signed with the secret', async () => {
  const bytes = '{"id":"evt_4"}'
  const other = createHmac('sha256', 'another').update(bytes).digest('hex')
  for (const signature of [
    '',
    'x',
    other,
    `${sign(bytes)}0`,
    `${sign(bytes)}, ${sign(bytes)}`,
    '\u00e9'.repeat(64),
  ]) {
    assert.equal(await post(bytes, signature), 401)
  }
  assert.deepEqual(taken, [])
})

test('while the secret is changed, both sides may have either', async () => {
  const event = { url, type: 'payment.settled' }
  const sent = [
    { secret, previousSecret: oldSecret },
    { secret: oldSecret },
    { secret: 'whsec_next', previousSecret: secret },
  ]
  for (const secrets of sent)
    assert.deepEqual(
      (await sandbox.sendWebhook({ ...event, ...secrets })).statuses,
      [204],
    )
  const stranger = { secret: 'whsec_next', previousSecret: oldSecret }
  const { statuses } = await sandbox.sendWebhook({ ...event, ...stranger })
  assert.deepEqual(new Set(statuses), new Set([401]))
  assert.equal(taken.length, sent.length)
})

test('an event whose id is not that of its header is answered 400 and not taken', async () => {
  const bytes = '{"id":"evt_5"}'
  assert.equal(await post(bytes, sign(bytes), { 'X-Webhook-Id': 'evt_6' }), 400)
  assert.deepEqual(taken, [])
  assert.equal(await post(bytes, sign(bytes), { 'X-Webhook-Id': 'evt_5' }), 204)
})

test('signed bytes that are not an event are answered 400 and not taken', async () => {
  for (const bytes of ['', 'no JSON', 'null', '[]', '{}', '{"id":""}', '{"id":7}']) {
    assert.equal(await post(bytes, sign(bytes)), 400, bytes)
  }
  assert.deepEqual(taken, [])
})

test('a test event is answered and not taken', async () => {
  assert.deepEqual((await sandbox.sendWebhook({ url, secret })).statuses, [204])
  assert.deepEqual(taken, [])
})
