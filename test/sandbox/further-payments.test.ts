import { describe, expect, test } from 'vitest'
import { ManualClock, pay, paySigned, startedSandbox, startMs } from './support.ts'

describe('payments', () => {
  test('are created, listed and found', async () => {
    const sandbox = await startedSandbox({ clock: new ManualClock() })
    const { status, body } = await pay(sandbox, 'POST', '/payments', { amount: '10.00' })
    expect(status).toBe(201)
    expect(body).toMatchObject({
      amount: '10.00',
      status: 'succeeded',
      createdAt: new Date(startMs).toISOString(),
    })
    expect((await pay(sandbox, 'GET', `/payments/${body.id}`)).body).toEqual(body)
    expect((await pay(sandbox, 'GET', '/payments')).body).toEqual({ data: [body] })
    expect((await pay(sandbox, 'GET', '/payments/none')).status).toBe(404)
  })

  test('are refunded once, by a signed request, and the refund is among the others', async () => {
    const sandbox = await startedSandbox({ clock: new ManualClock() })
    const { body: payment } = await pay(sandbox, 'POST', '/payments', { amount: '9990000' })
    expect(payment.id).toMatch(/^pay_[a-z]{24}$/)
    const path = `/payments/${payment.id}/refund`
    const wanted = { destination: '0xabc', deadline: '2026-05-19T13:00:00Z' }
    const unsigned = await pay(sandbox, 'POST', path, wanted)
    expect([unsigned.status, unsigned.body.error.type]).toEqual([401, 'invalid_signature'])
    for (const bad of ['', '[', {}, { destination: '0xabc' }, { ...wanted, destination: '' }]) {
      expect((await paySigned(sandbox, path, bad)).status).toBe(400)
    }
    const { status, body } = await paySigned(sandbox, path, { ...wanted, paymentId: 'another' })
    expect(status).toBe(201)
    expect(body).toMatchObject({ ...wanted, paymentId: payment.id, status: 'succeeded' })
    expect((await pay(sandbox, 'GET', `/refunds/${body.id}`)).body).toEqual(body)
    expect((await pay(sandbox, 'GET', `/payments/${payment.id}`)).body.status).toBe('refunded')
    expect((await paySigned(sandbox, path, wanted)).status).toBe(409)
    expect((await paySigned(sandbox, '/payments/none/refund', wanted)).status).toBe(404)
  })

  test('in two steps are captured once, by a signed request', async () => {
    const sandbox = await startedSandbox()
    const { body: payment } = await pay(sandbox, 'POST', '/payments', { payment_method: 'two_step' })
    expect(payment.status).toBe('authorized')
    const path = `/payments/${payment.id}/capture`
    expect((await pay(sandbox, 'POST', path)).status).toBe(401)
    const captured = await paySigned(sandbox, path)
    expect([captured.status, captured.body]).toEqual([200, { ...payment, status: 'succeeded' }])
    expect((await paySigned(sandbox, path)).body.error.type).toBe('invalid_state')
    const { body: direct } = await pay(sandbox, 'POST', '/payments', { payment_method: 'direct' })
    expect((await paySigned(sandbox, `/payments/${direct.id}/capture`)).status).toBe(409)
  })
})

describe('checkouts of subscriptions', () => {
  test('complete by themselves, as other checkouts do, and then their subscription is active', async () => {
    const clock = new ManualClock()
    const sandbox = await startedSandbox({ clock })
    const { status, body } = await pay(sandbox, 'POST', '/subscription-checkouts', { plan: 'gold' })
    expect([status, body.status, body.plan]).toEqual([201, 'open', 'gold'])
    expect(body.id).toMatch(/^schk_[a-z]{24}$/)
    const subscription = async () =>
      (await pay(sandbox, 'GET', `/subscriptions/${body.subscriptionId}`)).body.status
    expect(await subscription()).toBe('incomplete')
    clock.advance(2_000)
    expect(await subscription()).toBe('active')
    expect((await pay(sandbox, 'GET', `/subscription-checkouts/${body.id}`)).body.status).toBe('completed')
    expect((await pay(sandbox, 'GET', '/subscription-checkouts')).body.data).toHaveLength(1)
    expect((await pay(sandbox, 'GET', '/checkouts')).body.data).toEqual([])
    expect((await pay(sandbox, 'PATCH', `/subscription-checkouts/${body.id}/cancel`)).status).toBe(409)
  })

  test('are cancelled by PATCH, with their subscription', async () => {
    const clock = new ManualClock()
    const sandbox = await startedSandbox({ clock })
    const { body } = await pay(sandbox, 'POST', '/subscription-checkouts', {})
    const path = `/subscription-checkouts/${body.id}/cancel`
    expect((await pay(sandbox, 'POST', path)).status).toBe(404)
    const cancelled = await pay(sandbox, 'PATCH', path)
    expect([cancelled.status, cancelled.body]).toEqual([200, { ...body, status: 'cancelled' }])
    clock.advance(5_000)
    const { body: subscription } = await pay(sandbox, 'GET', `/subscriptions/${body.subscriptionId}`)
    expect(subscription.status).toBe('cancelled')
    expect((await pay(sandbox, 'PATCH', path)).status).toBe(409)
  })
})

test('charges are those of their merchant', async () => {
  const sandbox = await startedSandbox()
  const charge = async (merchant: string, n: number) =>
    (await pay(sandbox, 'POST', `/merchants/${merchant}/charges`, { n, merchantId: 'another' })).body
  const [first, other, last] = [await charge('m1', 1), await charge('m2', 2), await charge('m1', 3)]
  expect(first).toMatchObject({ merchantId: 'm1', n: 1, status: 'succeeded' })
  const listed = async (target: string) => (await pay(sandbox, 'GET', target)).body.data
  expect(await listed('/merchants/m1/charges')).toEqual([last, first])
  expect(await listed('/merchants/m1/charges?limit=1')).toEqual([last])
  expect(await listed('/merchants/m2/charges')).toEqual([other])
  expect(await listed('/merchants/m3/charges')).toEqual([])
})

test('settings are those of the last PUT', async () => {
  const sandbox = await startedSandbox()
  expect((await pay(sandbox, 'GET', '/settings')).body).toEqual({})
  const put = await pay(sandbox, 'PUT', '/settings', { currency: 'USD' })
  expect([put.status, put.body]).toEqual([200, { currency: 'USD' }])
  await pay(sandbox, 'PUT', '/settings', { theme: 'dark' })
  expect((await pay(sandbox, 'GET', '/settings')).body).toEqual({ theme: 'dark' })
})
