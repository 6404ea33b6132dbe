import { describe, expect, test } from 'vitest'
import { ask, askForQuote, ManualClock, startedSandbox, startMs } from './support.ts'

describe('quotes', () => {
  test('answers with exactly the documented fields', async () => {
    const sandbox = await startedSandbox({ clock: new ManualClock(), prices: { ETH_USDC: 2896.45 } })
    const { status, headers, body } = await askForQuote(sandbox)
    expect(status).toBe(200)
    expect(headers.get('sandbox')).toBe('quotegate')
    expect(body).toEqual({
      fromAmount: { assetId: 'ETH', value: '0.1' },
      id: expect.stringMatching(/^[0-9a-f]{64}$/),
      pairId: 'ETH_USDC',
      toAmount: { assetId: 'USDC', value: '289.645' },
      expiry: startMs + 30_000,
    })
  })

  test.each([
    ['0.10', '0.10', '289.645'],
    ['1e-1', '0.1', '289.645'],
    ['1e3', '1000', '2896450'],
    ['.5', '0.5', '1448.225'],
    ['0.000000001', '0.000000001', '0.000002'],
    ['123456789.123456789', '123456789.123456789', '357586416856.636416'],
  ])('writes the amount %s as %s and computes without floats', async (amount, from, to) => {
    const sandbox = await startedSandbox({ prices: { ETH_USDC: 2896.45 } })
    const { body } = await askForQuote(sandbox, `/v3/pairs/ETH_USDC/quotes?amount=${amount}`)
    expect(body.fromAmount.value).toBe(from)
    expect(body.toAmount.value).toBe(to)
  })

  test.each([
    '',
    'amount=',
    'amount=0',
    'amount=-1',
    'amount=abc',
    'amount=1&amount=1',
    'amount[]=1',
    'amount=1e999',
  ])('refuses the query "%s"', async (query) => {
    const sandbox = await startedSandbox()
    const { status, body } = await askForQuote(sandbox, `/v3/pairs/ETH_USDC/quotes?${query}`)
    expect(status).toBe(400)
    expect(body).toEqual({ code: 'INVALID_AMOUNT', message: expect.any(String) })
  })

  test('refuses an amount that buys less than the smallest part', async () => {
    const sandbox = await startedSandbox()
    const { status, body } = await askForQuote(sandbox, '/v3/pairs/ETH_USDC/quotes?amount=1e-12')
    expect(status).toBe(400)
    expect(body.code).toBe('AMOUNT_TOO_SMALL')
  })

  test('refuses a quote without App-Name', async () => {
    const sandbox = await startedSandbox()
    const { status, body } = await ask(sandbox, 'GET', '/v3/pairs/ETH_USDC/quotes?amount=1')
    expect(status).toBe(400)
    expect(body.code).toBe('MISSING_APP_NAME')
  })

  test('says 404 of a pair that it does not have', async () => {
    const sandbox = await startedSandbox()
    const { status, body } = await askForQuote(sandbox, '/v3/pairs/ETH_XYZ/quotes?amount=1')
    expect(status).toBe(404)
    expect(body.code).toBe('PAIR_NOT_FOUND')
  })

  test('moves a price a little over time, and not at all where it is fixed', async () => {
    const clock = new ManualClock()
    const sandbox = await startedSandbox({ clock, prices: { BTC_USDC: 90_000 } })
    const priceNow = async (pair: string) =>
      Number((await askForQuote(sandbox, `/v3/pairs/${pair}/quotes?amount=1`)).body.toAmount.value)
    const [before, fixedBefore] = [await priceNow('ETH_USDC'), await priceNow('BTC_USDC')]
    clock.advance(30_000)
    const [after, fixedAfter] = [await priceNow('ETH_USDC'), await priceNow('BTC_USDC')]
    expect(after).not.toBe(before)
    expect(Math.abs(after / before - 1)).toBeLessThan(0.005)
    expect([fixedBefore, fixedAfter]).toEqual([90_000, 90_000])
  })

  test('adds a pair that only the given prices name', async () => {
    const sandbox = await startedSandbox({ prices: { FOO_BAR: 2 } })
    const { body } = await askForQuote(sandbox, '/v3/pairs/FOO_BAR/quotes?amount=1.5')
    expect(body.toAmount).toEqual({ assetId: 'BAR', value: '3' })
  })

  test.each([{ ETH_USDC: 0 }, { ETH_USDC: Number.NaN }, { nonsense: 1 }])(
    'does not start with %j',
    async (prices) => {
      await expect(startedSandbox({ prices })).rejects.toThrow(/prices: /)
    },
  )
})

describe('pairs, assets and rates', () => {
  test('lists the common pairs', async () => {
    const sandbox = await startedSandbox()
    const { body } = await ask(sandbox, 'GET', '/v3/pairs')
    const ids = body.map(({ id }: { id: string }) => id)
    expect(ids).toEqual(expect.arrayContaining(['ETH_USDC', 'BTC_USDC', 'ETH_BTC', 'USDC_ETH', 'SOL_USDC']))
    expect((await ask(sandbox, 'GET', '/v3/pairs/LTC_BTC')).body).toEqual({
      id: 'LTC_BTC',
      from: 'LTC',
      to: 'BTC',
    })
    expect((await ask(sandbox, 'GET', '/v3/assets')).body).toContainEqual({
      id: 'USDC',
      symbol: 'USDC',
      name: 'USD Coin',
      network: 'ethereum',
      decimals: 6,
    })
  })

  test('gives several rates with bounds, a fee and an expiry, amounts as numbers', async () => {
    const sandbox = await startedSandbox({ clock: new ManualClock(), prices: { ETH_USDC: 2896.45 } })
    const { body } = await ask(sandbox, 'GET', '/v3/pairs/ETH_USDC/rates')
    expect(body.length).toBeGreaterThan(1)
    expect(body[0]).toEqual({
      pairId: 'ETH_USDC',
      amount: { assetId: 'USDC', value: 2896.45 },
      min: { assetId: 'ETH', value: 0.001 },
      max: { assetId: 'ETH', value: 1 },
      minerFee: { assetId: 'USDC', value: 0.0001 },
      expiry: startMs + 30_000,
    })
  })
})
