import { describe, expect, it } from 'vitest'
import { Events } from '../../src/events.ts'
import { ProviderLimit } from '../../src/quotes/provider-limit.ts'
import { createTestClock } from '../support/clients/quotes.ts'

function stage() {
  const clock = createTestClock()
  const begun: (string | undefined)[] = []
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

it('a crowd of applications is remembered up to 1,000', () => {
  const { limit } = stage()
  const of = (application: number) => ({ ...caller('a'), application: `${application}` })
  for (let index = 0; index < 1_001; index += 1) limit.begin(of(index), 9_000)
  expect(limit.list()).toHaveLength(1_000)
  expect([limit.leftMs(of(0)), limit.leftMs(of(1_000))]).toEqual([0, 9_000])
})

describe('three addresses of one application in a row', () => {
  const anybody = caller('anybody')
  const sameAgain = { application: 'web', authorization: 'Bearer other', address: 'z' }

  it('limit it as a whole until the latest of them ends', () => {
    const { begun, clock, limit } = stage()
    limit.begin(caller('a'), 9_000)
    limit.begin(caller('b'), 20_000)
    limit.begin(caller('b'), 20_000)
    expect(limit.leftMs(anybody)).toBe(0)
    limit.begin(caller('c'), 5_000)
    expect([limit.leftMs(anybody), limit.leftMs(sameAgain)]).toEqual([20_000, 0])
    expect(limit.list()).toContainEqual({
      application: 'web',
      address: undefined,
      leftMs: 20_000,
    })
    limit.begin(caller('c'), 5_000)
    expect(begun).toEqual(['a', 'b', 'c', undefined])
    clock.advance(20_000)
    expect([limit.leftMs(anybody), limit.list()]).toEqual([0, []])
    // The row was over with them.
    limit.begin(caller('d'), 5_000)
    expect(limit.leftMs(anybody)).toBe(0)
  })

  it('do not, if the first of them was over before the third', () => {
    const { clock, limit } = stage()
    limit.begin(caller('a'), 5_000)
    limit.begin(caller('b'), 9_000)
    clock.advance(5_000)
    limit.begin(caller('c'), 9_000)
    expect(limit.leftMs(anybody)).toBe(0)
    limit.begin(caller('d'), 1_000)
    expect(limit.leftMs(anybody)).toBe(9_000)
  })

  it('do not, if a quote was answered between them; and one that is answered later ends it', () => {
    const { limit } = stage()
    for (const address of ['a', 'b']) limit.begin(caller(address), 9_000)
    limit.endWhole(caller('d'))
    limit.begin(caller('c'), 9_000)
    expect(limit.leftMs(anybody)).toBe(0)
    for (const address of ['e', 'f']) limit.begin(caller(address), 9_000)
    limit.endWhole(sameAgain)
    expect(limit.leftMs(anybody)).toBe(9_000)
    limit.endWhole(caller('a'))
    expect([limit.leftMs(anybody), limit.leftMs(caller('a'))]).toEqual([0, 9_000])
  })
})
