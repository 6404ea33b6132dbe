import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createAreaReader } from '../../src/routes/area.ts'

const reader = (payments: readonly string[]) =>
  createAreaReader({ swap: ['/v3'], payments, webhooks: ['/webhooks'] })

// A v4 of the swap API exists. The payments API has no versions, so a version is never meant for it.
describe('a version other than /v3, however it is spelled', () => {
  const spellings = [
    ...[
      '/v4',
      '/v4/',
      '/v4?x',
      '/v4/pairs',
      '/V4',
      '//v4',
      '//v4//pairs',
      '/%764',
      '/v%34',
      '/v4.1',
      '/v4.1/x',
    ],
    ...[
      '/v4.json',
      '/v10/x',
      '/v03',
      '/v0',
      '/v34/x',
      '/v4;a=b/x',
      '/v4%3Ba',
      '/v4%2Fpairs',
      '/%2Fv4',
      '/;a/v4',
    ],
    'http://evil.example/v4/pairs',
  ]
  test.each(spellings)('%s goes to no API', (target) => {
    for (const paths of [['/'], ['/', '/checkouts'], ['/checkouts']]) {
      expect(reader(paths)(target)).toMatchObject({ area: 'none', upstream: undefined })
    }
  })

  // It went to the payments API, which has no such path, or, where both are one server, to the swap API without Forwarded.
  test.each(['/V3', '/V3/assets', '//v3/assets', '/%763', '/v3%2Fassets', '/v3.1', '/v3;a/assets'])(
    '%s goes to no API either: it is /v3 to some routers and not to the gateway',
    (target) => {
      expect(reader(['/'])(target)).toMatchObject({ area: 'none', upstream: undefined })
    },
  )

  test('in any mixture of spellings goes to no API', () => {
    const letter = fc.constantFrom('v', 'V', '%76', '%56')
    const digit = fc.nat({ max: 9 }).chain((n) => fc.constantFrom(String(n), `%3${n}`))
    const slash = fc.constantFrom('/', '//', '///', '/;a=b/', '/%2F')
    const end = fc.constantFrom('', '/', '/x', '//x', '%2fx', ';a', '%3Ba/x', '.1', '.json', '?a=b')
    const version = fc.tuple(slash, letter, fc.array(digit, { minLength: 1, maxLength: 4 }), end)
    fc.assert(
      fc.property(version, ([start, v, digits, rest]) => {
        const target = `${start}${v}${digits.join('')}${rest}`
        fc.pre(!/^\/v3(?:[/?]|$)/.test(target))
        expect(reader(['/'])(target)).toMatchObject({ area: 'none', target })
      }),
      { numRuns: 500 },
    )
  })
})
