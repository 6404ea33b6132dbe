import { describe, expect, it } from 'vitest'
import { playTwoEdges } from '../support/clients/two-edges.ts'

/** A `Date` is cut to whole seconds, and believed to 250 ms on either side. */
const widthMs = 1_500

// What the end of a quote is by the clocks and Dates of one answer and those before it: ends.test.ts.
describe('no expired quote is served and no live order refused with two edges of the provider, of which', () => {
  it.each<[string, Partial<Parameters<typeof playTwoEdges>[0]>, number]>([
    ['one is right, the other 1.5 s ahead', { offsetsMs: [0, 1_500] }, 0],
    ['one is right, the other 5 s behind', { offsetsMs: [0, -5_000] }, 0],
    ['both are wrong, either way', { offsetsMs: [-750, 750] }, 0],
    ['one is 5 s ahead, and both are slow', { offsetsMs: [0, 5_000], legMs: 800 }, 0],
    // Too near to be distinguished: a Date may lag by as much.
    ['one is 0.2 s ahead', { offsetsMs: [0, 200] }, 200],
    ['one is 0.2 s behind', { offsetsMs: [0, -200] }, 200],
  ])('%s', async (_name, edges, uncertainMs) => {
    const ordinary = {
      offsetsMs: [0, 0],
      lifeMs: 6_000,
      legMs: 50,
      lagMs: 250,
      steps: 300,
      seed: 11,
    } as const
    const { offsetsMs, ...played } = { ...ordinary, ...edges }
    const outcome = await playTwoEdges({ ...played, offsetsMs })
    if (uncertainMs === 0) expect(outcome).toMatchObject({ servedLate: 0, liveRefused: 0 })
    expect(outcome.servedLateMs).toBeLessThanOrEqual(uncertainMs)
    expect(outcome.refusedEarlyMs).toBeLessThanOrEqual(uncertainMs)
    const sentLateMs = Math.abs(offsetsMs[0] - offsetsMs[1]) + widthMs + 2 * (played.legMs - ordinary.legMs)
    expect(outcome.sentLateMs).toBeLessThanOrEqual(sentLateMs)
    // The cache was at work, and orders were judged on both sides of the end.
    expect(outcome.served).toBe(300)
    expect(Math.min(outcome.hits, outcome.liveOrders, outcome.expiredOrders)).toBeGreaterThan(30)
    expect(outcome.expiredSent).toBeLessThan(outcome.expiredOrders / 2)
  })
})
