import fc from 'fast-check'
import { expect, test } from 'vitest'
import { shownQuery } from '../../src/http/target.ts'

test.each([
  ['amount=0.1', 'amount=0.1'],
  [
    'from=ETH&to=USDC&toAsset=a:b&networks=ETH%2CSOL&limit=5&page=2&format=json',
    'from=ETH&to=USDC&toAsset=a:b&networks=ETH%2CSOL&limit=5&page=2&format=json',
  ],
  ['toAddress=0xsecret&amount=1', 'toAddress=…&amount=1'],
  ['Amount=0xsecret', 'Amount=…'],
  ['amount=1;toAddress=0xsecret', 'amount=…'],
  ['amount=1%26toAddress%3D0xsecret', 'amount=…'],
  ['%74oAddress=0xsecret', '…=…'],
  ['verbose&&', 'verbose&&'],
  ['a%20secret%20without%20a%20name', '…'],
  [`${'k'.repeat(33)}=`, '…=…'],
  ['', ''],
])('of the query %s, people see %s', (query, shown) =>
  expect(shownQuery(query)).toBe(shown),
)

test('no value of a parameter that is not known as harmless is shown', () => {
  const secret = 'Se-cr3t'
  const noise = fc.array(
    fc.constantFrom(
      'a',
      '&',
      '=',
      ';',
      '%26',
      '%3D',
      '%3B',
      '?',
      '/',
      'amount',
      'from',
      '%',
      ' ',
    ),
    { maxLength: 12 },
  )
  fc.assert(
    fc.property(noise, noise, (before, after) => {
      const query = `${before.join('')}&address=${secret}${after.join('')}`
      expect(shownQuery(query)).not.toContain(secret)
    }),
  )
})
