import { describe, expect, test } from 'vitest'
import { isoAfter, none, type Step, stage, tell } from './support.ts'

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
    expect(body).toEqual({
      error: { type: 'unauthorized', message: expect.stringContaining('sk_test_') },
    })
    expect((await ask(method, target, { Authorization: 'Basic abc' })).status).toBe(401)
  })

  test('fails in the form of this API, at an unknown path and by a fault too', async () => {
    const { pay, get, sandbox } = await stage()
    expect((await pay('GET', '/checkouts/a/b')).body.error.type).toBe('not_found')
    sandbox.faults({ errorRate: 1 })
    expect((await pay('GET', '/checkouts')).body.error.type).toBe('service_unavailable')
    expect((await get('/v3/pairs')).body.code).toBe('SERVICE_UNAVAILABLE')
  })

  test('echoes any object, but no field that is its own', async () => {
    const { pay } = await stage()
    const posted = {
      amount: '10.00',
      metadata: { a: [1, null] },
      id: 'mine',
      status: 'completed',
      createdAt: 0,
    }
    const { status, body } = await pay('POST', '/checkouts', posted)
    const own = {
      id: expect.stringMatching(/^chk_[a-z]{24}$/),
      status: 'open',
      createdAt: isoAfter(0),
    }
    expect([status, body]).toEqual([201, { ...posted, ...own }])
    expect((await pay('GET', `/checkouts/${body.id}`)).body).toEqual(body)
  })

  test.each([
    ['', 400],
    ['[1]', 400],
    ['{"a":', 400],
    [`{"a":${'['.repeat(5000)}${']'.repeat(5000)}}`, 400],
    [`{"text":"${'x'.repeat(3 * 1024 * 1024)}"}`, 413],
  ])(
    'refuses a body that is not a JSON object, or not a usable one: %.20s, %i',
    async (body, status) => {
      const { pay } = await stage()
      expect((await pay('POST', '/subscriptions', body)).status).toBe(status)
    },
  )

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

const wanted = { destination: '0xabc', deadline: '2026-05-19T13:00:00Z' }
const oneDayMs = 86_400_000
const refundPayment = 'signed POST /payments/$payment/refund'

const notFound = (what: string) => ({
  error: { type: 'not_found', message: `${what} not found` },
})

test.each<[what: string, ...steps: Step[]]>([
  [
    'what is not there is answered in the published form',
    ['GET /checkouts/none', none, 404, notFound('Checkout')],
    ['POST /checkouts/none/cancel', none, 404, notFound('Checkout')],
    [
      'PATCH /subscription-checkouts/none/cancel',
      none,
      404,
      notFound('Subscription checkout'),
    ],
    ['POST /subscriptions/none/charge-quote', none, 404, notFound('Subscription')],
    ['GET /subscriptions/none/charges', none, 404, notFound('Subscription')],
    ['GET /payments/none', none, 404, notFound('Payment')],
    ['GET /refunds/none', none, 404, notFound('Refund')],
  ],
  [
    'a checkout is paid by itself after two seconds, and then not cancelled',
    ['POST /checkouts', {}, 201, { status: 'open' }, 'paid'],
    1_999,
    ['GET /checkouts/$paid', none, 200, { status: 'open' }],
    1,
    ['GET /checkouts/$paid', none, 200, { status: 'completed' }],
    ['POST /checkouts/$paid/cancel', none, 409],
  ],
  [
    'a checkout is cancelled once, and then not paid',
    ['POST /checkouts', {}, 201, {}, 'cancelled'],
    ['POST /checkouts/$cancelled/cancel', none, 200, { status: 'cancelled' }],
    5_000,
    ['GET /checkouts/$cancelled', none, 200, { status: 'cancelled' }],
    ['POST /checkouts/$cancelled/cancel', none, 409],
    ['POST /sandbox/checkouts/$cancelled/complete', none, 409],
  ],
  [
    'a checkout in two steps expires after a day, or when it says',
    [
      'POST /checkouts',
      { payment_method: 'two_step' },
      201,
      { expires_at: isoAfter(oneDayMs) },
    ],
    [
      'POST /checkouts',
      { payment_mode: 'two_step' },
      201,
      { expires_at: isoAfter(oneDayMs) },
    ],
    [
      'POST /checkouts',
      { payment_mode: 'two_step', expires_at: 'soon' },
      201,
      { expires_at: 'soon' },
    ],
  ],
  [
    'a checkout is refunded only once it is completed',
    ['POST /checkouts', {}, 201, {}, 'paid'],
    ['POST /refunds', { checkoutId: '$paid' }, 422],
    ['POST /refunds', { checkoutId: 'unknown' }, 422],
    ['POST /refunds', {}, 400],
    ['POST /sandbox/checkouts/$paid/complete', none, 200, { status: 'completed' }],
    [
      'POST /refunds',
      { checkoutId: '$paid', amount: '1' },
      201,
      { status: 'succeeded' },
      'refund',
    ],
    ['GET /refunds/$refund', none, 200, { checkoutId: '$paid', amount: '1' }],
    ['GET /refunds', none, 200, { data: [{ id: '$refund' }] }],
  ],
  [
    'a payment is refunded once, by a signed request, and the refund is among the others',
    ['POST /payments', { amount: '9990000' }, 201, { status: 'succeeded' }, 'payment'],
    ['POST /payments/$payment/refund', wanted, 401, 'invalid_signature'],
    [refundPayment, '[', 400],
    [refundPayment, {}, 400],
    [refundPayment, { destination: '0xabc' }, 400],
    [refundPayment, { ...wanted, destination: '' }, 400],
    [
      refundPayment,
      { ...wanted, paymentId: 'another' },
      201,
      { ...wanted, paymentId: '$payment' },
      'refund',
    ],
    ['GET /refunds/$refund', none, 200, { status: 'succeeded' }],
    [
      'GET /payments',
      none,
      200,
      { data: [{ id: '$payment', amount: '9990000', status: 'refunded' }] },
    ],
    [refundPayment, wanted, 409],
    ['signed POST /payments/none/refund', wanted, 404],
  ],
  [
    'a payment in two steps is captured once, by a signed request',
    [
      'POST /payments',
      { payment_method: 'two_step' },
      201,
      { status: 'authorized' },
      'payment',
    ],
    ['POST /payments/$payment/capture', none, 401],
    [
      'signed POST /payments/$payment/capture',
      none,
      200,
      { id: '$payment', status: 'succeeded' },
    ],
    ['signed POST /payments/$payment/capture', none, 409, 'invalid_state'],
    [
      'POST /payments',
      { payment_method: 'direct' },
      201,
      { status: 'succeeded' },
      'direct',
    ],
    ['signed POST /payments/$direct/capture', none, 409],
  ],
  [
    'a subscription is active until it is cancelled',
    ['POST /subscriptions', { plan: 'gold' }, 201, { status: 'active' }, 'subscription'],
    [
      'POST /subscriptions/$subscription/cancel',
      none,
      200,
      { plan: 'gold', status: 'cancelled' },
    ],
    ['POST /subscriptions/$subscription/cancel', none, 409],
  ],
  [
    'a checkout of a subscription is cancelled by PATCH, and then not completed',
    ['POST /subscription-checkouts', {}, 201, { status: 'open' }, 'begun'],
    ['POST /subscription-checkouts/$begun/cancel', none, 404],
    [
      'PATCH /subscription-checkouts/$begun/cancel',
      none,
      200,
      { id: '$begun', status: 'cancelled' },
    ],
    5_000,
    ['GET /subscriptions', none, 200, { data: [{ status: 'cancelled' }] }],
    ['PATCH /subscription-checkouts/$begun/cancel', none, 409],
  ],
  [
    'a checkout of a subscription completes by itself, and then its subscription is active',
    [
      'POST /subscription-checkouts',
      { plan: 'gold' },
      201,
      { status: 'open', plan: 'gold' },
      'begun',
    ],
    ['GET /subscriptions', none, 200, { data: [{ plan: 'gold', status: 'incomplete' }] }],
    2_000,
    ['GET /subscriptions', none, 200, { data: [{ status: 'active' }] }],
    [
      'GET /subscription-checkouts',
      none,
      200,
      { data: [{ id: '$begun', status: 'completed' }] },
    ],
    ['GET /checkouts', none, 200, { data: [] }],
    ['PATCH /subscription-checkouts/$begun/cancel', none, 409],
  ],
  [
    'charges of merchants are those of their merchant',
    [
      'POST /merchants/m1/charges',
      { merchantId: 'm2' },
      201,
      { merchantId: 'm1' },
      'first',
    ],
    ['POST /merchants/m2/charges', {}, 201, {}, 'other'],
    ['POST /merchants/m1/charges', {}, 201, {}, 'last'],
    [
      'GET /merchants/m1/charges',
      none,
      200,
      { data: [{ id: '$last' }, { id: '$first' }] },
    ],
    ['GET /merchants/m1/charges?limit=1', none, 200, { data: [{ id: '$last' }] }],
    ['GET /merchants/m2/charges', none, 200, { data: [{ id: '$other' }] }],
  ],
  [
    'settings are those of the last PUT',
    ['PUT /settings', { currency: 'USD' }, 200, { currency: 'USD' }],
    ['GET /settings', none, 200, { currency: 'USD' }],
  ],
])('%s', (_what, ...steps) => tell(steps))

describe('a charge of a subscription', () => {
  const toSubscribe = (plan: object = {}): Step => [
    'POST /subscriptions',
    plan,
    201,
    {},
    'one',
  ]
  const subscribe = toSubscribe()
  const quote: Step = [
    'POST /subscriptions/$one/charge-quote',
    none,
    200,
    { amount: '9990000' },
  ]
  const charge = (
    charge_nonce: unknown,
    status: number,
    reason: object | string = {},
    amount = '9990000',
  ): Step => {
    return [
      'signed POST /subscriptions/$one/charge',
      { amount, charge_nonce },
      status,
      reason,
    ]
  }
  const ledger = (...charges: object[]): Step => {
    return ['GET /subscriptions/$one/charges', none, 200, { data: charges }]
  }
  const failed = (reason: string) => ({ status: 'failed', failure_reason: reason })
  const made = { status: 'succeeded', failure_reason: null }
  const inSeconds = isoAfter(30_000).replace('.000Z', 'Z')
  const bad = (body: unknown): Step => [
    'signed POST /subscriptions/$one/charge',
    body,
    400,
  ]

  test.each<[what: string, ...steps: Step[]]>([
    [
      'is quoted in the published form, signed, and in the ledger',
      subscribe,
      [
        'POST /subscriptions/$one/charge-quote',
        none,
        200,
        { amount: '9990000', expires_at: inSeconds },
      ],
      charge('1', 201),
      ledger({ ...made, amount: '9990000', charge_nonce: '1' }),
    ],
    [
      'is quoted with the amount of its subscription, if that is in the smallest unit',
      toSubscribe({ amount: '5000000' }),
      ['POST /subscriptions/$one/charge-quote', none, 200, { amount: '5000000' }],
      toSubscribe({ amount: '10.00' }),
      quote,
    ],
    [
      'is good until its quote expires, and refused from then on until there is another',
      subscribe,
      quote,
      29_999,
      charge('1', 201),
      1,
      charge('2', 422, 'quote_expired'),
      quote,
      charge('2', 201),
      ledger(made, failed('quote_expired'), made),
    ],
    [
      'is refused without a quote, of another amount, and without a signature',
      subscribe,
      charge('1', 422, 'amount_not_quoted'),
      quote,
      charge('1', 422, 'amount_not_quoted', '9990001'),
      [
        'POST /subscriptions/$one/charge',
        { amount: '9990000', charge_nonce: '1' },
        401,
        'invalid_signature',
      ],
    ],
    [
      'with a repeated nonce is refused, however it is written; nonces are those of one subscription',
      subscribe,
      quote,
      charge('7', 201),
      charge(7, 422, 'charge_nonce_used'),
      charge(8, 201),
      charge('8', 422, 'charge_nonce_used'),
      ledger(failed('charge_nonce_used'), made, failed('charge_nonce_used'), made),
      subscribe,
      quote,
      charge('7', 201),
      ledger(made),
    ],
    [
      'of which something is wrong is not in the ledger',
      subscribe,
      quote,
      bad({ amount: '1' }),
      bad({ amount: 1, charge_nonce: '1' }),
      bad(undefined),
      // A nonce that JSON numbers cannot hold.
      bad('{"amount":"9990000","charge_nonce":9007199254740993}'),
      ledger(),
    ],
    [
      'has no quote, body and signature where the plan is in tokens',
      toSubscribe({ token: '0xtoken' }),
      ['POST /subscriptions/$one/charge-quote', none, 409],
      charge('1', 400),
      ['POST /subscriptions/$one/charge', none, 201, made],
      ledger(made),
    ],
    [
      'is quoted and made only while the subscription is active',
      subscribe,
      quote,
      ['POST /subscriptions/$one/cancel', none, 200],
      ['POST /subscriptions/$one/charge-quote', none, 409],
      charge('1', 409),
    ],
  ])('%s', (_what, ...steps) => tell(steps))

  test('is made once, however many come at once', async () => {
    const { pay, paySigned } = await stage()
    const path = `/subscriptions/${(await pay('POST', '/subscriptions', {})).body.id}`
    const { amount } = (await pay('POST', `${path}/charge-quote`)).body
    const posted = Array.from({ length: 4 }, () =>
      paySigned(`${path}/charge`, { amount, charge_nonce: '7' }),
    )
    expect((await Promise.all(posted)).map(({ status }) => status).sort()).toEqual([
      201, 422, 422, 422,
    ])
  })
})
