import { describe, expect, test } from 'vitest'
import type { SandboxFaults } from '../../src/sandbox/sandbox.ts'
import { type Answer, isoAfter, none, type Step, stage, tell } from './support.ts'

const addresses = { fromAddress: '0xfrom', toAddress: '0xto' }
const fixed = { prices: { ETH_USDC: 2896.45 } }
const terms = { pairId: 'ETH_USDC', fromAmount: 0.1, toAmount: 289.645, ...addresses }
const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** What the provider says of an order that it does not take; the header is the sandbox's own. */
function expectRefused({ status, headers, body }: Answer, reason: RegExp): void {
  expect(status).toBe(400)
  expect(body).toEqual({
    code: 'BAD_REQUEST',
    status: 400,
    orderId: expect.stringMatching(uuid),
    details: 'Could not create order',
  })
  expect(headers.get('sandbox-reason')).toMatch(reason)
}

describe('a float order', () => {
  test.each([
    ['numbers', 0.1, 289.645],
    ['strings', '0.10', '289.645'],
    [
      'Amount objects',
      { assetId: 'ETH', value: '0.1' },
      { assetId: 'USDC', value: 289.645 },
    ],
    ['an Amount object with a number, and a string', { value: 0.1 }, '289.6450'],
    ['an amount alone', 0.1, null],
  ])(
    'finds a live quote by its terms written as %s',
    async (_spelling, fromAmount, toAmount) => {
      const { quote, order } = await stage(fixed)
      const { body: quoted } = await quote()
      const { status, body } = await order({
        ...terms,
        fromAmount,
        toAmount,
        fromAddressTag: '',
      })
      expect([status, body.status, body.rateId]).toEqual([201, 'awaiting', quoted.id])
      const values = [body.amount.value, body.toAmount.value]
      expect(values.map((value) => [typeof value, Number(value)])).toEqual([
        ['string', 0.1],
        ['string', 289.645],
      ])
    },
  )

  test('is answered with the documented fields, times in ISO and amounts as strings', async () => {
    const { quote, order, get } = await stage(fixed)
    const { body: quoted } = await quote()
    const { body } = await order({ ...terms, toAddressTag: '7' })
    expect(body).toEqual({
      id: expect.stringMatching(uuid),
      status: 'awaiting',
      pairId: 'ETH_USDC',
      amount: { assetId: 'ETH', value: '0.1' },
      toAmount: { assetId: 'USDC', value: '289.645' },
      ...addresses,
      toAddressTag: '7',
      payInAddress: expect.stringMatching(/^sandbox-/),
      payInAddressTag: expect.stringMatching(/^\d{6}$/),
      providerOrderId: expect.stringMatching(/^sandbox-/),
      rateId: quoted.id,
      message: 'The sandbox waits for the deposit.',
      createdAt: isoAfter(0),
      updatedAt: isoAfter(0),
      extraFeatures: {},
    })
    expect((await get(`/v3/orders/${body.id}`)).body).toEqual(body)
  })

  test('is refused if its terms match only an expired quote', async () => {
    const { clock, quote, order } = await stage({ ...fixed, quoteLifetimeMs: 50 })
    await quote()
    clock.ms += 49
    expect((await order(terms)).status).toBe(201)
    clock.ms += 1
    expectRefused(await order(terms), /^the quote expired at \d+$/)
    await quote()
    expect((await order(terms)).status).toBe(201)
  })

  test('is accepted if its terms match no quote', async () => {
    const { order } = await stage()
    const { status, body } = await order({ ...terms, toAmount: undefined })
    expect([status, body.toAmount.assetId, body.rateId]).toEqual([
      201,
      'USDC',
      expect.stringMatching(uuid),
    ])
  })

  test('is decided by the quote id that it names, which fills in the terms', async () => {
    const { clock, quote, order } = await stage()
    const { body: quoted } = await quote()
    const { status, body } = await order({ quoteId: quoted.id, ...addresses })
    expect(status).toBe(201)
    expect(body).toMatchObject({ amount: quoted.fromAmount, toAmount: quoted.toAmount })
    clock.ms += 30_000
    await quote()
    expectRefused(await order({ quote: { id: quoted.id }, ...addresses }), /expired/)
  })
})

describe('orders of both kinds', () => {
  test.each([
    ['malformed JSON', '{"pairId":', /JSON object/],
    ['an array', '[]', /JSON object/],
    ['nothing', '', /JSON object/],
    ['no pair', { fromAmount: 1, ...addresses }, /^pairId: /],
    [
      'a pair that is not there',
      { pairId: 'A_B', fromAmount: 1, ...addresses },
      /the pair is unknown/,
    ],
    ['no amount', { pairId: 'ETH_USDC', ...addresses }, /^fromAmount: /],
    ['no receiver', { pairId: 'ETH_USDC', fromAmount: 1 }, /^toAddress: /],
    [
      'an amount that is not a number',
      { pairId: 'ETH_USDC', fromAmount: 'ten', ...addresses },
      /fromAmount/,
    ],
    [
      'a negative amount',
      { pairId: 'ETH_USDC', fromAmount: -1, ...addresses },
      /fromAmount/,
    ],
    [
      'an amount that buys nothing',
      { pairId: 'USDC_BTC', fromAmount: 1e-7, ...addresses },
      /smallest part/,
    ],
  ])('are refused with %s', async (_what, body, reason) => {
    const { order, get } = await stage()
    for (const path of ['/v3/orders', '/v3/orders/float'])
      expectRefused(await order(body, path), reason)
    expect((await get('/v3/orders')).body).toEqual([])
  })

  test('go to their own path: a fixed order that names a quote is refused', async () => {
    const { quote, order } = await stage(fixed)
    const { body: quoted } = await quote()
    expect((await order(terms, '/v3/orders')).status).toBe(201)
    expectRefused(
      await order({ ...terms, quoteId: quoted.id }, '/v3/orders'),
      /goes to \/v3\/orders\/float/,
    )
  })

  test('are listed, the newest first, by addresses and assets', async () => {
    const { order, get } = await stage()
    const place = async (pairId: string, toAddress: string, fromAddress: string) =>
      (await order({ pairId, fromAmount: 1, toAddress, fromAddress })).body.id
    const first = await place('ETH_USDC', '0xa', '0x1')
    const second = await place('ETH_BTC', '0xa', '0x2')
    const third = await place('ETH_USDC', '0xb', '0x2')
    const last = await place('BTC_USDC', '0xa', '0x1')
    const listed = async (query: string) =>
      (await get(`/v3/orders${query}`)).body.map(({ id }: { id: string }) => id)
    expect(await listed('?toAddress=0xa&toAsset=USDC')).toEqual([last, first])
    expect(await listed('?fromAddress=0x2')).toEqual([third, second])
    expect(await listed('?fromAsset=ETH&toAsset=USDC')).toEqual([third, first])
    expect(await listed('?fromAddress=0x1&toAddress=0xb')).toEqual([])
    expect(await listed('')).toEqual([last, third, second, first])
  })
})

describe('an order', () => {
  const fixedOrder = { ...terms, toAmount: none }
  const place = (name: string): Step => [
    'POST /v3/orders',
    fixedOrder,
    201,
    { status: 'awaiting' },
    name,
  ]
  const faults = (next: Partial<SandboxFaults>): Step => [
    'PUT /sandbox/faults',
    next,
    200,
  ]
  /** Of `$order`, and since when. */
  const state = (status: string, afterMs: number, more = {}): Step => {
    return [
      'GET /v3/orders/$order',
      none,
      200,
      { status, updatedAt: isoAfter(afterMs), ...more },
    ]
  }
  const note = (
    body: unknown,
    status: number,
    answer: object | string,
    of = 'order',
  ): Step => {
    return [`PATCH /v3/orders/$${of}`, body, status, answer]
  }
  const known = 'PRECONDITION_FAILED'
  const notThere = { code: 'NOT_FOUND', message: 'Order not found' }

  test.each<[what: string, ...steps: Step[]]>([
    [
      'is awaiting, then inProgress, then complete, five seconds each, whatever the clock offset does',
      place('order'),
      faults({ clockOffsetMs: -60_000 }),
      4_999,
      state('awaiting', 0),
      1,
      state('inProgress', 5_000),
      4_999,
      state('inProgress', 5_000),
      1,
      state('complete', 10_000),
      3_600_000,
      state('complete', 10_000),
    ],
    [
      'is in progress as soon as its transaction is noted, under either name',
      place('order'),
      place('other'),
      1_000,
      note({ fromTransactionId: '0xabc' }, 200, {
        status: 'inProgress',
        fromTransactionId: '0xabc',
      }),
      note({ transactionId: '0xdef' }, 200, { fromTransactionId: '0xdef' }, 'other'),
      state('inProgress', 1_000),
      5_000,
      state('complete', 6_000),
    ],
    [
      'ends as it was to end when it was placed',
      faults({ orderOutcome: 'failed' }),
      place('order'),
      faults({ orderOutcome: 'complete' }),
      9_999,
      state('inProgress', 5_000),
      1,
      state('failed', 10_000),
      faults({ orderOutcome: 'refunded' }),
      place('order'),
      10_000,
      state('refunded', 20_000),
    ],
    [
      'expires without a deposit, and is complete if one is noted in time',
      faults({ orderOutcome: 'expired' }),
      place('other'),
      place('order'),
      9_999,
      state('awaiting', 0),
      note({ transactionId: '0xabc' }, 200, { status: 'inProgress' }, 'other'),
      1,
      state('expired', 10_000),
      note({ transactionId: '0xlate' }, 200, { status: 'expired' }),
      5_000,
      ['GET /v3/orders/$other', none, 200, { status: 'complete' }],
    ],
    [
      'notes one transaction, once for all orders',
      place('order'),
      place('other'),
      note({ transactionId: '0x1' }, 200, {}),
      note({ transactionId: '0x1' }, 412, known),
      note({ fromTransactionId: '0x2' }, 412, known),
      note({ transactionId: '0x1' }, 412, known, 'other'),
      state('inProgress', 0, { fromTransactionId: '0x1' }),
      note({ fromTransactionId: '0x2' }, 200, {}, 'other'),
    ],
    [
      'notes only what is a transaction',
      place('order'),
      ...[{}, { transactionId: '' }, { transactionId: 1 }, [], '{'].map((body) =>
        note(body, 400, {}),
      ),
    ],
    [
      'that does not exist is a 404',
      ['GET /v3/orders/none', none, 404, notThere],
      ['PATCH /v3/orders/none', { transactionId: '0x1' }, 404, notThere],
    ],
  ])('%s', (_what, ...steps) => tell(steps))

  test('has a message in each state, and a transaction once it is complete', async () => {
    const { clock, get, order } = await stage()
    const { body } = await order({ ...terms, toAmount: none }, '/v3/orders')
    expect([body.message, body.toTransactionId]).toEqual([
      'The sandbox waits for the deposit.',
      none,
    ])
    clock.ms += 10_000
    const { message, toTransactionId } = (await get(`/v3/orders/${body.id}`)).body
    expect([message, toTransactionId]).toEqual([
      'The sandbox has paid out.',
      expect.stringMatching(/^sandbox-/),
    ])
  })
})
