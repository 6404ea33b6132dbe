import { describe, expect, it } from 'vitest'
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

const readText = (text: string) => readQuote(Buffer.from(text), asked)
const forAmount = (value: string) => read({ ...document, fromAmount: { assetId: 'ETH', value } })

describe('the quote of an answer', () => {
  it('has what is known of it, as the provider wrote it', () => {
    const { expiry, ...terms } = { ...document, toAmount: { assetId: 'USDC', value: '289.6450' } }
    const extra = { extra: 1, fromAmount: { ...document.fromAmount, extra: 1 } }
    expect(read({ ...terms, expiry, ...extra })).toEqual({ quote: { ...terms, expiryMs: expiry } })
  })

  it.each([
    ['nothing', ''],
    ['a page', '<html></html>'],
    ['a body cut short', JSON.stringify(document).slice(0, -1)],
    ['two documents', JSON.stringify(document).repeat(2)],
  ])('is not in %s, which is not JSON', (_what, text) =>
    expect(readText(text)).toEqual({ reason: 'not-json' }),
  )

  it('is not in bytes that are not UTF-8', () => {
    const bytes = Buffer.from(JSON.stringify({ ...document, id: 'é' }), 'latin1')
    expect(readQuote(bytes, asked)).toEqual({ reason: 'not-json' })
  })

  it.each([
    ['null', null],
    ['a list', [document]],
    ['an error', { code: 'RESTRICTED_GEOLOCATION' }],
    ['no id', { ...document, id: undefined }],
    ['an empty id', { ...document, id: '' }],
    ['an id of 257 characters', { ...document, id: 'x'.repeat(257) }],
    ['no pair', { ...document, pairId: undefined }],
    ['no amount', { ...document, fromAmount: undefined }],
    ['a value that is a number', { ...document, fromAmount: { assetId: 'ETH', value: 0.1 } }],
    ['a value that is not a number', { ...document, toAmount: { assetId: 'USDC', value: 'much' } }],
    ['a value of zero', { ...document, toAmount: { assetId: 'USDC', value: '0.0' } }],
    ['an empty asset', { ...document, fromAmount: { assetId: '', value: '0.1' } }],
  ])('is not in JSON with %s', (_what, value) => expect(read(value)).toEqual({ reason: 'not-a-quote' }))

  it.each([undefined, null, String(document.expiry), document.expiry + 0.5, 0, -1, {}])(
    'has no expiry in %j',
    (expiry) => expect(read({ ...document, expiry })).toEqual({ reason: 'no-expiry' }),
  )

  it.each([Math.floor(document.expiry / 1000), 30_000, 1e11 - 1])(
    'has an expiry in seconds in %d',
    (expiry) => expect(read({ ...document, expiry })).toEqual({ reason: 'expiry-in-seconds' }),
  )

  // Whether it is believed is said where the end of the quote is computed.
  it.each([1e11, nowMs, nowMs + 86_400_001, nowMs * 1000])('has the expiry %d', (expiry) =>
    expect(read({ ...document, id: 'x'.repeat(256), expiry })).toMatchObject({ quote: { expiryMs: expiry } }),
  )

  it('is one for another amount if that differs by more than a hundredth', () => {
    expect(forAmount('0.1009').reason).toBeUndefined()
    expect(forAmount('0.1011')).toEqual({ reason: 'other-amount' })
    expect(forAmount('1')).toEqual({ reason: 'other-amount' })
  })
})
