import { describe, expect, test } from 'vitest'
import { ask, ManualClock, pay, startedSandbox, startMs } from './support.ts'

describe('payments', () => {
  test.each([
    ['GET', '/checkouts'],
    ['POST', '/checkouts'],
    ['GET', '/subscriptions/any'],
    ['POST', '/refunds'],
    ['GET', '/payments'],
    ['POST', '/payments/any/refund'],
    ['POST', '/payments/any/capture'],
    ['GET', '/subscription-checkouts'],
    ['PATCH', '/subscription-checkouts/any/cancel'],
    ['POST', '/subscriptions/any/charge-quote'],
    ['POST', '/subscriptions/any/charge'],
    ['GET', '/subscriptions/any/charges'],
    ['GET', '/merchants/any/charges'],
    ['GET', '/settings'],
  ])('refuses %s %s without a bearer key', async (method, target) => {
    const sandbox = await startedSandbox()
    const { status, headers, body } = await ask(sandbox, method, target)
    expect(status).toBe(401)
    expect(headers.get('www-authenticate')).toBe('Bearer')
    expect(headers.get('sandbox')).toBe('quotegate')
    expect(body).toEqual({ error: { type: 'unauthorized', message: expect.stringContaining('sk_test_') } })
    expect((await ask(sandbox, method, target, { headers: { Authorization: 'Basic abc' } })).status).toBe(401)
  })

  test.each([
    ['GET', '/checkouts/none', 'Checkout not found'],
    ['POST', '/checkouts/none/cancel', 'Checkout not found'],
    ['PATCH', '/subscription-checkouts/none/cancel', 'Subscription checkout not found'],
    ['POST', '/subscriptions/none/charge-quote', 'Subscription not found'],
    ['GET', '/subscriptions/none/charges', 'Subscription not found'],
    ['GET', '/payments/none', 'Payment not found'],
    ['GET', '/refunds/none', 'Refund not found'],
  ])('has nothing at %s %s, in the published form', async (method, target, message) => {
    const sandbox = await startedSandbox()
    const { status, body } = await pay(sandbox, method, target)
    expect([status, body]).toEqual([404, { error: { type: 'not_found', message } }])
  })

  test('fails in the form of the API that was asked, at an unknown path and by a fault too', async () => {
    const sandbox = await startedSandbox()
    const { status, body } = await pay(sandbox, 'GET', '/checkouts/a/b')
    expect([status, body.error.type]).toEqual([404, 'not_found'])
    sandbox.faults({ errorRate: 1 })
    expect((await pay(sandbox, 'GET', '/checkouts')).body.error.type).toBe('service_unavailable')
    expect((await ask(sandbox, 'GET', '/v3/pairs')).body.code).toBe('SERVICE_UNAVAILABLE')
  })

  test('echoes any object, but no field that is its own', async () => {
    const sandbox = await startedSandbox({ clock: new ManualClock() })
    const posted = {
      amount: '10.00',
      metadata: { a: [1, null] },
      id: 'mine',
      status: 'completed',
      createdAt: 0,
    }
    const { status, body } = await pay(sandbox, 'POST', '/checkouts', posted)
    expect(status).toBe(201)
    expect(body).toEqual({
      ...posted,
      id: expect.stringMatching(/^chk_[a-z]{24}$/),
      status: 'open',
      createdAt: new Date(startMs).toISOString(),
    })
    expect((await pay(sandbox, 'GET', `/checkouts/${body.id}`)).body).toEqual(body)
  })

  test.each(['', 'null', '[1]', '"text"', '{"a":', `{"a":${'['.repeat(5000)}${']'.repeat(5000)}}`])(
    'refuses a body that is not a usable JSON object: %.20s',
    async (body) => {
      const sandbox = await startedSandbox()
      expect((await pay(sandbox, 'POST', '/subscriptions', body)).status).toBe(400)
    },
  )

  test('refuses a body past one MiB with a 413', async () => {
    const sandbox = await startedSandbox()
    const { status, body } = await pay(sandbox, 'POST', '/checkouts', { text: 'x'.repeat(3 * 1024 * 1024) })
    expect(status).toBe(413)
    expect(body.error.type).toBe('body_too_large')
  })

  test('lists the newest first, as many as asked for', async () => {
    const sandbox = await startedSandbox()
    for (let n = 1; n <= 25; n += 1) await pay(sandbox, 'POST', '/subscriptions', { n })
    const numbersOf = async (target: string) =>
      (await pay(sandbox, 'GET', target)).body.data.map(({ n }: { n: number }) => n)
    expect(await numbersOf('/subscriptions?limit=2')).toEqual([25, 24])
    expect(await numbersOf('/subscriptions?limit=odd&limit[]=1')).toHaveLength(20)
    expect(await numbersOf('/subscriptions?limit=100')).toHaveLength(25)
    expect(await numbersOf('/checkouts')).toEqual([])
  })

  test('forgets the oldest past a thousand', async () => {
    const sandbox = await startedSandbox()
    const first = await pay(sandbox, 'POST', '/checkouts', {})
    for (let n = 0; n < 1000; n += 50) {
      await Promise.all(Array.from({ length: 50 }, () => pay(sandbox, 'POST', '/checkouts', {})))
    }
    expect((await pay(sandbox, 'GET', `/checkouts/${first.body.id}`)).status).toBe(404)
  })
})

describe('checkouts', () => {
  test('are paid by themselves after two seconds, and then not cancelled', async () => {
    const clock = new ManualClock()
    const sandbox = await startedSandbox({ clock })
    const { body } = await pay(sandbox, 'POST', '/checkouts', {})
    clock.advance(1999)
    expect((await pay(sandbox, 'GET', `/checkouts/${body.id}`)).body.status).toBe('open')
    clock.advance(1)
    expect((await pay(sandbox, 'GET', `/checkouts/${body.id}`)).body.status).toBe('completed')
    expect((await pay(sandbox, 'POST', `/checkouts/${body.id}/cancel`)).status).toBe(409)
  })

  test('can be cancelled once', async () => {
    const clock = new ManualClock()
    const sandbox = await startedSandbox({ clock })
    const { body } = await pay(sandbox, 'POST', '/checkouts', {})
    expect((await pay(sandbox, 'POST', `/checkouts/${body.id}/cancel`)).body.status).toBe('cancelled')
    clock.advance(5000)
    expect((await pay(sandbox, 'GET', `/checkouts/${body.id}`)).body.status).toBe('cancelled')
    expect((await pay(sandbox, 'POST', `/checkouts/${body.id}/cancel`)).status).toBe(409)
    expect((await pay(sandbox, 'POST', `/sandbox/checkouts/${body.id}/complete`)).status).toBe(409)
  })
})

describe('two-step checkouts', () => {
  test.each(['payment_method', 'payment_mode'])(
    'by %s expire after a day, or when they say',
    async (field) => {
      const sandbox = await startedSandbox({ clock: new ManualClock() })
      const expiry = async (posted: object) =>
        (await pay(sandbox, 'POST', '/checkouts', posted)).body.expires_at
      expect(await expiry({ [field]: 'two_step' })).toBe(new Date(startMs + 86_400_000).toISOString())
      expect(await expiry({ [field]: 'two_step', expires_at: 'soon' })).toBe('soon')
      expect(await expiry({ [field]: 'direct', signatures: ['0x1'] })).toBeUndefined()
    },
  )
})

describe('subscriptions', () => {
  test('are active until they are cancelled', async () => {
    const sandbox = await startedSandbox()
    const { body } = await pay(sandbox, 'POST', '/subscriptions', { plan: 'gold' })
    expect(body.status).toBe('active')
    const cancelled = await pay(sandbox, 'POST', `/subscriptions/${body.id}/cancel`)
    expect(cancelled.body).toEqual({ ...body, status: 'cancelled' })
    expect((await pay(sandbox, 'POST', `/subscriptions/${body.id}/cancel`)).status).toBe(409)
  })
})

describe('refunds', () => {
  test('are given for a completed checkout', async () => {
    const sandbox = await startedSandbox({ clock: new ManualClock() })
    const { body: checkout } = await pay(sandbox, 'POST', '/checkouts', {})
    expect((await ask(sandbox, 'POST', `/sandbox/checkouts/${checkout.id}/complete`)).body.status).toBe(
      'completed',
    )
    const { status, body } = await pay(sandbox, 'POST', '/refunds', { checkoutId: checkout.id, amount: '1' })
    expect(status).toBe(201)
    expect(body).toMatchObject({ checkoutId: checkout.id, amount: '1', status: 'succeeded' })
    expect((await pay(sandbox, 'GET', `/refunds/${body.id}`)).body).toEqual(body)
    expect((await pay(sandbox, 'GET', '/refunds')).body.data).toEqual([body])
  })

  test('are refused for a checkout that is not completed', async () => {
    const sandbox = await startedSandbox({ clock: new ManualClock() })
    const { body: checkout } = await pay(sandbox, 'POST', '/checkouts', {})
    const refund = (checkoutId?: unknown) => pay(sandbox, 'POST', '/refunds', { checkoutId })
    expect((await refund(checkout.id)).status).toBe(422)
    await pay(sandbox, 'POST', `/checkouts/${checkout.id}/cancel`)
    expect((await refund(checkout.id)).status).toBe(422)
    expect((await refund('unknown')).status).toBe(422)
    expect((await refund()).status).toBe(400)
  })
})
