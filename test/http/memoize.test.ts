import fc from 'fast-check'
import { expect, it } from 'vitest'
import { memoize } from '../../src/http/memoize.ts'

it('gives every text its own result, whatever was looked up before', () => {
  fc.assert(
    fc.property(
      fc.array(fc.oneof(fc.string(), fc.constantFrom('0.1', '0.10', '1', '')), {
        maxLength: 300,
      }),
      (texts) => {
        const answer = memoize((text) => `[${text}]`)
        for (const text of [...texts, ...texts, ...texts])
          expect(answer(text)).toBe(`[${text}]`)
      },
    ),
  )
})

it('computes a repeated text at most twice', () => {
  let times = 0
  const answer = memoize((text) => {
    times += 1
    return text.length
  })
  for (let time = 0; time < 10; time += 1)
    expect(answer('/v3/pairs/ETH_USDC/quotes?amount=0.1')).toBe(36)
  expect(times).toBe(2)
})

// Thousands of long texts would be megabytes kept for nothing.
it('does not remember long texts', () => {
  let times = 0
  const answer = memoize(() => {
    times += 1
  })
  for (let time = 0; time < 3; time += 1) answer('x'.repeat(257))
  expect(times).toBe(3)
})
