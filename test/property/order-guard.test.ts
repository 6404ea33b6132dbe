import fc from 'fast-check'
import { expect, it } from 'vitest'
import { history, play } from '../support/clients/order-histories.ts'
import { orderStage } from '../support/clients/orders.ts'

// A Date is cut to whole seconds, and believed to 250 ms on either side.
const widthMs = 1_500

const clocks = [
  { clocks: 'the clocks agree', offsetMs: 0, maxPartMs: 0, lateMs: 0, runs: 150 },
  // Our clock says for half a minute longer that a quote lives, and the later of the two counts for orders.
  {
    clocks: 'the provider is 30 s ahead',
    offsetMs: 30_000,
    maxPartMs: 999,
    lateMs: 30_999 + widthMs,
    runs: 50,
  },
  { clocks: 'the provider is 30 s behind', offsetMs: -30_000, maxPartMs: 999, lateMs: widthMs, runs: 50 },
]

it.each(clocks)(
  'a live quote is never refused and an expired one never forwarded, or for as long as the clocks differ and 1.5 s: $clocks',
  async ({ offsetMs, maxPartMs, lateMs, runs }) => {
    let seen = 0
    await fc.assert(
      fc.asyncProperty(history, fc.integer({ min: -maxPartMs, max: maxPartMs }), async (steps, partMs) => {
        const stage = await orderStage()
        stage.provider.offsetMs = offsetMs + partMs
        await play(stage, steps, (overForMs, wasForwarded) => {
          if (overForMs < 0) expect(wasForwarded).toBe(true)
          if (overForMs >= lateMs) expect(wasForwarded).toBe(false)
          if (lateMs === 0 ? Math.abs(overForMs) <= 1 : overForMs >= 0 && wasForwarded) seen += 1
        })
        await stage.gateway.close()
        await stage.upstream.close()
      }),
      { numRuns: runs },
    )
    // Orders were judged where it is hardest: at the end to a millisecond, or late by no more than is allowed.
    expect(seen).toBeGreaterThan(lateMs === 0 ? 5 : 1)
  },
)
