import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createAmountMatcher, readStatedAmount } from '../../src/orders/amounts.ts'
import { parseDecimal } from '../../src/quotes/decimal.ts'
import { amountGroup, amountGroups } from '../../src/replicas/amount-groups.ts'

const canonicalOf = (text: string) => parseDecimal(text) ?? ''

/** An amount as an integer of its 12th decimal. */
const places = 12
const unit = 10n ** BigInt(places)
const written = (units: bigint, decimals = places) =>
  canonicalOf(
    `${units / unit}.${String(units % unit)
      .padStart(places, '0')
      .slice(0, decimals)}`,
  )
const amounts = fc.oneof(
  fc.bigInt({ min: 1n, max: 10n ** 18n }),
  fc.bigInt({ min: 1n, max: 10n ** 6n }),
  // Around powers of ten, where rounding adds a digit.
  fc
    .tuple(fc.integer({ min: 6, max: 17 }), fc.bigInt({ min: -100_000n, max: 100_000n }))
    .map(([power, beside]) => 10n ** BigInt(power) + beside)
    .filter((units) => units > 0n),
)

it('an amount that was rounded to five digits or more is in one of at most two groups, with its quote', () => {
  const decimals = fc.integer({ min: 0, max: places })
  fc.assert(
    fc.property(amounts, decimals, fc.constantFrom(0n, 1n), (units, shown, up) => {
      const step = 10n ** BigInt(places - shown)
      const stated = written((units / step + up) * step, shown)
      const quoted = written(units)
      const amount = readStatedAmount({ text: stated, canonical: stated, isNumber: false })
      const groups = amountGroups(stated)
      expect(groups.length).toBeLessThanOrEqual(2)
      if (amount.digits < 5 || !amount.isRounded({ decimal: quoted, double: Number(quoted) })) return
      expect(groups).toContain(amountGroup(quoted))
    }),
    { numRuns: 20_000 },
  )
})

it('a double is in one of the groups of the number that a browser writes', () => {
  fc.assert(
    fc.property(amounts, fc.integer({ min: 0, max: 99 }), (units, more) => {
      const quoted = canonicalOf(
        `${units / unit}.${String(units % unit).padStart(places, '0')}${String(more).padStart(20, '0')}`,
      )
      const text = String(Number(quoted))
      const claim = { text, canonical: canonicalOf(text), isNumber: true }
      if (createAmountMatcher(claim)(quoted))
        expect(amountGroups(claim.canonical)).toContain(amountGroup(quoted))
    }),
    { numRuns: 20_000 },
  )
})
