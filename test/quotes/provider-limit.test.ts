import { expect, it } from 'vitest'
import { Events } from '../../src/events.ts'
import { ProviderLimit } from '../../src/quotes/provider-limit.ts'
import { createTestClock } from '../support/clients/quotes.ts'

function stage() {
  const clock = createTestClock()
  const begun: string[] = []
  const events = new Events([
    { coolDownBegan: (_application, address) => void begun.push(address) },
  ])
  // Its wall clock stands still: it is counted on the steady one.
  return {
    clock,
    begun,
    limit: new ProviderLimit({ clock: { ...clock, nowMs: () => 0 }, events }),
  }
}
// Of whom it is: test/promises/limits-of-the-provider.test.ts.
const caller = (address: string) => ({ application: 'web', authorization: '', address })

it('a shorter Retry-After does not cut a longer one, and a longer one prolongs it', () => {
  const { clock, begun, limit } = stage()
  limit.begin(caller('a'), 9_000)
  clock.advance(1_000)
  limit.begin(caller('a'), 2_000)
  expect(limit.leftMs(caller('a'))).toBe(8_000)
  limit.begin(caller('a'), 20_000)
  expect(limit.leftMs(caller('a'))).toBe(20_000)
  expect(begun).toEqual(['a'])
  clock.advance(20_000)
  expect([limit.leftMs(caller('a')), limit.list()]).toEqual([0, []])
  limit.begin(caller('a'), 0)
  expect(begun).toEqual(['a', 'a'])
})

it('a crowd of addresses is remembered up to 1,000', () => {
  const { limit } = stage()
  for (let index = 0; index < 1_001; index += 1) limit.begin(caller(String(index)), 9_000)
  expect(limit.list()).toHaveLength(1_000)
  expect([limit.leftMs(caller('0')), limit.leftMs(caller('1000'))]).toEqual([0, 9_000])
})
