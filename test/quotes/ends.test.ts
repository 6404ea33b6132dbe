import { describe, expect, it } from 'vitest'
import { Ends, serveLeftMs } from '../../src/quotes/ends.ts'

const startMs = Date.UTC(2025, 10, 20, 15, 17, 21) + 400
const clocks = ['right', '20 s ahead', '20 s behind', 'Date stands still', 'no Date']
/** The provider makes its price as soon as it is asked, and the head of its answer once that is ready. */
const tripMs = 20

/** What becomes of quotes whose clocks are of one of these kinds. */
function gateway(clock: string) {
  const ends = new Ends({ note() {} })
  const ownMs = { '20 s ahead': 20_000, '20 s behind': -20_000 }[clock] ?? 0
  const dateAt = (ms: number) => {
    if (clock === 'no Date') return undefined
    return new Date(
      clock === 'Date stands still' ? startMs - 3_600_000 : ms,
    ).toUTCString()
  }
  return (sentMs: number, tookMs: number, lifeMs: number): string => {
    const receivedMs = sentMs + tookMs
    const answer = {
      date: dateAt(receivedMs - tripMs),
      age: undefined,
      sentAtMs: sentMs + ownMs,
      sentSteadyMs: sentMs,
      receivedAtMs: receivedMs + ownMs,
      receivedSteadyMs: receivedMs,
    }
    const { becomes, end } = ends.fateOf(answer, sentMs + tripMs + lifeMs)
    if (becomes !== 'kept') return becomes
    const now = { nowMs: receivedMs + ownMs, steadyMs: receivedMs }
    return (serveLeftMs(end, now) / 1_000).toFixed(1)
  }
}

/** Seconds for which the quote is kept, or what else becomes of it. */
const grid = (text: string) =>
  text
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/ +/))

describe('a slow answer is judged by our clock alone where prompt answers have shown that it is right', () => {
  it.each([
    [
      'after prompt answers',
      60,
      // took life  right  ahead  behind  frozen  none
      `0.1   5  4.9   4.1   4.1   4.9   4.9
       0.1  10  9.9   9.1   9.1   9.9   9.9
       0.1  30  29.9  9.9   29.1  29.9  29.9
       1     5  4.0   2.2   2.2   4.0   4.0
       1    10  9.0   7.2   7.2   9.0   9.0
       1    30  29.0  9.0   27.2  29.0  29.0
       2     5  3.0   0.2   0.2   3.0   3.0
       2    10  8.0   5.2   5.2   8.0   8.0
       2    30  28.0  8.0   25.2  28.0  28.0
       6     5  ended ended ended ended ended
       6    10  4.0   ended ended 4.0   4.0
       6    30  24.0  4.0   17.2  24.0  24.0
       9     5  ended ended ended ended ended
       9    10  1.0   ended ended 1.0   1.0
       9    30  21.0  1.0   11.2  21.0  21.0`,
    ],
    [
      'as the first answer of a process, whose Date counts as well',
      0,
      `0.1   5  4.9   4.1   4.1   4.9   4.9
       0.1  10  9.9   9.1   9.1   9.9   9.9
       0.1  30  29.9  9.9   29.1  29.9  29.9
       1     5  4.0   2.2   2.2   4.0   4.0
       1    10  9.0   7.2   7.2   9.0   9.0
       1    30  29.0  9.0   27.2  29.0  29.0
       2     5  0.2   0.2   0.2   3.0   3.0
       2    10  5.2   5.2   5.2   8.0   8.0
       2    30  25.2  8.0   25.2  28.0  28.0
       6     5  ended ended ended ended ended
       6    10  relayed ended ended 4.0 4.0
       6    30  17.2  4.0   17.2  24.0  24.0
       9     5  ended ended ended ended ended
       9    10  relayed ended ended 1.0 1.0
       9    30  11.2  1.0   11.2  21.0  21.0`,
    ],
  ])('%s', (_what, prompt, expected) => {
    const rows = grid(expected)
    const found = rows.map(([took, life]) => {
      const cells = clocks.map((clock) => {
        const fateOf = gateway(clock)
        for (let index = 0; index < prompt; index += 1)
          fateOf(startMs + index * 2_000, 100, 30_000)
        const sentMs = startMs + prompt * 2_000
        return fateOf(sentMs, Number(took) * 1_000, Number(life) * 1_000)
      })
      return [took, life, ...cells]
    })
    expect(found).toEqual(rows)
  })

  it('until our clock is set: then its Date counts as well, up to the next prompt answer', () => {
    const ends = new Ends({ note() {} })
    /** Our clock is ahead by `aheadMs`. */
    const leftOf = (sentMs: number, tookMs: number, aheadMs: number) => {
      const receivedMs = sentMs + tookMs
      const answer = {
        date: new Date(receivedMs).toUTCString(),
        age: undefined,
        sentAtMs: sentMs + aheadMs,
        sentSteadyMs: sentMs,
        receivedAtMs: receivedMs + aheadMs,
        receivedSteadyMs: receivedMs,
      }
      const { end } = ends.fateOf(answer, sentMs + 30_000)
      const now = { nowMs: receivedMs + aheadMs, steadyMs: receivedMs }
      return end && serveLeftMs(end, now)
    }
    expect(leftOf(startMs, 100, 0)).toBe(29_900)
    expect(leftOf(startMs + 10_000, 6_000, 0)).toBe(24_000)
    expect(leftOf(startMs + 20_000, 6_000, 600)).toBe(30_000 - 2 * 6_000 - 1_250 + 400)
    expect(leftOf(startMs + 30_000, 100, 600)).toBe(29_300)
    expect(leftOf(startMs + 40_000, 6_000, 600)).toBe(23_400)
    // Contradicted once, it is known again from the next prompt answer on.
    leftOf(startMs + 50_000, 100, 20_000)
    for (let index = 0; index < 51; index += 1)
      expect(leftOf(startMs + 60_000 + index * 2_000, 6_000, 600)).toBe(17_150)
    leftOf(startMs + 200_000, 100, 600)
    expect(leftOf(startMs + 210_000, 6_000, 600)).toBe(23_400)
  })
})
