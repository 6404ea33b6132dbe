import { describe, expect, it } from 'vitest'
import { type KeyedAsk, QuoteKeys } from '../../src/quotes/ask.ts'

const request: KeyedAsk = {
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
const withHeaders = (...keyedHeaders: KeyedAsk['keyedHeaders']) => ({ ...request, keyedHeaders })

describe('the quote key', () => {
  const keys = new QuoteKeys()

  it('is the same for every spelling of an amount', () => {
    const respelled = { ...request, target: '/v3/pairs/ETH_USDC/quotes?am%6Funt=1e-1' }
    expect(keys.of(respelled)).toBe(keys.of(request))
  })

  it.each(['authorization', 'proxy-authorization', 'cookie', 'x-api-key', 'x-unheard-of'])(
    'does not contain the value of %s',
    (name) => {
      const key = keys.of(withHeaders([name, 's3cret']))
      expect(key).not.toContain('s3cret')
      expect(key).not.toContain(Buffer.from('s3cret').toString('base64url'))
    },
  )

  it('salts secrets, so that they cannot be looked up in a table', () => {
    expect(new QuoteKeys().of(request)).not.toBe(keys.of(request))
  })

  it('is the same in every replica with the same salt', () => {
    const [here, there] = [new QuoteKeys('shared'), new QuoteKeys('shared')]
    expect(there?.of(request)).toBe(here?.of(request))
  })

  it('contains neither client nor amount if replicas share it', () => {
    const key = new QuoteKeys('shared').of(request)
    expect(key).toMatch(/^#[\w-]{43}$/)
  })
})
