import fc from 'fast-check'
import { expect, it } from 'vitest'
import { history, play } from '../support/clients/order-histories.ts'
import { orderStage } from '../support/clients/orders.ts'

// A Date is cut to whole seconds, and believed to 250 ms on either side.
const widthMs = 1_500
const maxPartMs = 999

/** Of a provider that is ahead, our clock says for so much longer that a quote lives. */
it.each([
  [30_000, 30_000 + maxPartMs],
  [-30_000, 0],
])(
  'a live quote is never refused by a provider whose clock is %d ms ahead, and an expired one forwarded for %d ms and 1.5 s at most',
  async (offsetMs, apartMs) => {
    let passedLate = 0
    await fc.assert(
      fc.asyncProperty(history, fc.integer({ min: -maxPartMs, max: maxPartMs }), async (steps, partMs) => {
        const stage = await orderStage()
        stage.provider.offsetMs = offsetMs + partMs
        await play(stage, steps, (overForMs, wasForwarded) => {
          if (overForMs < 0) expect(wasForwarded).toBe(true)
          if (overForMs >= apartMs + widthMs) expect(wasForwarded).toBe(false)
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
