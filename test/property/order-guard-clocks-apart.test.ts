import fc from 'fast-check'
import { expect, it } from 'vitest'
import { history, play } from '../support/clients/order-histories.ts'
import { orderStage } from '../support/clients/orders.ts'

// A Date is cut to whole seconds, and believed to 250 ms on either side.
const widthMs = 1_500

it.each([30_000, -30_000])(
  'a live quote is never refused, and an expired one forwarded for 1.5 s at most, by a provider whose clock is %d ms ahead',
  async (offsetMs) => {
    let passedLate = 0
    await fc.assert(
      fc.asyncProperty(history, fc.integer({ min: -999, max: 999 }), async (steps, partMs) => {
        const stage = await orderStage()
        stage.provider.offsetMs = offsetMs + partMs
        await play(stage, steps, (overForMs, wasForwarded) => {
          if (overForMs < 0) expect(wasForwarded).toBe(true)
          if (overForMs >= widthMs) expect(wasForwarded).toBe(false)
          if (overForMs >= 0 && wasForwarded) passedLate += 1
        })
        await stage.gateway.close()
        await stage.upstream.close()
      }),
      { numRuns: 100 },
    )
    expect(passedLate).toBeGreaterThan(3)
  },
)
