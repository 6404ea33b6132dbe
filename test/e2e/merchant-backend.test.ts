import { createHmac } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { startRecordingUpstream } from '../support/upstreams/recording-upstream.ts'
import { closing, everyWay, setStage } from './support.ts'

const signingKey = 'whsec_test'
const sign = (bytes: Buffer | string) => createHmac('sha256', signingKey).update(bytes).digest('hex')

/** Story 5: the merchant backend is paid, refunds, charges subscriptions and receives events. Its bytes: test/promises. */
describe.each(everyWay)('the merchant backend, through %s,', (_way, open) => {
  test('is paid and refunds: from start to finish with the sandbox', async () => {
    const { sandbox, gateway } = await setStage()
    const ask = open(gateway)
    const key = { Authorization: 'Bearer any-key', 'Content-Type': 'application/json' }
    const { body: checkout } = await ask('post', '/checkouts').set(key).send('{"amount":"10.00"}')
    const refund = () =>
      ask('post', '/refunds')
        .set(key)
        .send(JSON.stringify({ checkoutId: checkout.id }))
    expect((await refund()).status).toBe(422)
    await fetch(`${sandbox.url}/sandbox/checkouts/${checkout.id}/complete`, { method: 'POST' })
    expect((await refund()).status).toBe(201)
    expect((await ask('get', `/checkouts/${checkout.id}`).set(key)).body.status).toBe('completed')
    expect((await ask('get', '/checkouts')).status).toBe(401)
  })

  test('charges a subscription for its quote, once for each nonce, and looks into the ledger', async () => {
    const { gateway } = await setStage()
    const ask = open(gateway)
    const key = { Authorization: 'Bearer sk_test_1', 'Content-Type': 'application/json' }
    const { body: checkout } = await ask('post', '/subscription-checkouts').set(key).send('{"plan":"gold"}')
    const cancelled = await ask('patch', `/subscription-checkouts/${checkout.id}/cancel`).set(key)
    expect([cancelled.status, cancelled.body.status]).toEqual([200, 'cancelled'])
    const { body: subscription } = await ask('post', '/subscriptions').set(key).send('{"plan":"gold"}')
    const path = `/subscriptions/${subscription.id}`
    const { body: quote } = await ask('post', `${path}/charge-quote`).set(key)
    const bytes = `{"charge_nonce" : "7",\n"amount":"${quote.amount}" }`
    const charge = () => ask('post', `${path}/charge`).set(key).set('X-Signature', sign(bytes)).send(bytes)
    expect((await charge()).status).toBe(201)
    const repeated = await charge()
    expect([repeated.status, repeated.text]).toEqual([
      422,
      '{"error":{"type":"charge_nonce_used","message":"the contract reverts"}}',
    ])
    const { body: ledger } = await ask('get', `${path}/charges`).set(key)
    const reasons = ledger.data.map((one: { failure_reason: unknown }) => one.failure_reason)
    expect(reasons).toEqual(['charge_nonce_used', null])
  })

  test('receives the events of the sandbox, whose signature verifies', async () => {
    const receiver = closing(await startRecordingUpstream())
    const { sandbox, gateway } = await setStage({ WEBHOOKS_BASE_URL: receiver.url })
    const url = `${gateway.url}/webhooks/payments`
    const { statuses } = await sandbox.sendWebhook({ url, secret: signingKey, type: 'payment.settled' })
    const [delivery] = receiver.requests
    expect(statuses).toEqual([200])
    expect(delivery?.headers['sandbox-signature']).toBe(sign(delivery?.body ?? ''))
  })
})
