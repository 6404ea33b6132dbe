import { describe, expect, test } from 'vitest'
import { Well } from '../../src/memory/well.ts'
import { VirtualTime } from '../support/machine/virtual-time.ts'

/** A part whose clock only the test moves, and what it says. */
function stage(options: { steadyAfterMs?: number } = {}) {
  const said: string[] = []
  let nowMs = 1_000
  const timers = Object.assign(new VirtualTime(), { steadyMs: () => nowMs })
  const well = new Well<'open' | 'write'>({
    // An application may hand in one that stands.
    clock: { nowMs: () => 1_760_000_000_000 + nowMs, steadyMs: () => 7, timers },
    operations: ['open', 'write'],
    doubt: { afterStartMs: 2_000, afterTroubleMs: 4_000 },
    reasonOf: String,
    began: (reason) => void said.push(`began: ${reason}`),
    goesOn: (reason) => void said.push(`goes on: ${reason}`),
    ended: (forMs) => void said.push(`ended after ${forMs}`),
    ...options,
  })
  return {
    well,
    said,
    pass(ms: number) {
      nowMs += ms
    },
  }
}

describe('an outage of a part', () => {
  test('is said once when it begins, once for each further reason, and once when it is over', () => {
    const { well, said, pass } = stage()
    expect([well.sinceMs, well.reason]).toEqual([undefined, undefined])
    for (const reason of ['a', 'a', 'b', 'a', 'b']) {
      well.fails('write', reason)
      pass(10)
    }
    expect([well.sinceMs, well.reason]).toEqual([1_760_000_001_000, 'b'])
    for (let times = 0; times < 3; times += 1) well.works('write')
    expect(said).toEqual(['began: a', 'goes on: b', 'ended after 50'])
    expect([well.sinceMs, well.reason]).toEqual([undefined, undefined])
  })

  test('is not ended by a return that is short, but it is down since the last fall', () => {
    const { well, said, pass } = stage({ steadyAfterMs: 5_000 })
    well.fails('write', 'a')
    pass(1_000)
    well.works('write')
    pass(4_000)
    well.works('write')
    well.fails('write', 'a')
    expect(well.sinceMs).toBe(1_760_000_006_000)
    pass(1_000)
    well.works('write')
    pass(5_000)
    well.works('write')
    expect(said).toEqual(['began: a', 'ended after 6000'])
  })

  test('is over once all of its operations work', () => {
    const { well, said } = stage()
    well.fails('open', 'full')
    well.fails('write', 'full')
    well.works('open')
    expect([well.isFailing('open'), well.isFailing('write')]).toEqual([false, true])
    expect(well.reason).toBe('full')
    well.works('write')
    expect([well.reason, said.length]).toEqual([undefined, 2])
  })

  test('with ever new words does not fill the log', () => {
    const { well, said } = stage()
    for (let number = 0; number < 1_000; number += 1) well.fails('write', `no ${number}`)
    expect(said).toHaveLength(10)
    expect(well.reason).toBe('no 999')
  })

  test('goes on although the logger has a defect', () => {
    const well = new Well<'write'>({
      clock: { nowMs: () => 0, steadyMs: () => 0, timers: new VirtualTime() },
      operations: ['write'],
      reasonOf: String,
      began: () => {
        throw new Error('no space left for the log')
      },
      ended: () => {},
    })
    well.fails('write', 'a')
    expect(well.reason).toBe('a')
  })
})

describe('a part is doubted', () => {
  test('from the start until it was trusted for so long', () => {
    const { well, pass } = stage()
    pass(10_000)
    expect(well.isDoubted).toBe(true)
    well.trust()
    pass(1_999)
    expect(well.isDoubted).toBe(true)
    pass(1)
    expect(well.isDoubted).toBe(false)
  })

  test('after trouble for longer, and trust that is said again does not prolong it', () => {
    const { well, pass } = stage()
    well.doubt()
    for (let passed = 0; passed < 4_000; passed += 1_000) {
      well.trust()
      expect(well.isDoubted).toBe(true)
      pass(1_000)
    }
    expect(well.isDoubted).toBe(false)
    well.doubtFor(100)
    pass(99)
    expect(well.isDoubted).toBe(true)
    pass(1)
    expect(well.isDoubted).toBe(false)
  })
})
