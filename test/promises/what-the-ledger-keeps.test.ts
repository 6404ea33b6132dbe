import { describe, expect, it } from 'vitest'
import {
  type GivenQuote,
  type OrderStage,
  orderStage,
  termsOf,
} from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import { ask, counted, untilCounted } from '../support/clients/quotes.ts'
import { keptLog, levels } from '../support/observing/log-lines.ts'

/** Given by a provider that is set so, whose answer the cache does not keep, and says why. */
const notKept =
  (provider: Partial<OrderStage['provider']>, why: RegExp) =>
  async (stage: OrderStage) => {
    Object.assign(stage.provider, provider)
    const given = await stage.quote()
    expect(given.cacheStatus).toMatch(why)
    return given
  }

type Way = [
  what: string,
  settings: Record<string, number>,
  give: (stage: OrderStage) => Promise<GivenQuote>,
]

describe('an order is judged by every quote that a user was given: one that was', () => {
  it.each<Way>([
    ['fetched', {}, ({ quote }) => quote()],
    [
      'shared by several requests at once',
      {},
      async ({ quote }) => (await Promise.all([quote(), quote()]))[1],
    ],
    [
      'requested with HEAD',
      {},
      async ({ gateway, quote, upstream }) => {
        await ask(gateway.url, { method: 'HEAD' })
        const given = await quote()
        expect(upstream.requests).toHaveLength(1)
        return given
      },
    ],
    [
      'fetched in the background',
      { QUOTE_MIN_VALIDITY_MS: 0, QUOTE_REFRESH_AHEAD_MS: 5_000 },
      async ({ clock, gateway, quote }) => {
        const first = await quote()
        clock.set(first.expiry - 1_000)
        expect((await quote()).id).toBe(first.id)
        await untilCounted(
          gateway,
          'quotegate_quote_refreshes_total{outcome="stored"}',
          1,
        )
        const second = await quote()
        expect([second.id === first.id, /hit/.test(second.cacheStatus)]).toEqual([
          false,
          true,
        ])
        return second
      },
    ],
    ['not to be cached', {}, notKept({ quoteHeaders: ['Vary', '*'] }, /vary/)],
    [
      'too large to be cached',
      { quoteBytes: 1_024 },
      notKept({ quote: { note: 'x'.repeat(2_000) } }, /too-large/),
    ],
    [
      'too near its end to be cached, by the Date of its answer',
      {},
      notKept({ offsetMs: 30_000, lifeMs: 1_000 }, /expired/),
    ],
    [
      'pushed out of the cache by others, and ordered already',
      { QUOTE_CACHE_ENTRIES: 1 },
      async ({ order, quote }) => {
        const given = await quote('0.1')
        await quote('0.2')
        expect((await order(termsOf(given))).status).toBe(201)
        return given
      },
    ],
  ])('%s', async (_what, settings, give) => {
    const stage = await orderStage(settings)
    const given = await give(stage)
    const before = stage.arrived().length
    stage.clock.set(Math.max(stage.clock.nowMs(), given.expiry))
    for (const body of [termsOf(given), { quoteId: given.id }])
      expect(expectProblem(await stage.order(body), 409, 'quote-expired').quoteId).toBe(
        given.id,
      )
    expect(stage.arrived()).toHaveLength(before)
  })
})

describe('a full ledger drops what was noted first, even if it is live: the ledger', () => {
  it('forgets what was noted first once LEDGER_ENTRIES are exceeded', async () => {
    const stage = await orderStage({ LEDGER_ENTRIES: 2, ORDER_UNKNOWN_QUOTE: 'refuse' })
    const given: GivenQuote[] = []
    for (const amount of ['1', '2', '3']) {
      given.push(await stage.quote(amount))
      stage.clock.advance(1)
    }
    const [first, ...others] = given
    expectProblem(await stage.order({ quoteId: first?.id }), 409, 'quote-unknown')
    for (const { id } of others)
      expect((await stage.order({ quoteId: id })).status).toBe(201)
  })

  it('says how far back it reaches, and warns once it forgets what orders may still be judged by', async () => {
    const log = await keptLog('warn')
    const stage = await orderStage({ LEDGER_ENTRIES: 2 }, { logger: log.logger })
    const warnings = () =>
      log.lines(levels.warn).filter(({ msg }) => msg.includes('LEDGER_ENTRIES'))
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
})
