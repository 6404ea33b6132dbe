import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readProxyUrl } from '../../src/config/urls.ts'
import { namesOf } from './support.ts'

describe('the URL of a proxy', () => {
  test.each([
    ['http://proxy.example:3128', 'proxy.example', 3128],
    ['HTTP://Proxy.example:3128/', 'proxy.example', 3128],
    ['http://proxy.example', 'proxy.example', 80],
    ['http://10.0.0.1:8080', '10.0.0.1', 8080],
    ['http://[2001:db8::1]:3128', '2001:db8::1', 3128],
  ])('%s is %s, port %i', (url, host, port) => {
    expect(readProxyUrl(url)).toEqual({ host, port, authorization: undefined })
  })

  test('has any user and password, percent-encoded', () => {
    const text = fc.string({ unit: 'grapheme' }).filter((value) => !/[\u0000-\u001f\u007f]/.test(value))
    const user = text.filter((value) => value !== '' && !value.includes(':'))
    fc.assert(
      fc.property(user, text, (name, password) => {
        const url = `http://${encodeURIComponent(name)}:${encodeURIComponent(password)}@proxy.example:3128`
        const basic = Buffer.from(`${name}:${password}`).toString('base64')
        expect(readProxyUrl(url)).toEqual({
          host: 'proxy.example',
          port: 3128,
          authorization: `Basic ${basic}`,
        })
      }),
    )
  })

  test.each([
    'proxy.example:3128',
    'https://proxy.example:3128',
    'socks5://proxy.example:1080',
    'http://',
    'http://proxy.example:0',
    'http://proxy.example:70000',
    'http://proxy.example/path',
    'http://proxy.example?query',
    'http://proxy.example#fragment',
    'http://me:pass/word@proxy.example',
    'http://me:pass word@proxy.example',
    'http://a,b:3128',
    'http://me%3Ayou:password@proxy.example',
    'http://me:pass%0d%0aword@proxy.example',
    'http://me:pass%zz@proxy.example',
    'http://me:%ff@proxy.example',
  ])('is not %s', (url) => expect(namesOf({ UPSTREAM_PROXY: url })).toEqual(['UPSTREAM_PROXY']))

  test('is not one of our own listeners', () => {
    const given = { SWAP_BASE_URL: 'https://swap.example' }
    expect(namesOf({ ...given, UPSTREAM_PROXY: 'http://localhost:8080' })).toEqual(['UPSTREAM_PROXY'])
  })
})
