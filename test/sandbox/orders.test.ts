import { describe, expect, test } from 'vitest'
import type { Sandbox } from '../../src/sandbox/sandbox.ts'
import { ask, askForQuote, ManualClock, startedSandbox } from './support.ts'

const addresses = { fromAddress: '0xfrom', toAddress: '0xto' }

const order = (sandbox: Sandbox, body: unknown) => ask(sandbox, 'POST', '/v3/orders/float', { body })

describe('float orders', () => {
  test.each([
    ['numbers', 0.1, 289.645],
    ['strings', '0.10', '289.645'],
    ['Amount objects', { assetId: 'ETH', value: '0.1' }, { assetId: 'USDC', value: '289.645' }],
  ])('finds a live quote by its terms written as %s', async (_spelling, fromAmount, toAmount) => {
    const sandbox = await startedSandbox({ prices: { ETH_USDC: 2896.45 } })
    const quote = await askForQuote(sandbox)
    const { status, body } = await order(sandbox, { pairId: 'ETH_USDC', fromAmount, toAmount, ...addresses })
    expect(status).toBe(201)
    expect(body).toMatchObject({
      ...addresses,
      status: 'waiting',
      quoteId: quote.body.id,
      pairId: 'ETH_USDC',
    })
  })

  test('refuses terms that match only an expired quote', async () => {
    const clock = new ManualClock()
    const sandbox = await startedSandbox({ clock, prices: { ETH_USDC: 2896.45 }, quoteLifetimeMs: 50 })
    await askForQuote(sandbox)
    const terms = { pairId: 'ETH_USDC', fromAmount: 0.1, toAmount: 289.645, ...addresses }
    clock.advance(49)
    expect((await order(sandbox, terms)).status).toBe(201)
    clock.advance(1)
    const { status, body } = await order(sandbox, terms)
    expect(status).toBe(422)
    expect(body.code).toBe('QUOTE_EXPIRED')
    await askForQuote(sandbox)
    expect((await order(sandbox, terms)).status).toBe(201)
  })

  test('lets a known quote id decide, and fill in the terms', async () => {
    const clock = new ManualClock()
    const sandbox = await startedSandbox({ clock })
    const { body: quote } = await askForQuote(sandbox)
    const accepted = await order(sandbox, { quoteId: quote.id, ...addresses })
    expect(accepted.status).toBe(201)
    expect(accepted.body).toMatchObject({ fromAmount: quote.fromAmount, toAmount: quote.toAmount })
    clock.advance(30_000)
    await askForQuote(sandbox)
    expect((await order(sandbox, { quote: { id: quote.id }, ...addresses })).status).toBe(422)
  })

  test('takes null and empty text for what an order does not say', async () => {
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
    expect(body.quoteId).toBe(quote.id)
  })

  test('accepts terms that no quote has', async () => {
    const sandbox = await startedSandbox()
    const { status, body } = await order(sandbox, { pairId: 'ETH_USDC', fromAmount: 7, ...addresses })
    expect(status).toBe(201)
    expect(body.quoteId).toBeUndefined()
    expect(body.toAmount.assetId).toBe('USDC')
  })

  test.each([
    ['malformed JSON', '{"pairId":'],
    ['an array', '[]'],
    ['nothing', ''],
    ['no pair', { fromAmount: 1, ...addresses }],
    ['no amount', { pairId: 'ETH_USDC', ...addresses }],
    ['no receiver', { pairId: 'ETH_USDC', fromAmount: 1 }],
    ['an amount that is no number', { pairId: 'ETH_USDC', fromAmount: 'ten', ...addresses }],
    ['a negative amount', { pairId: 'ETH_USDC', fromAmount: -1, ...addresses }],
  ])('refuses a body with %s', async (_what, body) => {
    const sandbox = await startedSandbox()
    expect((await order(sandbox, body)).status).toBe(400)
  })
})

describe('orders', () => {
  test('refuses a fixed order that names a quote', async () => {
    const sandbox = await startedSandbox()
    const { body: quote } = await askForQuote(sandbox)
    const terms = { pairId: 'ETH_USDC', fromAmount: 0.1, ...addresses }
    expect((await ask(sandbox, 'POST', '/v3/orders', { body: terms })).status).toBe(201)
    const { status, body } = await ask(sandbox, 'POST', '/v3/orders', {
      body: { ...terms, quoteId: quote.id },
    })
    expect(status).toBe(422)
    expect(body.code).toBe('FLOAT_ORDER_REQUIRED')
  })

  test('advances from waiting to finished, whatever the clock offset does', async () => {
    const clock = new ManualClock()
    const sandbox = await startedSandbox({ clock })
    const { body } = await order(sandbox, { pairId: 'ETH_USDC', fromAmount: 1, ...addresses })
    sandbox.faults({ clockOffsetMs: -60_000 })
    const seen: string[] = []
    for (let step = 0; step < 6; step += 1) {
      seen.push((await ask(sandbox, 'GET', `/v3/orders/${body.id}`)).body.status)
      clock.advance(2000)
    }
    expect(seen).toEqual(['waiting', 'confirming', 'exchanging', 'finished', 'finished', 'finished'])
  })

  test('lists the newest first, by receiver and asset', async () => {
    const sandbox = await startedSandbox()
    const place = async (pairId: string, toAddress: string) =>
      (await order(sandbox, { pairId, fromAmount: 1, toAddress })).body.id
    const first = await place('ETH_USDC', '0xa')
    await place('ETH_BTC', '0xa')
    await place('ETH_USDC', '0xb')
    const last = await place('BTC_USDC', '0xa')
    const { body } = await ask(sandbox, 'GET', '/v3/orders?toAddress=0xa&toAsset=USDC')
    expect(body.map(({ id }: { id: string }) => id)).toEqual([last, first])
  })

  test('notes a transaction under either name', async () => {
    const sandbox = await startedSandbox()
    const { body } = await order(sandbox, { pairId: 'ETH_USDC', fromAmount: 1, ...addresses })
    const note = (sent: unknown) => ask(sandbox, 'PATCH', `/v3/orders/${body.id}`, { body: sent })
    expect((await note({ fromTransactionId: '0x1' })).body.transactionId).toBe('0x1')
    expect((await note({ transactionId: '0x2' })).body.transactionId).toBe('0x2')
    expect((await note({})).status).toBe(400)
  })

  test('says 404 of an order and of a pair that do not exist', async () => {
    const sandbox = await startedSandbox()
    expect((await ask(sandbox, 'GET', '/v3/orders/none')).body.code).toBe('ORDER_NOT_FOUND')
    const { status, body } = await order(sandbox, { pairId: 'A_B', fromAmount: 1, ...addresses })
    expect(status).toBe(404)
    expect(body.code).toBe('PAIR_NOT_FOUND')
  })
})
