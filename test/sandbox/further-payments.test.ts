import { describe, expect, test } from 'vitest'
import { ManualClock, pay, startedSandbox, startMs } from './support.ts'

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

  test('are refunded once, and the refund is among the others', async () => {
    const sandbox = await startedSandbox({ clock: new ManualClock() })
    const { body: payment } = await pay(sandbox, 'POST', '/payments', { amount: '10.00' })
    const refund = (body?: unknown) => pay(sandbox, 'POST', `/payments/${payment.id}/refund`, body)
    expect((await refund('[')).status).toBe(400)
    const { status, body } = await refund({ amount: '4.00', paymentId: 'another' })
    expect(status).toBe(201)
    expect(body).toMatchObject({ paymentId: payment.id, amount: '4.00', status: 'succeeded' })
    expect((await pay(sandbox, 'GET', `/refunds/${body.id}`)).body).toEqual(body)
    expect((await pay(sandbox, 'GET', `/payments/${payment.id}`)).body.status).toBe('refunded')
    expect((await refund({})).status).toBe(409)
    expect((await pay(sandbox, 'POST', '/payments/none/refund', {})).status).toBe(404)
  })

  test('may be refunded without a body', async () => {
    const sandbox = await startedSandbox()
    const { body: payment } = await pay(sandbox, 'POST', '/payments', {})
    const { status, body } = await pay(sandbox, 'POST', `/payments/${payment.id}/refund`)
    expect([status, body.paymentId]).toEqual([201, payment.id])
  })
})

test('checkouts of subscriptions complete by themselves, as other checkouts do', async () => {
  const clock = new ManualClock()
  const sandbox = await startedSandbox({ clock })
  const { status, body } = await pay(sandbox, 'POST', '/subscription-checkouts', { plan: 'gold' })
  expect([status, body.status, body.plan]).toEqual([201, 'open', 'gold'])
  clock.advance(2_000)
  expect((await pay(sandbox, 'GET', `/subscription-checkouts/${body.id}`)).body.status).toBe('completed')
  expect((await pay(sandbox, 'GET', '/subscription-checkouts')).body.data).toHaveLength(1)
  expect((await pay(sandbox, 'GET', '/checkouts')).body.data).toEqual([])
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
