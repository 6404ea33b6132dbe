import { describe, expect, it } from 'vitest'
import { type GivenQuote, type OrderStage, orderStage, termsOf } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import { ask, counted, lookups, untilCounted } from '../support/clients/quotes.ts'
import { keptLog, levels } from '../support/observing/log-lines.ts'

/** A quote that is known is refused by its terms and by its id once it is over, and told apart from another. */
async function expectKnown({ arrived, clock, order }: OrderStage, given: GivenQuote): Promise<void> {
  const before = arrived().length
  clock.set(Math.max(clock.nowMs(), given.expiry))
  for (const body of [termsOf(given), { quoteId: given.id }]) {
    expect(expectProblem(await order(body), 409, 'quote-expired').quoteId).toBe(given.id)
  }
  expect(arrived()).toHaveLength(before)
}

describe('an order is judged by every quote that a client was given: one that was', () => {
  it('fetched', async () => {
    const stage = await orderStage()
    await expectKnown(stage, await stage.quote())
  })

  it('requested with HEAD', async () => {
    const stage = await orderStage()
    stage.provider.quote = { id: 'unseen' }
    await ask(stage.gateway.url, { method: 'HEAD' })
    await expectKnown(stage, await stage.quote())
    expect(stage.upstream.requests).toHaveLength(1)
  })

  it('shared by several requests at once', async () => {
    const stage = await orderStage()
    const given = await Promise.all([stage.quote(), stage.quote(), stage.quote()])
    expect(new Set(given.map(({ id }) => id)).size).toBe(1)
    for (const quote of given) await expectKnown(stage, quote)
  })

  it('fetched in the background', async () => {
    const stage = await orderStage({ QUOTE_REFRESH_AHEAD_MS: 5_000 })
    const first = await stage.quote()
    stage.clock.set(first.expiry - 1_000)
    expect((await stage.quote()).id).toBe(first.id)
    await untilCounted(stage.gateway, 'quotegate_quote_refreshes_total{outcome="stored"}', 1)
    const second = await stage.quote()
    expect([second.id === first.id, /hit/.test(second.cacheStatus)]).toEqual([false, true])
    await expectKnown(stage, second)
  })

  it('not to be cached', async () => {
    const stage = await orderStage()
    stage.provider.quoteHeaders = ['Vary', '*']
    const given = await stage.quote()
    expect(given.cacheStatus).toMatch(/bypass/)
    await expectKnown(stage, given)
  })

  it('too large to be cached', async () => {
    const stage = await orderStage({ quoteBytes: 1_024 })
    stage.provider.quote = { note: 'x'.repeat(2_000) }
    const given = await stage.quote()
    expect(given.cacheStatus).toMatch(/too-large/)
    await expectKnown(stage, given)
  })

  it('too near its end to be cached, by the Date of its answer', async () => {
    const stage = await orderStage()
    stage.provider.offsetMs = 30_000
    stage.provider.lifeMs = 1_000
    const given = await stage.quote()
    expect(given.cacheStatus).toMatch(/expired/)
    await expectKnown(stage, given)
  })

  it('pushed out of the cache by others', async () => {
    const stage = await orderStage({ QUOTE_CACHE_ENTRIES: 1 })
    const given = await stage.quote('0.1')
    stage.provider.quote = { fromAmount: { assetId: 'ETH', value: '0.2' } }
    await stage.quote('0.2')
    await expectKnown(stage, given)
  })

  it('ordered already', async () => {
    const stage = await orderStage()
    const given = await stage.quote()
    expect((await stage.order(termsOf(given))).status).toBe(201)
    await expectKnown(stage, given)
  })
})

describe('a full ledger drops what was noted first, even if it is live: the ledger', () => {
  it('forgets what was noted first once LEDGER_ENTRIES are exceeded', async () => {
    const stage = await orderStage({ LEDGER_ENTRIES: 2, ORDER_UNKNOWN_QUOTE: 'refuse' })
    const given: GivenQuote[] = []
    for (const amount of ['1', '2', '3']) {
      stage.provider.quote = { fromAmount: { assetId: 'ETH', value: amount } }
      given.push(await stage.quote(amount))
      stage.clock.advance(1)
    }
    const [first, ...others] = given
    expectProblem(await stage.order({ quoteId: first?.id }), 409, 'quote-unknown')
    for (const { id } of others) expect((await stage.order({ quoteId: id })).status).toBe(201)
  })

  it('says how far back it reaches, and warns once it forgets what orders may still be judged by', async () => {
    const log = await keptLog('warn')
    const stage = await orderStage({ LEDGER_ENTRIES: 2 }, { logger: log.logger })
    const warnings = () => log.lines(levels.warn).filter(({ msg }) => msg.includes('LEDGER_ENTRIES'))
    const reach = () => counted(stage.gateway, 'quotegate_ledger_reach_seconds')
    for (const amount of ['1', '2']) await stage.quote(amount)
    stage.clock.advance(60_000)
    expect(await reach()).toBe(60)
    expect(warnings()).toEqual([])
    stage.clock.advance(840_000)
    await stage.quote('3')
    expect(await reach()).toBe(870)
    expect(warnings()).toHaveLength(1)
    stage.clock.advance(60_000)
    expect(await reach()).toBe(930)
  })

  it('counts only lookups of quotes', async () => {
    const stage = await orderStage()
    const given = await stage.quote()
    await stage.order(termsOf(given))
    expect(await stage.gateway.metrics()).toContain(`${lookups('miss')} 1`)
    expect(await stage.gateway.metrics()).toContain(`${lookups('hit')} 0`)
  })
})
