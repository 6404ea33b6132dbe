import { expect, it } from 'vitest'
import { readQuote } from '../../src/quotes/quote.ts'

const nowMs = 1_763_651_811_481
const asked = '0.1'
const document = {
  fromAmount: { assetId: 'ETH', value: '0.1' },
  id: 'bb206d2a78049b6a5c54f10c07bc32c459fd583d52e0c644e567aa34941fede3',
  pairId: 'ETH_USDC',
  toAmount: { assetId: 'USDC', value: '289.645' },
  expiry: nowMs + 30_000,
}

const read = (value: unknown) => readQuote(Buffer.from(JSON.stringify(value)), asked)

// What is relayed and not kept, and why: test/promises/what-is-not-kept.test.ts.
it('a quote has what is known of it, as the provider wrote it', () => {
  const toAmount = { assetId: 'USDC', value: '289.6450' }
  const extra = { extra: 1, fromAmount: { ...document.fromAmount, extra: 1 } }
  expect(read({ ...document, toAmount, ...extra })).toEqual({
    id: document.id,
    pairId: 'ETH_USDC',
    fromValue: '0.1',
    toValue: '289.6450',
    hasNumbers: false,
    toAsset: 'USDC',
    expiresAtMs: document.expiry,
  })
})

it('two documents are not JSON', () => {
  const text = JSON.stringify(document).repeat(2)
  expect(readQuote(Buffer.from(text), asked)).toBe('not-json')
})

it.each([
  ['null', null],
  ['an empty id', { ...document, id: '' }],
  ['an id of 257 characters', { ...document, id: 'x'.repeat(257) }],
  ['no pair', { ...document, pairId: undefined }],
  ['no amount', { ...document, fromAmount: undefined }],
  [
    'a value that is not a number',
    { ...document, toAmount: { assetId: 'USDC', value: 'much' } },
  ],
  ['a value of zero', { ...document, toAmount: { assetId: 'USDC', value: '0.0' } }],
  ['an empty asset', { ...document, fromAmount: { assetId: '', value: '0.1' } }],
])('%s makes no quote', (_what, value) => expect(read(value)).toBe('not-a-quote'))

it.each([document.expiry + 0.5, 0, -1, {}])('%j does not count as an expiry', (expiry) =>
  expect(read({ ...document, expiry })).toBe('no-expiry'),
)

it.each([30_000, 1e11 - 1])('an expiry of %d is in seconds', (expiry) =>
  expect(read({ ...document, expiry })).toBe('expiry-in-seconds'),
)

// Whether it is believed is said where the end of the quote is computed.
it.each([1e11, nowMs, nowMs + 86_400_001, nowMs * 1000])(
  'an expiry of %d is read',
  (expiry) =>
    expect(read({ ...document, id: 'x'.repeat(256), expiry })).toMatchObject({
      expiresAtMs: expiry,
    }),
)

it('a quote for another amount is read as such, if that differs by more than a hundredth', () => {
  const forAmount = (value: string) =>
    read({ ...document, fromAmount: { assetId: 'ETH', value } })
  expect(forAmount('0.1009')).toMatchObject({ fromValue: '0.1009' })
  expect(forAmount('0.1011')).toBe('other-amount')
})
