import { describe, expect, test } from 'vitest'
import type { SandboxFaults } from '../../src/sandbox/sandbox.ts'
import { type Answer, isoAfter, stage } from './support.ts'

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
    ['Amount objects', { assetId: 'ETH', value: '0.1' }, { assetId: 'USDC', value: 289.645 }],
    ['an Amount object with a number, and a string', { value: 0.1 }, '289.6450'],
    ['an amount alone', 0.1, null],
  ])('finds a live quote by its terms written as %s', async (_spelling, fromAmount, toAmount) => {
    const { quote, order } = await stage(fixed)
    const { body: quoted } = await quote()
    const { status, body } = await order({ ...terms, fromAmount, toAmount, fromAddressTag: '' })
    expect([status, body.status, body.rateId]).toEqual([201, 'awaiting', quoted.id])
    const values = [body.amount.value, body.toAmount.value]
    expect(values.map((value) => [typeof value, Number(value)])).toEqual([
      ['string', 0.1],
      ['string', 289.645],
    ])
  })

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
    expect([status, body.toAmount.assetId, body.rateId]).toEqual([201, 'USDC', expect.stringMatching(uuid)])
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
    ['a pair that is not there', { pairId: 'A_B', fromAmount: 1, ...addresses }, /the pair is unknown/],
    ['no amount', { pairId: 'ETH_USDC', ...addresses }, /^fromAmount: /],
    ['no receiver', { pairId: 'ETH_USDC', fromAmount: 1 }, /^toAddress: /],
    ['an amount that is not a number', { pairId: 'ETH_USDC', fromAmount: 'ten', ...addresses }, /fromAmount/],
    ['a negative amount', { pairId: 'ETH_USDC', fromAmount: -1, ...addresses }, /fromAmount/],
    ['an amount that buys nothing', { pairId: 'USDC_BTC', fromAmount: 1e-7, ...addresses }, /smallest part/],
  ])('are refused with %s', async (_what, body, reason) => {
    const { order, get } = await stage()
    for (const path of ['/v3/orders', '/v3/orders/float']) expectRefused(await order(body, path), reason)
    expect((await get('/v3/orders')).body).toEqual([])
  })

  test('go to their own path: a fixed order that names a quote is refused', async () => {
    const { quote, order } = await stage(fixed)
    const { body: quoted } = await quote()
    expect((await order(terms, '/v3/orders')).status).toBe(201)
    expectRefused(await order({ ...terms, quoteId: quoted.id }, '/v3/orders'), /goes to \/v3\/orders\/float/)
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

async function placed(faults: Partial<SandboxFaults> = {}) {
  const { ask, clock, get, order, sandbox } = await stage({ faults })
  const place = async () => (await order({ ...terms, toAmount: undefined }, '/v3/orders')).body.id as string
  const id = await place()
  const state = async () => (await get(`/v3/orders/${id}`)).body
  const note = (body: unknown, ofOrder = id) => ask('PATCH', `/v3/orders/${ofOrder}`, {}, body)
  return { clock, get, note, place, sandbox, state }
}

describe('an order', () => {
  test('is awaiting, then inProgress, then complete, five seconds each, whatever the clock offset does', async () => {
    const { clock, sandbox, state } = await placed()
    sandbox.faults({ clockOffsetMs: -60_000 })
    const seen: string[] = []
    for (const stepMs of [0, 4_999, 1, 4_999, 1, 3_600_000]) {
      clock.ms += stepMs
      const { status, updatedAt } = await state()
      seen.push(`${status} ${updatedAt}`)
    }
    expect(seen).toEqual([
      `awaiting ${isoAfter(0)}`,
      `awaiting ${isoAfter(0)}`,
      `inProgress ${isoAfter(5_000)}`,
      `inProgress ${isoAfter(5_000)}`,
      `complete ${isoAfter(10_000)}`,
      `complete ${isoAfter(10_000)}`,
    ])
    expect(await state()).toMatchObject({ toTransactionId: expect.stringMatching(/^sandbox-/) })
  })

  test('is in progress as soon as its transaction is noted', async () => {
    const { clock, state, note } = await placed()
    clock.ms += 1_000
    const { status, body } = await note({ fromTransactionId: '0xabc' })
    expect(status).toBe(200)
    const noted = { status: 'inProgress', fromTransactionId: '0xabc', updatedAt: isoAfter(1_000) }
    expect(body).toMatchObject(noted)
    clock.ms += 5_000
    expect(await state()).toMatchObject({ status: 'complete', updatedAt: isoAfter(6_000) })
  })

  test.each(['failed', 'refunded'] as const)('ends as %s if it was placed so', async (orderOutcome) => {
    const { clock, sandbox, state } = await placed({ orderOutcome })
    sandbox.faults({ orderOutcome: 'complete' })
    clock.ms += 9_999
    expect((await state()).status).toBe('inProgress')
    clock.ms += 1
    const { status, message, toTransactionId } = await state()
    expect([status, toTransactionId]).toEqual([orderOutcome, undefined])
    expect(message).toContain('sandbox')
  })

  test('expires without a deposit, and is complete if one is noted in time', async () => {
    const { clock, state, note, place, get } = await placed({ orderOutcome: 'expired' })
    const other = await place()
    clock.ms += 9_999
    expect((await state()).status).toBe('awaiting')
    expect((await note({ transactionId: '0xabc' }, other)).body.status).toBe('inProgress')
    clock.ms += 1
    expect(await state()).toMatchObject({ status: 'expired', updatedAt: isoAfter(10_000) })
    expect((await note({ transactionId: '0xlate' })).body).toMatchObject({ status: 'expired' })
    clock.ms += 5_000
    expect((await get(`/v3/orders/${other}`)).body.status).toBe('complete')
  })

  test('notes a transaction under either name, once for all orders; another is a 412', async () => {
    const { state, note, place } = await placed()
    expect((await note({ transactionId: '0x1' })).body.fromTransactionId).toBe('0x1')
    const other = await place()
    for (const { status, body } of [
      await note({ transactionId: '0x1' }),
      await note({ fromTransactionId: '0x2' }),
      await note({ transactionId: '0x1' }, other),
    ])
      expect([status, body.code]).toEqual([412, 'PRECONDITION_FAILED'])
    expect((await state()).fromTransactionId).toBe('0x1')
    expect((await note({ fromTransactionId: '0x2' }, other)).status).toBe(200)
  })

  test.each([{}, { transactionId: '' }, { transactionId: 1 }, [], '{'])('notes no %j', async (body) => {
    const { note } = await placed()
    expect((await note(body)).status).toBe(400)
  })

  test('that does not exist is a 404', async () => {
    const { get, note } = await placed()
    for (const { status, body } of [
      await get('/v3/orders/none'),
      await note({ transactionId: '0x1' }, 'none'),
    ])
      expect([status, body]).toEqual([404, { code: 'NOT_FOUND', message: 'Order not found' }])
  })
})
