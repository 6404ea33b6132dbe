import { expect, it } from 'vitest'
import { ask, giveQuote, quoteBody, untilCounted } from '../support/clients/quotes.ts'
import { idOf, replicaStage, stored } from '../support/gateways/replicas.ts'

const lifeMs = 1_500

it.each([
  ['an hour behind', -3_600_000],
  ['two seconds behind', -2_000],
  ['an hour ahead', 3_600_000],
])(
  'a replica whose clock is %s serves no quote of another one past its expiry',
  { tags: ['redis-server'] },
  async (_what, aheadMs) => {
    const { upstream, here, there } = await replicaStage(2, {}, (index) => ({
      clock: { nowMs: () => Date.now() + (index === 1 ? aheadMs : 0) },
    }))
    upstream.answer((_request, response) => giveQuote(response, quoteBody({ expiry: Date.now() + lifeMs })))
    const fetched = await ask(here.url)
    const { id, expiry } = JSON.parse(fetched.body)
    await untilCounted(here, stored('quote-set'), 1)
    // It has asked the provider nothing yet, so all that it knows of the time is its own clock and the store.
    let served = 0
    for (;;) {
      const answer = await ask(there.url)
      if (idOf(answer) === id) {
        served += 1
        expect(answer.sentAtMs).toBeLessThan(expiry)
        expect(answer.headers['cache-control']).toMatch(/max-age=[01]$/)
      } else if (Date.now() > expiry) break
    }
    // A clock that is ahead finds every quote too old.
    if (aheadMs < 0) expect(served).toBeGreaterThan(10)
  },
)
