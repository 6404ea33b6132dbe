import { expect, test } from 'vitest'
import { playFailingPair } from '../support/clients/failing-pair.ts'

// Orders shared one breaker with quotes. With 50 % of one pair's quotes failing, 2 of 24 live orders were accepted
// though the order endpoint was well, and with 70 % none.
test.each([0.3, 0.5, 0.7, 1])(
  'while %f of the quotes of one pair fail, every live order is accepted',
  async (failing) => {
    const settings = { breakerOpenMs: 60_000 }
    const played = await playFailingPair({
      failing,
      quotes: 240,
      quotesPerOrder: 10,
      // A breaker opens only if the first failure in a row is a second old.
      quotesPerSecond: failing === 1 ? 100 : 0,
      settings,
    })
    expect(played).toMatchObject({ ordersAccepted: 24, ordersRefused: 0 })
    expect(played.quotesGiven + played.quotesFailed + played.quotesRefused).toBe(241)
    // Requests of the pair itself are still not sent.
    if (failing === 1) expect(played.quotesRefused).toBeGreaterThan(0)
  },
)
