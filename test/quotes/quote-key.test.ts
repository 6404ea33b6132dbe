import { describe, expect, it } from 'vitest'
import { createQuoteKey, type QuoteRequest } from '../../src/quotes/quote-key.ts'

const request: QuoteRequest = {
  pair: 'ETH_USDC',
  canonicalAmount: '0.1',
  keyedHeaders: [
    ['app-name', 'wallet'],
    ['authorization', 'Bearer s3cret'],
  ],
  partition: 'ip:203.0.113.7',
  query: '',
  target: '/v3/pairs/ETH_USDC/quotes?amount=0.1',
}
const withHeaders = (...keyedHeaders: QuoteRequest['keyedHeaders']) => ({ ...request, keyedHeaders })

describe('the quote key', () => {
  const quoteKey = createQuoteKey()

  it('is the same for every spelling of an amount', () => {
    const respelled = { ...request, target: '/v3/pairs/ETH_USDC/quotes?am%6Funt=1e-1' }
    expect(quoteKey(respelled)).toBe(quoteKey(request))
  })

  it.each([
    ['pair', { ...request, pair: 'ETH_BTC' }],
    ['case of the pair', { ...request, pair: 'eth_usdc' }],
    ['spelling of the pair', { ...request, pair: 'ETH%5FUSDC' }],
    ['amount', { ...request, canonicalAmount: '0.2' }],
    ['partition', { ...request, partition: 'ip:203.0.113.8' }],
    ['further query', { ...request, query: 'x=1' }],
    ['header value', withHeaders(['app-name', 'other'], ['authorization', 'Bearer s3cret'])],
    ['secret', withHeaders(['app-name', 'wallet'], ['authorization', 'Bearer s3creT'])],
    ['number of headers', withHeaders(['app-name', 'wallet'])],
    ['header name', withHeaders(['app-version', 'wallet'], ['authorization', 'Bearer s3cret'])],
  ])('differs with the %s', (_what, other) => expect(quoteKey(other)).not.toBe(quoteKey(request)))

  it.each(['app-name', 'authorization'])('distinguishes an absent %s from an empty one', (name) => {
    expect(quoteKey(withHeaders([name, undefined]))).not.toBe(quoteKey(withHeaders([name, ''])))
  })

  it('cannot be imitated by a value that contains its separators', () => {
    const honest = withHeaders(['app-name', 'a'], ['app-version', 'b'])
    const forged = withHeaders(['app-name', 'a11:app-version1:b'])
    expect(quoteKey(forged)).not.toBe(quoteKey(honest))
  })

  it('cannot be imitated by a value that looks like a digest', () => {
    const secret = quoteKey(withHeaders(['authorization', 'Bearer s3cret']))
    const digest = secret.slice(secret.indexOf('#'))
    expect(quoteKey(withHeaders(['authorization', digest]))).not.toBe(secret)
  })

  it.each(['authorization', 'proxy-authorization', 'cookie', 'x-api-key', 'x-unheard-of'])(
    'does not contain the value of %s',
    (name) => {
      const key = quoteKey(withHeaders([name, 's3cret']))
      expect(key).not.toContain('s3cret')
      expect(key).not.toContain(Buffer.from('s3cret').toString('base64url'))
    },
  )

  it('salts secrets, so that they cannot be looked up in a table', () => {
    expect(createQuoteKey()(request)).not.toBe(quoteKey(request))
  })

  it('is the same in every replica with the same salt', () => {
    const [here, there] = [createQuoteKey({ salt: 'shared' }), createQuoteKey({ salt: 'shared' })]
    expect(there(request)).toBe(here(request))
  })

  it('contains neither client nor amount if replicas share it', () => {
    const key = createQuoteKey({ salt: 'shared' })(request)
    expect(key).toMatch(/^#[\w-]{43}$/)
  })
})
