import { describe, expect, test } from 'vitest'
import { isoAfter, stage } from './support.ts'

describe('every path of the payments API', () => {
  test.each([
    ['GET', '/checkouts'],
    ['POST', '/refunds'],
    ['PATCH', '/subscription-checkouts/any/cancel'],
    ['POST', '/subscriptions/any/charge'],
    ['GET', '/merchants/any/charges'],
    ['GET', '/settings'],
  ])('needs a bearer key: %s %s', async (method, target) => {
    const { ask } = await stage()
    const { status, headers, body } = await ask(method, target)
    expect([status, headers.get('www-authenticate'), headers.get('sandbox')]).toEqual([
      401,
      'Bearer',
      'quotegate',
    ])
    expect(body).toEqual({ error: { type: 'unauthorized', message: expect.stringContaining('sk_test_') } })
    expect((await ask(method, target, { Authorization: 'Basic abc' })).status).toBe(401)
  })

  test.each([
    ['GET', '/checkouts/none', 'Checkout not found'],
    ['POST', '/checkouts/none/cancel', 'Checkout not found'],
    ['PATCH', '/subscription-checkouts/none/cancel', 'Subscription checkout not found'],
    ['POST', '/subscriptions/none/charge-quote', 'Subscription not found'],
    ['GET', '/subscriptions/none/charges', 'Subscription not found'],
    ['GET', '/payments/none', 'Payment not found'],
    ['GET', '/refunds/none', 'Refund not found'],
  ])('answers what is not there in the published form: %s %s', async (method, target, message) => {
    const { pay } = await stage()
    const { status, body } = await pay(method, target)
    expect([status, body]).toEqual([404, { error: { type: 'not_found', message } }])
  })

  test('fails in the form of this API, at an unknown path and by a fault too', async () => {
    const { pay, get, sandbox } = await stage()
    const { status, body } = await pay('GET', '/checkouts/a/b')
    expect([status, body.error.type]).toEqual([404, 'not_found'])
    sandbox.faults({ errorRate: 1 })
    expect((await pay('GET', '/checkouts')).body.error.type).toBe('service_unavailable')
    expect((await get('/v3/pairs')).body.code).toBe('SERVICE_UNAVAILABLE')
  })

  test('echoes any object, but no field that is its own', async () => {
    const { pay } = await stage()
    const metadata = { a: [1, null] }
    const posted = { amount: '10.00', metadata, id: 'mine', status: 'completed', createdAt: 0 }
    const { status, body } = await pay('POST', '/checkouts', posted)
    expect(status).toBe(201)
    expect(body).toEqual({
      ...posted,
      id: expect.stringMatching(/^chk_[a-z]{24}$/),
      status: 'open',
      createdAt: isoAfter(0),
    })
    expect((await pay('GET', `/checkouts/${body.id}`)).body).toEqual(body)
  })

  test.each(['', 'null', '[1]', '"text"', '{"a":', `{"a":${'['.repeat(5000)}${']'.repeat(5000)}}`])(
    'refuses a body that is not a usable JSON object: %.20s',
    async (body) => {
      const { pay } = await stage()
      expect((await pay('POST', '/subscriptions', body)).status).toBe(400)
    },
  )

  test('refuses a body past one MiB with a 413', async () => {
    const { pay } = await stage()
    const { status, body } = await pay('POST', '/checkouts', { text: 'x'.repeat(3 * 1024 * 1024) })
    expect([status, body.error.type]).toEqual([413, 'body_too_large'])
  })

  test('lists the newest first, as many as asked for', async () => {
    const { pay } = await stage()
    for (let n = 1; n <= 25; n += 1) await pay('POST', '/subscriptions', { n })
    const numbersOf = async (target: string) =>
      (await pay('GET', target)).body.data.map(({ n }: { n: number }) => n)
    expect(await numbersOf('/subscriptions?limit=2')).toEqual([25, 24])
    expect(await numbersOf('/subscriptions?limit=odd&limit[]=1')).toHaveLength(20)
    expect(await numbersOf('/subscriptions?limit=100')).toHaveLength(25)
    expect(await numbersOf('/checkouts')).toEqual([])
  })

  test('forgets the oldest past a thousand', async () => {
    const { pay } = await stage()
    const first = await pay('POST', '/checkouts', {})
    for (let n = 0; n < 1000; n += 50)
      await Promise.all(Array.from({ length: 50 }, () => pay('POST', '/checkouts', {})))
    expect((await pay('GET', `/checkouts/${first.body.id}`)).status).toBe(404)
  })
})

describe('checkouts', () => {
  test('are paid by themselves after two seconds, and then not cancelled', async () => {
    const { pay, clock } = await stage()
    const path = `/checkouts/${(await pay('POST', '/checkouts', {})).body.id}`
    clock.ms += 1999
    expect((await pay('GET', path)).body.status).toBe('open')
    clock.ms += 1
    expect((await pay('GET', path)).body.status).toBe('completed')
    expect((await pay('POST', `${path}/cancel`)).status).toBe(409)
  })

  test('can be cancelled once, and are then not paid', async () => {
    const { pay, clock } = await stage()
    const path = `/checkouts/${(await pay('POST', '/checkouts', {})).body.id}`
    expect((await pay('POST', `${path}/cancel`)).body.status).toBe('cancelled')
    clock.ms += 5000
    expect((await pay('GET', path)).body.status).toBe('cancelled')
    for (const late of [`${path}/cancel`, `/sandbox${path}/complete`])
      expect((await pay('POST', late)).status).toBe(409)
  })

  test.each(['payment_method', 'payment_mode'])(
    'in two steps, by %s, expire after a day, or when they say',
    async (field) => {
      const { pay } = await stage()
      const expiry = async (posted: object) => (await pay('POST', '/checkouts', posted)).body.expires_at
      expect(await expiry({ [field]: 'two_step' })).toBe(isoAfter(86_400_000))
      expect(await expiry({ [field]: 'two_step', expires_at: 'soon' })).toBe('soon')
      expect(await expiry({ [field]: 'direct', signatures: ['0x1'] })).toBeUndefined()
    },
  )

  test('are refunded only once they are completed', async () => {
    const { pay, ask } = await stage()
    const { id: checkoutId } = (await pay('POST', '/checkouts', {})).body
    const refund = (posted: object) => pay('POST', '/refunds', { amount: '1', ...posted })
    expect((await refund({ checkoutId })).status).toBe(422)
    expect((await refund({ checkoutId: 'unknown' })).status).toBe(422)
    expect((await refund({})).status).toBe(400)
    expect((await ask('POST', `/sandbox/checkouts/${checkoutId}/complete`)).body.status).toBe('completed')
    const { status, body } = await refund({ checkoutId })
    expect(status).toBe(201)
    expect(body).toMatchObject({ checkoutId, amount: '1', status: 'succeeded' })
    expect((await pay('GET', `/refunds/${body.id}`)).body).toEqual(body)
    expect((await pay('GET', '/refunds')).body.data).toEqual([body])
  })
})

describe('payments', () => {
  test('are refunded once, by a signed request, and the refund is among the others', async () => {
    const { pay, paySigned } = await stage()
    const { status: created, body: payment } = await pay('POST', '/payments', { amount: '9990000' })
    expect([created, payment.status, payment.createdAt]).toEqual([201, 'succeeded', isoAfter(0)])
    expect(payment.id).toMatch(/^pay_[a-z]{24}$/)
    const path = `/payments/${payment.id}/refund`
    const wanted = { destination: '0xabc', deadline: '2026-05-19T13:00:00Z' }
    const unsigned = await pay('POST', path, wanted)
    expect([unsigned.status, unsigned.body.error.type]).toEqual([401, 'invalid_signature'])
    for (const bad of ['[', {}, { destination: '0xabc' }, { ...wanted, destination: '' }])
      expect((await paySigned(path, bad)).status).toBe(400)
    const { status, body } = await paySigned(path, { ...wanted, paymentId: 'another' })
    expect(status).toBe(201)
    expect(body).toMatchObject({ ...wanted, paymentId: payment.id, status: 'succeeded' })
    expect((await pay('GET', `/refunds/${body.id}`)).body).toEqual(body)
    expect((await pay('GET', '/payments')).body.data).toEqual([{ ...payment, status: 'refunded' }])
    expect((await paySigned(path, wanted)).status).toBe(409)
    expect((await paySigned('/payments/none/refund', wanted)).status).toBe(404)
  })

  test('in two steps are captured once, by a signed request', async () => {
    const { pay, paySigned } = await stage()
    const { body: payment } = await pay('POST', '/payments', { payment_method: 'two_step' })
    expect(payment.status).toBe('authorized')
    const path = `/payments/${payment.id}/capture`
    expect((await pay('POST', path)).status).toBe(401)
    const captured = await paySigned(path)
    expect([captured.status, captured.body]).toEqual([200, { ...payment, status: 'succeeded' }])
    expect((await paySigned(path)).body.error.type).toBe('invalid_state')
    const { body: direct } = await pay('POST', '/payments', { payment_method: 'direct' })
    expect((await paySigned(`/payments/${direct.id}/capture`)).status).toBe(409)
  })
})

describe('subscriptions', () => {
  test('are active until they are cancelled', async () => {
    const { pay } = await stage()
    const { body } = await pay('POST', '/subscriptions', { plan: 'gold' })
    expect(body.status).toBe('active')
    const path = `/subscriptions/${body.id}/cancel`
    expect((await pay('POST', path)).body).toEqual({ ...body, status: 'cancelled' })
    expect((await pay('POST', path)).status).toBe(409)
  })

  test('begin with a checkout that completes by itself', async () => {
    const { pay, clock } = await stage()
    const { status, body } = await pay('POST', '/subscription-checkouts', { plan: 'gold' })
    expect([status, body.status, body.plan]).toEqual([201, 'open', 'gold'])
    expect(body.id).toMatch(/^schk_[a-z]{24}$/)
    const path = `/subscription-checkouts/${body.id}`
    const statusOf = async (target: string) => (await pay('GET', target)).body.status
    expect(await statusOf(`/subscriptions/${body.subscriptionId}`)).toBe('incomplete')
    clock.ms += 2_000
    expect(await statusOf(`/subscriptions/${body.subscriptionId}`)).toBe('active')
    expect(await statusOf(path)).toBe('completed')
    expect((await pay('GET', '/subscription-checkouts')).body.data).toHaveLength(1)
    expect((await pay('GET', '/checkouts')).body.data).toEqual([])
    expect((await pay('PATCH', `${path}/cancel`)).status).toBe(409)
  })

  test('are cancelled with their checkout, by PATCH', async () => {
    const { pay, clock } = await stage()
    const { body } = await pay('POST', '/subscription-checkouts', {})
    const path = `/subscription-checkouts/${body.id}/cancel`
    expect((await pay('POST', path)).status).toBe(404)
    const cancelled = await pay('PATCH', path)
    expect([cancelled.status, cancelled.body]).toEqual([200, { ...body, status: 'cancelled' }])
    clock.ms += 5_000
    expect((await pay('GET', `/subscriptions/${body.subscriptionId}`)).body.status).toBe('cancelled')
    expect((await pay('PATCH', path)).status).toBe(409)
  })
})

describe('a charge of a subscription', () => {
  async function subscribed(plan: object = {}) {
    const { clock, pay, paySigned } = await stage({ quoteLifetimeMs: 30_000 })
    const subscribe = async () => `/subscriptions/${(await pay('POST', '/subscriptions', plan)).body.id}`
    const path = await subscribe()
    return {
      ...{ clock, pay, paySigned, path, subscribe },
      quote: (of = path) => pay('POST', `${of}/charge-quote`),
      charge: (charge_nonce: unknown, amount = '9990000', of = path) =>
        paySigned(`${of}/charge`, { amount, charge_nonce }),
      ledger: async () => (await pay('GET', `${path}/charges`)).body.data,
    }
  }

  test('is quoted in the published form, signed, and in the ledger', async () => {
    const { quote, charge, ledger } = await subscribed()
    const quoted = await quote()
    const expires_at = isoAfter(30_000).replace('.000Z', 'Z')
    expect([quoted.status, quoted.body]).toEqual([200, { amount: '9990000', expires_at }])
    const { status, body } = await charge('1')
    expect(status).toBe(201)
    const sent = { amount: '9990000', charge_nonce: '1' }
    expect(body).toMatchObject({ ...sent, status: 'succeeded', failure_reason: null })
    expect(await ledger()).toEqual([body])
  })

  test('is quoted with the amount of its subscription, if that is in the smallest unit', async () => {
    expect((await (await subscribed({ amount: '5000000' })).quote()).body.amount).toBe('5000000')
    expect((await (await subscribed({ amount: '10.00' })).quote()).body.amount).toBe('9990000')
  })

  test('is good until its quote expires, and refused from then on until there is another', async () => {
    const { clock, quote, charge, ledger } = await subscribed()
    await quote()
    clock.ms += 29_999
    expect((await charge('1')).status).toBe(201)
    clock.ms += 1
    const late = await charge('2')
    expect([late.status, late.body.error.type]).toEqual([422, 'quote_expired'])
    await quote()
    expect((await charge('2')).status).toBe(201)
    const reasons = (await ledger()).map((one: { failure_reason: string }) => one.failure_reason)
    expect(reasons).toEqual([null, 'quote_expired', null])
  })

  test('is refused without a quote, of another amount, and without a signature', async () => {
    const { pay, path, quote, charge } = await subscribed()
    expect((await charge('1')).body.error.type).toBe('amount_not_quoted')
    await quote()
    expect((await charge('1', '9990001')).body.error.type).toBe('amount_not_quoted')
    const unsigned = await pay('POST', `${path}/charge`, { amount: '9990000', charge_nonce: '1' })
    expect(unsigned.body.error.type).toBe('invalid_signature')
  })

  test('with a repeated nonce is refused, however it is written and however many come at once', async () => {
    const { quote, charge, ledger, subscribe } = await subscribed()
    await quote()
    const at = await Promise.all(['7', 7, '7', 7].map((nonce) => charge(nonce)))
    expect(at.map(({ status }) => status).sort()).toEqual([201, 422, 422, 422])
    const message = 'the contract reverts'
    expect((await charge('7')).body.error).toEqual({ type: 'charge_nonce_used', message })
    const failed = (await ledger()).filter((one: { status: string }) => one.status === 'failed')
    expect([failed.length, failed[0].failure_reason]).toEqual([4, 'charge_nonce_used'])
    expect((await charge(8)).status).toBe(201)
    // Nonces are those of one subscription.
    const other = await subscribe()
    await quote(other)
    expect((await charge('7', undefined, other)).status).toBe(201)
    expect(await ledger()).toHaveLength(6)
  })

  test.each([
    ['no nonce', { amount: '1' }],
    ['a nonce that JSON numbers cannot hold', '{"amount":"1","charge_nonce":9007199254740993}'],
    ['an amount that is a number', { amount: 1, charge_nonce: '1' }],
    ['no body', undefined],
  ])('with %s is a 400, and not in the ledger', async (_what, body) => {
    const { path, quote, paySigned, ledger } = await subscribed()
    await quote()
    expect((await paySigned(`${path}/charge`, body)).status).toBe(400)
    expect(await ledger()).toEqual([])
  })

  test('has no quote, body and signature where the plan is in tokens', async () => {
    const { pay, path, quote, charge, ledger } = await subscribed({ token: '0xtoken' })
    expect((await quote()).status).toBe(409)
    expect((await charge('1')).status).toBe(400)
    const { status, body } = await pay('POST', `${path}/charge`)
    expect([status, body.status, body.failure_reason]).toEqual([201, 'succeeded', null])
    expect(await ledger()).toEqual([body])
  })

  test('is quoted and made only while the subscription is active', async () => {
    const { pay, path, quote, charge } = await subscribed()
    await quote()
    await pay('POST', `${path}/cancel`)
    expect([(await quote()).status, (await charge('1')).status]).toEqual([409, 409])
  })
})

test('charges of merchants are those of their merchant', async () => {
  const { pay } = await stage()
  const charge = async (merchant: string, n: number) =>
    (await pay('POST', `/merchants/${merchant}/charges`, { n, merchantId: 'another' })).body
  const [first, other, last] = [await charge('m1', 1), await charge('m2', 2), await charge('m1', 3)]
  expect(first).toMatchObject({ merchantId: 'm1', n: 1, status: 'succeeded' })
  const listed = async (target: string) => (await pay('GET', `/merchants/${target}`)).body.data
  expect(await listed('m1/charges')).toEqual([last, first])
  expect(await listed('m1/charges?limit=1')).toEqual([last])
  expect(await listed('m2/charges')).toEqual([other])
})

test('settings are those of the last PUT', async () => {
  const { pay } = await stage()
  expect((await pay('GET', '/settings')).body).toEqual({})
  const put = await pay('PUT', '/settings', { currency: 'USD' })
  expect([put.status, put.body]).toEqual([200, { currency: 'USD' }])
  await pay('PUT', '/settings', { theme: 'dark' })
  expect((await pay('GET', '/settings')).body).toEqual({ theme: 'dark' })
})
