import fc from 'fast-check'
import { expect, it } from 'vitest'
import { history, play } from '../support/clients/order-histories.ts'
import { orderStage } from '../support/clients/orders.ts'

it('a live quote is never refused and an expired one never forwarded, when the clocks agree', async () => {
  let edges = 0
  await fc.assert(
    fc.asyncProperty(history, async (steps) => {
      const stage = await orderStage()
      await play(stage, steps, (overForMs, wasForwarded) => {
        expect(wasForwarded).toBe(overForMs < 0)
        if (Math.abs(overForMs) <= 1) edges += 1
      })
      await stage.gateway.close()
      await stage.upstream.close()
    }),
    { numRuns: 150 },
  )
  // The property was put to the test where it is hardest, or this shows little.
  expect(edges).toBeGreaterThan(5)
})
