import { describe, expect, it } from 'vitest'
import { foldPair, readAmount, readAskedQuote } from '../../src/quotes/target.ts'

describe('readAskedQuote', () => {
  it('reads the pair and the query as received', () => {
    expect(readAskedQuote('/v3/pairs/ETH_USDC/quotes?amount=0.1&x=%20')).toEqual({
      pair: 'ETH_USDC',
      canonical: '0.1',
      otherParameters: 'x=%20',
    })
    const problem = 'The query parameter "amount" is missing.'
    expect(readAskedQuote('/v3/pairs/eth%2Fusdc/quotes')).toEqual({ pair: 'eth%2Fusdc', problem })
    expect(readAskedQuote('/v3/pairs/A/quotes?')).toEqual({ pair: 'A', problem })
  })

  it('reads the pair without needless escapes, and keeps the path as received', () => {
    expect(readAskedQuote('/v3/pairs/eth%5Fusdc/quotes?x&amount=2')).toEqual({
      pair: 'eth_usdc',
      spelledPath: '/v3/pairs/eth%5Fusdc/quotes',
      canonical: '2',
      otherParameters: 'x',
    })
  })

  it('looks for the path only in front of the question mark', () => {
    expect(readAskedQuote('/v3/pairs/A/quotes?next=/v3/pairs/B/quotes?amount=1&amount=2')).toEqual({
      pair: 'A',
      canonical: '2',
      otherParameters: 'next=/v3/pairs/B/quotes?amount=1',
    })
    expect(readAskedQuote('/v3/pairs/A?x=/quotes')).toBeUndefined()
    expect(readAskedQuote('/v3/pairs/?/quotes')).toBeUndefined()
  })

  it.each([
    '/',
    '/v3/pairs',
    '/v3/pairs/A',
    '/v3/pairs/A/',
    '/v3/pairs//quotes',
    '/v3/pairs/A/B/quotes',
    '/v3/pairs/A/quotes2',
    '/v3/pairs/A/quotes#top',
    '/x/v3/pairs/A/quotes',
    '/v3/orders/float',
  ])('reads %s as another path', (target) => expect(readAskedQuote(target)).toBeUndefined())
})

describe('foldPair', () => {
  it.each(['ETH_USDC', 'eth_Usdc', 'ETH%5fUSDC', 'ETH_USDC;', 'ETH_USDC;a=1;b', '%45TH_USDC%3ba=1'])(
    'reads %s as ETH_USDC',
    (pair) => expect(foldPair(pair)).toBe('ETH_USDC'),
  )

  it.each(['ETH_USDT', 'ETH-USDC', 'ETHUSDC', 'ETH%255FUSDC'])('reads %s as another pair', (pair) =>
    expect(foldPair(pair)).not.toBe('ETH_USDC'),
  )
})

describe('readAmount', () => {
  it('reads the amount in its canonical form', () => {
    expect(readAmount('amount=0.10')).toEqual({ canonical: '0.1', otherParameters: '' })
  })

  it.each(['0.1', '0.10', '1e-1', '%30%2e1', '1%65-1'])('reads %s as 0.1', (text) => {
    expect(readAmount(`amount=${text}`)).toMatchObject({ canonical: '0.1' })
  })

  it.each(['am%6Funt=2', '%61mount=2', '%61%6D%6f%75%6E%74=%32'])('decodes %s', (query) => {
    expect(readAmount(query)).toEqual({ canonical: '2', otherParameters: '' })
  })

  it('decodes once only', () => {
    expect(readAmount('amount=%2531')).toHaveProperty('problem')
    expect(readAmount('am%256Funt=1')).toHaveProperty('problem')
  })

  it('leaves every other parameter as sent and in order', () => {
    expect(readAmount('b=%20+x&amount=1&a=&a&c=;&Amount=2&amounts=3&=')).toEqual({
      canonical: '1',
      otherParameters: 'b=%20+x&a=&a&c=;&Amount=2&amounts=3&=',
    })
  })

  it('ignores empty parts', () => {
    expect(readAmount('&&amount=1&&x&')).toEqual({ canonical: '1', otherParameters: 'x' })
  })

  it('separates at the ampersand only', () => {
    expect(readAmount('x=1;amount=2')).toHaveProperty('problem', expect.stringContaining('is missing'))
    expect(readAmount('amount=1;x=2')).toHaveProperty('problem', expect.stringContaining('decimal number'))
  })

  it.each(['', '&', 'x=1', 'Amount=1', 'amount%00=1', '+amount=1'])('misses the amount in %j', (query) => {
    expect(readAmount(query)).toHaveProperty('problem', 'The query parameter "amount" is missing.')
  })

  it.each([
    'amount=1&amount=1',
    'amount=1&amount',
    'amount&amount=1',
    'amount=1&%61mount=1',
    'amount[]=1',
    'amount[0]=1',
    'amount[=1',
    'amount=1&amount[]=1',
    'amount%5B0%5D=1&amount=1',
    'am%6funt%5b%5D=1',
    'amount=1&amount[x][y]=1',
    'amount=1&amount%5B%FF=1',
    'amount=1&[amount]=2',
  ])('refuses %s as more than one amount', (query) => {
    expect(readAmount(query)).toHaveProperty('problem', expect.stringContaining('must be given once'))
  })

  it.each(['amount', 'amount=', 'x=1&amount=&y=2'])('reports the amount of %s as empty', (query) => {
    expect(readAmount(query)).toHaveProperty('problem', 'The query parameter "amount" is empty.')
  })

  it.each(['0', '0.00', '0e5', '-1', '-0.5', '-0', '%2D1e3'])('requires more than %s', (text) => {
    expect(readAmount(`amount=${text}`)).toHaveProperty(
      'problem',
      expect.stringContaining('greater than zero'),
    )
  })

  it.each([
    'abc',
    '0x10',
    '1,5',
    'Infinity',
    'NaN',
    '1e999999',
    '--1',
    '%',
    '%zz',
    '%ff',
    '%D9%A1',
    '1=2',
    '1#x',
  ])('refuses %s as not a number', (text) =>
    expect(readAmount(`amount=${text}`)).toHaveProperty('problem', expect.stringContaining('decimal number')),
  )

  it('accepts 1e+21, which a browser writes, and shares that spelling with no other', () => {
    const raw = readAmount('amount=1e+21&x=1')
    expect(raw).toMatchObject({ canonical: `1${'0'.repeat(21)}`, otherParameters: 'amount=1e+21&x=1' })
    expect(readAmount('amount=1e%2B21&x=1')).toMatchObject({
      canonical: `1${'0'.repeat(21)}`,
      otherParameters: 'x=1',
    })
  })

  it.each(['+1', '%2B1', '1+', '1%20', '1e%2B'])('refuses %s', (text) => {
    expect(readAmount(`amount=${text}`)).toHaveProperty('problem')
  })
})
