import { describe, expect, it } from 'vitest'
import { createAreaReader, readAmount } from '../../src/http/area.ts'
import { foldPair } from '../../src/http/fold-path.ts'

const readTarget = createAreaReader({
  swap: ['/v3'],
  payments: ['/checkouts'],
  webhooks: ['/webhooks'],
})

/** What a target asks for; undefined: no quote. */
function askedIn(target: string) {
  const reading = readTarget(target)
  return 'quote' in reading ? reading.quote : undefined
}

describe('the target of a quote', () => {
  it.each([
    [
      '/v3/pairs/ETH_USDC/quotes?amount=0.1&x=%20',
      { pair: 'ETH_USDC', canonical: '0.1', otherParameters: 'x=%20' },
    ],
    ['/v3/pairs/eth%2Fusdc/quotes', { pair: 'eth%2Fusdc' }],
    ['/v3/pairs/A/quotes?', { pair: 'A' }],
    // Without needless escapes, and the path as received.
    [
      '/v3/pairs/eth%5Fusdc/quotes?amount=1',
      { pair: 'eth_usdc', spelledPath: '/v3/pairs/eth%5Fusdc/quotes' },
    ],
    // The path is in front of the question mark alone.
    [
      '/v3/pairs/A/quotes?next=/v3/pairs/B/quotes?amount=1&amount=2',
      { pair: 'A', canonical: '2' },
    ],
  ])('is %s', (target, asked) => expect(askedIn(target)).toMatchObject(asked))

  it.each([
    '/v3/pairs',
    '/v3/pairs/A',
    '/v3/pairs/A/',
    '/v3/pairs//quotes',
    '/v3/pairs/A/B/quotes',
    '/v3/orders',
    '/v3/pairs/A/quotes2',
    '/v3/pairs/A/quotes#top',
    '/x/v3/pairs/A/quotes',
    '/v3/pairs/A?x=/quotes',
    '/v3/pairs/?/quotes',
  ])('is not %s', (target) => expect(askedIn(target)).toBeUndefined())
})

it('a pair has one name for its spellings', () => {
  const spelled = [
    'ETH_USDC',
    'eth_Usdc',
    'ETH%5fUSDC',
    'ETH_USDC;',
    'ETH_USDC;a=1;b',
    '%45TH_USDC%3ba=1',
  ]
  expect(new Set(spelled.map(foldPair))).toEqual(new Set(['ETH_USDC']))
  for (const other of ['ETH_USDT', 'ETH-USDC', 'ETHUSDC', 'ETH%255FUSDC'])
    expect(foldPair(other)).not.toBe('ETH_USDC')
})

describe('the amount of a query', () => {
  it.each([
    ['amount=0.10', '0.1', ''],
    ['amount=1%65-1', '0.1', ''],
    ['%61%6D%6f%75%6E%74=%32', '2', ''],
    [
      'b=%20+x&amount=1&a=&a&c=;&Amount=2&amounts=3&=',
      '1',
      'b=%20+x&a=&a&c=;&Amount=2&amounts=3&=',
    ],
    ['&&amount=1&&x&', '1', 'x'],
    // Which a browser writes; that spelling is shared with no other.
    ['amount=1e+21&x=1', `1${'0'.repeat(21)}`, 'amount=1e+21&x=1'],
    ['amount=1e%2B21&x=1', `1${'0'.repeat(21)}`, 'x=1'],
  ])(
    'in %s is read, and every other parameter left as sent',
    (query, canonical, otherParameters) => {
      expect(readAmount(query)).toEqual({ canonical, otherParameters })
    },
  )

  it.each([
    '',
    '&',
    'x=1',
    'Amount=1',
    'amount%00=1',
    '+amount=1',
    'x=1;amount=2',
    'am%256Funt=1',
    'amount=1&amount=1',
    'amount=1&amount',
    'amount=1&%61mount=1',
    'amount[]=1',
    'amount[0]=1',
    'amount[=1',
    'amount%5B0%5D=1&amount=1',
    'amount=1&amount[x][y]=1',
    'amount=1&amount%5B%FF=1',
    'amount=1&[amount]=2',
    'amount',
    'amount=',
    'x=1&amount=&y=2',
    'amount=0',
    'amount=0e5',
    'amount=-1',
    'amount=-0',
    'amount=%2D1e3',
    'amount=abc',
    'amount=0x10',
    'amount=1,5',
    'amount=NaN',
    'amount=1e999999',
    'amount=--1',
    'amount=1;x=2',
    'amount=%',
    'amount=%zz',
    'amount=%ff',
    'amount=%2531',
    'amount=1%20',
    'amount=%2B1',
    'amount=1e%2B',
  ])('in %j is missing or wrong', (query) => expect(problemOf(query)).toBeDefined())

  it.each([
    ['x=1', /missing/],
    ['amount=1&amount[]=1', /once/],
    ['amount=', /empty/],
    ['amount=-1e3', /greater than zero/],
    ['amount=0.00', /greater than zero/],
    ['amount=--1', /decimal number/],
  ])('in %s is said to be wrong for what it is', (query, word) =>
    expect(problemOf(query)).toMatch(word),
  )
})

function problemOf(query: string): string | undefined {
  const reading = readAmount(query)
  return 'problem' in reading ? reading.problem : undefined
}
