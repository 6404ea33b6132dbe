import { describe, expect, it } from 'vitest'
import { orderStage, termsOf } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'

const lifeMs = 30_000
const rememberedMs = 86_400_000
const ofAnother = { quoteId: 'never-seen' }

describe('an order for a quote that has expired is refused, one for a live quote is sent: the quote is', () => {
  it.each([
    ['live', -lifeMs, 0],
    ['live', -1, 0],
    ['expired', 0, 0],
    ['expired', 1, 0],
    ['live', -2_001, 2_000],
    ['expired', -2_000, 2_000],
    ['expired', 1, 2_000],
    ['expired', rememberedMs - 1, 0],
    ['unknown', rememberedMs, 0],
  ])(
    '%s %d ms after its expiry, with a margin of %d ms',
    async (becomes, sinceExpiryMs, margin) => {
      const { arrived, clock, decided, order, quote } = await orderStage({
        ORDER_EXPIRY_MARGIN_MS: margin,
        ORDER_UNKNOWN_QUOTE: 'refuse',
      })
      const given = await quote()
      clock.set(given.expiry + sinceExpiryMs)
      for (const named of [{ quoteId: given.id }, termsOf(given)]) {
        const answer = await order(named)
        if (becomes === 'live') expect(answer.status).toBe(201)
        else if (becomes === 'unknown') expectProblem(answer, 409, 'quote-unknown')
        else
          expect(expectProblem(answer, 409, 'quote-expired')).toMatchObject({
            quoteId: given.id,
            pairId: 'ETH_USDC',
            expiry: given.expiry,
            expiredForMs: Math.max(0, sinceExpiryMs),
          })
      }
      expect(arrived()).toHaveLength(becomes === 'live' ? 2 : 0)
      expect(await decided(becomes === 'live' ? 'forwarded' : 'refused', becomes)).toBe(2)
    },
  )

  it.each([
    ['forward', 'forwarded', 201],
    ['refuse', 'refused', 409],
  ])('of another source: %s', async (unknownQuote, decision, status) => {
    const { clock, decided, order, quote } = await orderStage({
      ORDER_UNKNOWN_QUOTE: unknownQuote,
    })
    const given = await quote()
    for (const nowMs of [given.expiry - 1, given.expiry]) {
      clock.set(nowMs)
      expect((await order({ ...termsOf(given), ...ofAnother })).status).toBe(status)
    }
    expect(await decided(decision, 'unknown')).toBe(2)
  })
})

describe('the application', () => {
  const long = 'n'.repeat(5_000)

  it.each([
    ['another', 'wallet', ['App-Name: another']],
    ['none', 'wallet', []],
    ['one that only differs in case', 'wallet', ['App-Name: Wallet']],
    ['one that differs past thousands of bytes', long, [`App-Name: ${long}n`]],
  ])(
    'refuses nothing by a quote of another one, unless the order names it: %s',
    async (_what, name, headers) => {
      const { clock, order, quote } = await orderStage({ ORDER_UNKNOWN_QUOTE: 'refuse' })
      const given = await quote('0.1', { headers: ['App-Name', name] })
      // While it lives, it may be the one that is meant.
      expect((await order(termsOf(given), { headers })).status).toBe(201)
      expect((await order({ quoteId: given.id }, { headers })).status).toBe(201)
      clock.set(given.expiry)
      expectProblem(await order(termsOf(given), { headers }), 409, 'quote-unknown')
      expectProblem(await order({ quoteId: given.id }, { headers }), 409, 'quote-expired')
      const same = { headers: [`App-Name: ${name}`] }
      expectProblem(await order(termsOf(given), same), 409, 'quote-expired')
    },
  )

  it('is SWAP_APP_NAME where the caller sends none, on the quote or on the order', async () => {
    const { clock, order, quote } = await orderStage({
      SWAP_APP_NAME: 'ours',
      ORDER_UNKNOWN_QUOTE: 'refuse',
    })
    const given = await quote('0.1', { headers: [] })
    for (const headers of [[], ['App-Name: ours']])
      expect((await order(termsOf(given), { headers })).status).toBe(201)
    clock.set(given.expiry)
    expectProblem(await order(termsOf(given), { headers: [] }), 409, 'quote-expired')
  })
})
