import type { ServerResponse } from 'node:http'
import { expect, it } from 'vitest'
import {
  ask,
  giveQuote,
  lookups,
  quoteBody,
  untilCounted,
} from '../support/clients/quotes.ts'
import { gatewayWith, recordingUpstream } from '../support/gateways/between.ts'

// One that expires each time before it can be written: test/regression/quote-in-turn.test.ts.
it('a quote that expires while its answers wait for their turn is fetched again for the late ones', async () => {
  // From the first answer on, every look at this clock costs a millisecond, as if each answer took that long to write.
  const time = { nowMs: Date.now(), tickMs: 0 }
  const nowMs = () => {
    time.nowMs += time.tickMs
    return time.nowMs
  }
  const give = (response: ServerResponse, id: string, lifeMs: number) =>
    giveQuote(response, quoteBody({ id, expiry: time.nowMs + lifeMs }), ['Date', 'none'])
  const upstream = await recordingUpstream((_request, response) => {
    if (upstream.requests.length > 1) return give(response, 'second', 30_000)
    void untilCounted(gateway, lookups('collapsed'), 63).then(() => {
      time.tickMs = 1
      give(response, 'first', 40)
    })
  })
  const gateway = await gatewayWith({ SWAP_BASE_URL: upstream.url }, { clock: { nowMs } })
  const answers = await Promise.all(Array.from({ length: 64 }, () => ask(gateway.url)))
  const ids = answers.map(({ body }): string => JSON.parse(body).id)
  const first = ids.filter((id) => id === 'first').length
  expect(first).toBeGreaterThan(0)
  expect(first).toBeLessThan(40)
  expect(ids.filter((id) => id === 'second')).toHaveLength(64 - first)
  expect(upstream.requests).toHaveLength(2)
})
