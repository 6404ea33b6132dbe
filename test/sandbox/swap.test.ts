import { describe, expect, test } from 'vitest'
import { forwardedFor } from '../../src/sandbox/geolocation.ts'
import { stage, startMs } from './support.ts'

const restricted = { Forwarded: 'for=203.0.113.7', 'App-Name': 'tests' }
const fixed = { prices: { ETH_USDC: 2896.45 } }

describe('a quote', () => {
  test.each([
    ['0.10', '0.10', '289.645'],
    ['1e-1', '0.1', '289.645'],
    ['.5', '0.5', '1448.225'],
    ['0.000000001', '0.000000001', '0.000002'],
    ['123456789.123456789', '123456789.123456789', '357586416856.636416'],
  ])(
    'for the amount %s has it as %s and is computed without floats',
    async (amount, from, to) => {
      const { quote } = await stage(fixed)
      const { body } = await quote(`amount=${amount}`)
      expect([body.fromAmount.value, body.toAmount.value]).toEqual([from, to])
    },
  )

  test('has a price that moves a little over time, and not at all where it is fixed', async () => {
    const { clock, quote } = await stage({ prices: { BTC_USDC: 90_000, FOO_BAR: 2 } })
    const priceNow = async (pair: string) =>
      Number((await quote('amount=1', pair)).body.toAmount.value)
    const before = await priceNow('ETH_USDC')
    expect([await priceNow('BTC_USDC'), await priceNow('FOO_BAR')]).toEqual([90_000, 2])
    clock.ms += 30_000
    const after = await priceNow('ETH_USDC')
    expect(after).not.toBe(before)
    expect(Math.abs(after / before - 1)).toBeLessThan(0.005)
    expect(await priceNow('BTC_USDC')).toBe(90_000)
  })
})

test('a quote has its amounts as numbers while quoteAmounts says so', async () => {
  const { quote, setFaults } = await stage(fixed)
  await setFaults({ quoteAmounts: 'numbers' })
  const { body } = await quote('amount=0.10')
  expect([body.fromAmount, body.toAmount]).toEqual([
    { assetId: 'ETH', value: 0.1 },
    { assetId: 'USDC', value: 289.645 },
  ])
})

test('rates are several, with bounds, a fee and an expiry, amounts as numbers', async () => {
  const { get } = await stage(fixed)
  const { body } = await get('/v3/pairs/ETH_USDC/rates')
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

describe('lists', () => {
  test.each([
    ['/v3/pairs?from=DOGE', ['DOGE_USDC']],
    [
      '/v3/pairs?to=USDT&format=json',
      ['BTC_USDT', 'ETH_USDT', 'LTC_USDT', 'SOL_USDT', 'USDC_USDT'],
    ],
    ['/v3/pairs?from=ETH&to=USDC', ['ETH_USDC']],
    ['/v3/pairs?from=ETH&to=DOGE', []],
    ['/v3/assets', ['BTC', 'ETH', 'LTC', 'SOL', 'USDC', 'USDT', 'DOGE']],
    ['/v3/assets?networks=ethereum', ['ETH', 'USDC', 'USDT']],
    ['/v3/assets?networks=solana,bitcoin&format=json', ['BTC', 'SOL']],
    ['/v3/assets?query=coin', ['BTC', 'LTC', 'USDC']],
    ['/v3/assets?query=usd&networks=solana', []],
    ['/v3/assets?limit=4', ['BTC', 'ETH', 'LTC', 'SOL']],
    ['/v3/assets?limit=4&page=2', ['USDC', 'USDT', 'DOGE']],
    ['/v3/assets?limit=4&page=3', []],
    ['/v3/assets?networks=ethereum&limit=1&page=2', ['USDC']],
  ])('%s are %j', async (target, ids) => {
    const { get } = await stage({ prices: { DOGE_USDC: 0.1 } })
    expect((await get(target)).body.map(({ id }: { id: string }) => id)).toEqual(ids)
  })

  test.each([
    ['/v3/pairs?from=SOL&format=csv', {}, 'SOL_BTC,SOL_ETH,SOL_LTC,SOL_USDC,SOL_USDT'],
    ['/v3/assets?limit=2&page=2&format=csv', {}, 'LTC,SOL'],
    ['/v3/pairs?format=csv', restricted, ''],
  ])('%s are one line of ids as CSV', async (target, headers, line) => {
    const { sandbox } = await stage()
    const response = await fetch(sandbox.url + target, { headers })
    expect([response.status, await response.text()]).toEqual([200, line])
    expect(response.headers.get('content-type')).toBe('text/csv; charset=utf-8')
    expect(response.headers.get('sandbox')).toBe('quotegate')
  })

  test('have items as they are documented, one by one too', async () => {
    const { get } = await stage()
    const usdc = {
      id: 'USDC',
      symbol: 'USDC',
      name: 'USD Coin',
      network: 'ethereum',
      decimals: 6,
    }
    expect((await get('/v3/assets')).body).toContainEqual(usdc)
    // In a restricted place too.
    expect((await get('/v3/assets/USDC', restricted)).body).toEqual(usdc)
    const pairs = (await get('/v3/pairs')).body
    expect(pairs).toHaveLength(30)
    expect(pairs).toContainEqual({ id: 'LTC_BTC', from: 'LTC', to: 'BTC' })
    expect((await get('/v3/pairs/LTC_BTC')).body).toEqual({
      id: 'LTC_BTC',
      from: 'LTC',
      to: 'BTC',
    })
  })
})

test.each([
  ...['', '=', '=0', '=-1', '=abc', '=1&amount=1', '[]=1', '=1e999'].map((after) => {
    const query = after && `amount${after}`
    return ['GET', `/v3/pairs/ETH_USDC/quotes?${query}`, 400, 'INVALID_AMOUNT'] as const
  }),
  ['GET', '/v3/pairs/ETH_USDC/quotes?amount=1e-12', 400, 'AMOUNT_TOO_SMALL'],
  ['GET', '/v3/pairs/ETH_XYZ/quotes?amount=1', 404, 'PAIR_NOT_FOUND'],
  ['GET', '/v3/pairs/A_B', 404, 'PAIR_NOT_FOUND'],
  ['GET', '/v3/assets/usdc', 404, 'NOT_FOUND'],
  ['GET', '/v3/pairs?format=xml', 400, 'BAD_REQUEST'],
  ...[
    'limit=0',
    'limit=-1',
    'limit=x',
    'page=0',
    'page=1.5',
    'limit=10000',
    'format=xml',
  ].map((query) => ['GET', `/v3/assets?${query}`, 400, 'BAD_REQUEST'] as const),
  // Not imitated, which the answer says.
  ['POST', '/v3/trades', 501, 'SANDBOX_NOT_IMPLEMENTED'],
] as const)('%s %s is a %i %s', async (method, target, status, code) => {
  const { ask } = await stage()
  const answer = await ask(method, target, { 'App-Name': 'tests' })
  expect([answer.status, answer.body.code]).toEqual([status, code])
})

test('a quote without App-Name is refused', async () => {
  const { get } = await stage()
  const { status, body } = await get('/v3/pairs/ETH_USDC/quotes?amount=1')
  expect([status, body.code]).toEqual([400, 'MISSING_APP_NAME'])
})

describe('the address that decides', () => {
  test.each([
    ['for=203.0.113.7', '203.0.113.7'],
    ['For="203.0.113.7:4711"', '203.0.113.7'],
    ['proto=https;for=203.0.113.7:4711;by=10.0.0.1', '203.0.113.7'],
    ['for=203.0.113.7, for=198.51.100.1', '203.0.113.7'],
    ['host="a,b;c";for=203.0.113.7', '203.0.113.7'],
    ['for="[2001:db8::1]:443"', '2001:db8::1'],
    ['for="[::ffff:203.0.113.7]"', '203.0.113.7'],
    ['for=[2001:db8::1]', undefined],
    ['for="2001:db8::1"', undefined],
    ['for=unknown, for=203.0.113.7', undefined],
    ['proto=https, for=203.0.113.7', undefined],
    ['for=0x7f.1', undefined],
    ['for="203.0.113.7', undefined],
    ['', undefined],
  ])('in %s is %s', (header, address) => {
    expect(forwardedFor(header)).toBe(address)
  })

  test.each([
    ['203.0.113.0/24', 'for=198.51.100.1, for=203.0.113.7', '198.51.100.1', true],
    ['203.0.113.0/24', 'for=203.0.113.7', '203.0.113.7', false],
    ['2001:db8::/32', 'for="[2001:db8::1]"', '2001:db8::1', false],
    ['203.0.113.9', 'for=203.0.113.9', '203.0.113.9', false],
    ['', 'for=203.0.113.7', '203.0.113.7', true],
    // Where Forwarded cannot be used, it is the peer.
    ['127.0.0.0/8', 'for=unknown', undefined, false],
    ['203.0.113.0/24', 'for=2001:db8::1', undefined, true],
  ])(
    'with %s restricted, of %s, is %s, allowed: %s',
    async (restrictedPlace, Forwarded, address, allowed) => {
      const { get } = await stage({ faults: { restrictedPlace } })
      const [ip, source] =
        address === undefined ? ['127.0.0.1', 'peer'] : [address, 'forwarded']
      expect((await get('/v3/geolocation', { Forwarded })).body).toEqual({
        ip,
        source,
        allowed,
      })
    },
  )

  test.each([
    ['GET', '/v3/pairs/ETH_USDC'],
    ['GET', '/v3/pairs/ETH_USDC/quotes?amount=1'],
    ['POST', '/v3/orders/float'],
    ['GET', '/v3/orders/any'],
  ])('refuses a restricted place %s %s', async (method, target) => {
    const { ask } = await stage()
    const { status, body } = await ask(method, target, restricted)
    expect([status, body]).toEqual([403, { code: 'RESTRICTED_GEOLOCATION' }])
  })

  test('gives a restricted place an empty list of pairs', async () => {
    const { get } = await stage()
    expect(await get('/v3/pairs', restricted)).toMatchObject({ status: 200, body: [] })
  })
})
