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
const { expiry: _expiry, ...withoutExpiry } = document

const read = (value: unknown) => readQuote(Buffer.from(JSON.stringify(value)), asked)

describe('readQuote', () => {
  it('reads the documented example', () => {
    const { expiry, ...terms } = document
    expect(read(document)).toEqual({ quote: { ...terms, expiryMs: expiry } })
  })

  it('keeps nothing that it does not know', () => {
    expect(read({ ...document, extra: 1, fromAmount: { ...document.fromAmount, extra: 1 } })).toEqual(
      read(document),
    )
  })

  it('keeps a value as the provider wrote it', () => {
    const reading = read({ ...document, toAmount: { assetId: 'USDC', value: '289.6450' } })
    expect(reading.quote?.toAmount.value).toBe('289.6450')
  })

  it.each([
    ['nothing', ''],
    ['a page', '<html></html>'],
    ['a body cut short', JSON.stringify(document).slice(0, -1)],
    ['two documents', `${JSON.stringify(document)}${JSON.stringify(document)}`],
  ])('reads %s as invalid JSON', (_what, text) => {
    expect(readQuote(Buffer.from(text), asked)).toEqual({ reason: 'not-json' })
  })

  it('reads bytes that are not UTF-8 as invalid JSON', () => {
    const bytes = Buffer.from(JSON.stringify({ ...document, id: 'é' }), 'latin1')
    expect(readQuote(bytes, asked)).toEqual({ reason: 'not-json' })
  })

  it.each([
    ['null', null],
    ['a list', [document]],
    ['a text', 'quote'],
    ['an error', { code: 'RESTRICTED_GEOLOCATION' }],
    ['no id', { ...document, id: undefined }],
    ['an empty id', { ...document, id: '' }],
    ['an id of 257 characters', { ...document, id: 'x'.repeat(257) }],
    ['a number for an id', { ...document, id: 1 }],
    ['no pair', { ...document, pairId: undefined }],
    ['no amount', { ...document, fromAmount: undefined }],
    ['an amount that is a number', { ...document, fromAmount: 0.1 }],
    ['a value that is a number', { ...document, fromAmount: { assetId: 'ETH', value: 0.1 } }],
    ['a value that is not a number', { ...document, toAmount: { assetId: 'USDC', value: 'much' } }],
    ['a value of zero', { ...document, toAmount: { assetId: 'USDC', value: '0.0' } }],
    ['a negative value', { ...document, fromAmount: { assetId: 'ETH', value: '-0.1' } }],
    ['an empty asset', { ...document, fromAmount: { assetId: '', value: '0.1' } }],
  ])('reads %s as something other than a quote', (_what, value) =>
    expect(read(value)).toEqual({ reason: 'not-a-quote' }),
  )

  it('takes an id of 256 characters', () => {
    expect(read({ ...document, id: 'x'.repeat(256) })).not.toHaveProperty('reason')
  })

  it.each([
    ['none', withoutExpiry],
    ['null', { ...document, expiry: null }],
    ['a text', { ...document, expiry: String(document.expiry) }],
    ['a fraction', { ...document, expiry: document.expiry + 0.5 }],
    ['zero', { ...document, expiry: 0 }],
    ['a negative number', { ...document, expiry: -1 }],
    ['an object', { ...document, expiry: {} }],
  ])('finds no expiry in %s', (_what, value) => expect(read(value)).toEqual({ reason: 'no-expiry' }))

  it('recognises an expiry in seconds', () => {
    expect(read({ ...document, expiry: Math.floor(document.expiry / 1000) })).toEqual({
      reason: 'expiry-in-seconds',
    })
    expect(read({ ...document, expiry: 30_000 })).toEqual({ reason: 'expiry-in-seconds' })
  })

  it('reads any other expiry: whether it is believed is said where the end of the quote is computed', () => {
    for (const expiry of [1e11, nowMs, nowMs + 86_400_001, nowMs * 1000])
      expect(read({ ...document, expiry })).toMatchObject({ quote: { expiryMs: expiry } })
  })

  it('reads a quote for another amount as such, if that differs by more than a hundredth', () => {
    const forAmount = (value: string) => read({ ...document, fromAmount: { assetId: 'ETH', value } })
    expect(forAmount('0.1009')).not.toHaveProperty('reason')
    expect(forAmount('0.1011')).toEqual({ reason: 'other-amount' })
    expect(forAmount('1')).toEqual({ reason: 'other-amount' })
  })
})
