import { describe, expect, test } from 'vitest'
import type { Sandbox } from '../../src/sandbox/sandbox.ts'
import { type Answer, ask, askForQuote, ManualClock, startedSandbox, startMs } from './support.ts'

const addresses = { fromAddress: '0xfrom', toAddress: '0xto' }
const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

const order = (sandbox: Sandbox, body: unknown) => ask(sandbox, 'POST', '/v3/orders/float', { body })

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

describe('float orders', () => {
  test.each([
    ['numbers', 0.1, 289.645],
    ['strings', '0.10', '289.645'],
    ['Amount objects', { assetId: 'ETH', value: '0.1' }, { assetId: 'USDC', value: '289.645' }],
    ['Amount objects with numbers', { assetId: 'ETH', value: 0.1 }, { assetId: 'USDC', value: 289.645 }],
    ['a number and a string', 0.1, '289.645'],
    ['an Amount object with a number, and a string', { value: 0.1 }, '289.6450'],
  ])('finds a live quote by its terms written as %s', async (_spelling, fromAmount, toAmount) => {
    const sandbox = await startedSandbox({ prices: { ETH_USDC: 2896.45 } })
    const quote = await askForQuote(sandbox)
    const { status, body } = await order(sandbox, { pairId: 'ETH_USDC', fromAmount, toAmount, ...addresses })
    expect(status).toBe(201)
    expect(body).toMatchObject({
      ...addresses,
      status: 'awaiting',
      rateId: quote.body.id,
      pairId: 'ETH_USDC',
    })
    const values = [body.amount.value, body.toAmount.value]
    expect(values.map((value) => [typeof value, Number(value)])).toEqual([
      ['string', 0.1],
      ['string', 289.645],
    ])
  })

  test('answers with the documented fields, times in ISO and amounts as strings', async () => {
    const sandbox = await startedSandbox({ clock: new ManualClock(), prices: { ETH_USDC: 2896.45 } })
    const { body: quote } = await askForQuote(sandbox)
    const terms = { pairId: 'ETH_USDC', fromAmount: 0.1, toAmount: 289.645, ...addresses, toAddressTag: '7' }
    const { body } = await order(sandbox, terms)
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
      rateId: quote.id,
      message: 'The sandbox waits for the deposit.',
      createdAt: new Date(startMs).toISOString(),
      updatedAt: new Date(startMs).toISOString(),
      extraFeatures: {},
    })
    expect((await ask(sandbox, 'GET', `/v3/orders/${body.id}`)).body).toEqual(body)
  })

  test('refuses terms that match only an expired quote', async () => {
    const clock = new ManualClock()
    const sandbox = await startedSandbox({ clock, prices: { ETH_USDC: 2896.45 }, quoteLifetimeMs: 50 })
    await askForQuote(sandbox)
    const terms = { pairId: 'ETH_USDC', fromAmount: 0.1, toAmount: 289.645, ...addresses }
    clock.advance(49)
    expect((await order(sandbox, terms)).status).toBe(201)
    clock.advance(1)
    expectRefused(await order(sandbox, terms), /^the quote expired at \d+$/)
    await askForQuote(sandbox)
    expect((await order(sandbox, terms)).status).toBe(201)
  })

  test('lets a known quote id decide, and fill in the terms', async () => {
    const clock = new ManualClock()
    const sandbox = await startedSandbox({ clock })
    const { body: quote } = await askForQuote(sandbox)
    const accepted = await order(sandbox, { quoteId: quote.id, ...addresses })
    expect(accepted.status).toBe(201)
    expect(accepted.body).toMatchObject({ amount: quote.fromAmount, toAmount: quote.toAmount })
    clock.advance(30_000)
    await askForQuote(sandbox)
    expectRefused(await order(sandbox, { quote: { id: quote.id }, ...addresses }), /expired/)
  })

  test('reads null and empty text as absent', async () => {
    const sandbox = await startedSandbox()
    const { body: quote } = await askForQuote(sandbox)
    const unsaid = { toAmount: null, toAddressTag: null, fromAddressTag: '' }
    const { status, body } = await order(sandbox, {
      pairId: 'ETH_USDC',
      fromAmount: 0.1,
      ...addresses,
      ...unsaid,
    })
    expect(status).toBe(201)
    expect(body.rateId).toBe(quote.id)
  })

  test('accepts terms that match no quote', async () => {
    const sandbox = await startedSandbox()
    const { status, body } = await order(sandbox, { pairId: 'ETH_USDC', fromAmount: 7, ...addresses })
    expect(status).toBe(201)
    expect(body.rateId).toMatch(uuid)
    expect(body.toAmount.assetId).toBe('USDC')
  })

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
  ])('refuses a body with %s', async (_what, body, reason) => {
    const sandbox = await startedSandbox()
    for (const path of ['/v3/orders', '/v3/orders/float']) {
      expectRefused(await ask(sandbox, 'POST', path, { body }), reason)
    }
    expect((await ask(sandbox, 'GET', '/v3/orders')).body).toEqual([])
  })
})

describe('orders', () => {
  test('refuses a fixed order that names a quote', async () => {
    const sandbox = await startedSandbox()
    const { body: quote } = await askForQuote(sandbox)
    const terms = { pairId: 'ETH_USDC', fromAmount: 0.1, ...addresses }
    expect((await ask(sandbox, 'POST', '/v3/orders', { body: terms })).status).toBe(201)
    const body = { ...terms, quoteId: quote.id }
    expectRefused(await ask(sandbox, 'POST', '/v3/orders', { body }), /goes to \/v3\/orders\/float/)
  })

  test('lists the newest first, by addresses and assets', async () => {
    const sandbox = await startedSandbox()
    const place = async (pairId: string, toAddress: string, fromAddress: string) =>
      (await order(sandbox, { pairId, fromAmount: 1, toAddress, fromAddress })).body.id
    const first = await place('ETH_USDC', '0xa', '0x1')
    const second = await place('ETH_BTC', '0xa', '0x2')
    const third = await place('ETH_USDC', '0xb', '0x2')
    const last = await place('BTC_USDC', '0xa', '0x1')
    const listed = async (query: string) =>
      (await ask(sandbox, 'GET', `/v3/orders${query}`)).body.map(({ id }: { id: string }) => id)
    expect(await listed('?toAddress=0xa&toAsset=USDC')).toEqual([last, first])
    expect(await listed('?fromAddress=0x2')).toEqual([third, second])
    expect(await listed('?fromAsset=ETH&toAsset=USDC')).toEqual([third, first])
    expect(await listed('?fromAddress=0x1&fromAsset=BTC&toAddress=0xa')).toEqual([last])
    expect(await listed('?fromAddress=0x1&toAddress=0xb')).toEqual([])
    expect(await listed('')).toEqual([last, third, second, first])
  })

  test('says 404 of an order and of a pair that do not exist', async () => {
    const sandbox = await startedSandbox()
    for (const [method, body] of [['GET'], ['PATCH', { transactionId: '0x1' }]] as const) {
      const missing = await ask(sandbox, method, '/v3/orders/none', { body })
      expect([missing.status, missing.body]).toEqual([404, { code: 'NOT_FOUND', message: 'Order not found' }])
    }
    const { status, body } = await ask(sandbox, 'GET', '/v3/pairs/A_B')
    expect(status).toBe(404)
    expect(body.code).toBe('PAIR_NOT_FOUND')
  })
})
