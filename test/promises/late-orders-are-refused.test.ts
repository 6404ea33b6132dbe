import { describe, expect, it } from 'vitest'
import { type GivenQuote, orderStage, termsOf } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'

const lifeMs = 30_000
const marginMs = 2_000
const retentionMs = 120_000

const orders: Record<string, (quote: GivenQuote) => object> = {
  'its id': ({ id }) => ({ quoteId: id }),
  'its terms': termsOf,
  nothing: (quote) => ({ ...termsOf(quote), fromAmount: 7, quoteId: 'never-seen' }),
}

const byIdOrTerms = ['its id', 'its terms']
/** When, by which order, with which margin: what is said of it then. */
const moments: [by: string[], afterMs: number, marginMs: number, becomes: 'live' | 'expired' | 'unknown'][] =
  [
    [byIdOrTerms, 0, 0, 'live'],
    [byIdOrTerms, lifeMs - 1, 0, 'live'],
    [byIdOrTerms, lifeMs, 0, 'expired'],
    [byIdOrTerms, lifeMs + 1, 0, 'expired'],
    [byIdOrTerms, lifeMs - marginMs - 1, marginMs, 'live'],
    [byIdOrTerms, lifeMs - marginMs, marginMs, 'expired'],
    [byIdOrTerms, lifeMs - 1, marginMs, 'expired'],
    [byIdOrTerms, lifeMs + 1, marginMs, 'expired'],
    [byIdOrTerms, lifeMs + retentionMs - 1, marginMs, 'expired'],
    [byIdOrTerms, lifeMs + retentionMs, 0, 'unknown'],
    [['nothing'], 0, 0, 'unknown'],
    [['nothing'], lifeMs - 1, marginMs, 'unknown'],
    [['nothing'], lifeMs, 0, 'unknown'],
  ]
const table = moments.flatMap(([by, afterMs, margin, becomes]) =>
  by.flatMap((kind) =>
    (['forward', 'refuse'] as const).map(
      (unknownQuote) => [kind, afterMs - lifeMs, margin, unknownQuote, becomes] as const,
    ),
  ),
)

describe('an order for a quote that has expired is refused, one for a live quote is sent: named by', () => {
  it.each(table)(
    '%s, %d ms after its expiry, with a margin of %d ms, to %s clients: the quote is %s',
    async (kind, sinceExpiryMs, margin, unknownQuote, becomes) => {
      const { arrived, clock, decided, order, quote } = await orderStage({
        ORDER_EXPIRY_MARGIN_MS: margin,
        ORDER_UNKNOWN_QUOTE: unknownQuote,
        LEDGER_RETENTION_MS: retentionMs,
      })
      const given = await quote()
      clock.set(given.expiry + sinceExpiryMs)
      const answer = await order(orders[kind]?.(given) ?? {})
      const counts = {
        'forwarded live': await decided('forwarded', 'live'),
        'forwarded unknown': await decided('forwarded', 'unknown'),
        'refused expired': await decided('refused', 'expired'),
        'refused unknown': await decided('refused', 'unknown'),
      }
      const goesOn = becomes === 'live' || (becomes === 'unknown' && unknownQuote === 'forward')
      expect(counts).toEqual({
        ...{ 'forwarded live': 0, 'forwarded unknown': 0, 'refused expired': 0, 'refused unknown': 0 },
        [`${goesOn ? 'forwarded' : 'refused'} ${becomes}`]: 1,
      })
      expect(arrived()).toHaveLength(goesOn ? 1 : 0)
      if (goesOn) {
        expect(answer.status).toBe(201)
      } else if (becomes === 'unknown') {
        expectProblem(answer, 409, 'quote-unknown')
      } else {
        expect(expectProblem(answer, 409, 'quote-expired')).toMatchObject({
          quoteId: given.id,
          pairId: 'ETH_USDC',
          expiry: given.expiry,
          expiredForMs: Math.max(0, sinceExpiryMs),
        })
      }
    },
  )
})

describe('of several quotes', () => {
  it('with equal terms the one that expires last counts, whichever came first', async () => {
    for (const lives of [
      [20_000, 30_000],
      [30_000, 20_000],
    ]) {
      const { arrived, clock, order, provider, quote } = await orderStage({ QUOTE_MIN_VALIDITY_MS: 60_000 })
      const given: GivenQuote[] = []
      for (const lifeMs of lives) {
        provider.lifeMs = lifeMs
        given.push(await quote())
      }
      const lastExpiry = Math.max(...given.map(({ expiry }) => expiry))
      clock.set(lastExpiry - 1)
      expect((await order(termsOf(given[0] as GivenQuote))).status).toBe(201)
      clock.set(lastExpiry)
      expectProblem(await order(termsOf(given[0] as GivenQuote)), 409, 'quote-expired')
      expect(arrived()).toHaveLength(1)
    }
  })

  it('the one that the order names decides alone, though its terms are those of a live one', async () => {
    const { clock, order, provider, quote } = await orderStage({ QUOTE_MIN_VALIDITY_MS: 60_000 })
    provider.lifeMs = 1_000
    const first = await quote()
    provider.lifeMs = 30_000
    await quote()
    clock.advance(1_000)
    expect((await order(termsOf(first))).status).toBe(201)
    const refused = await order({ ...termsOf(first), quoteId: first.id })
    expect(expectProblem(refused, 409, 'quote-expired').quoteId).toBe(first.id)
  })

  it('one live quote among those that an order names is enough', async () => {
    const { arrived, clock, order, provider, quote } = await orderStage({ QUOTE_MIN_VALIDITY_MS: 60_000 })
    provider.lifeMs = 1_000
    const { id: first } = await quote()
    provider.lifeMs = 30_000
    const { id: second, expiry } = await quote()
    clock.advance(1_000)
    expect((await order({ quoteId: first, id: second })).status).toBe(201)
    expect((await order({ quoteId: second, id: first })).status).toBe(201)
    clock.set(expiry)
    const refused = await order({ quoteId: first, id: second })
    expect(expectProblem(refused, 409, 'quote-expired').quoteId).toBe(second)
    expect(arrived()).toHaveLength(2)
  })
})

describe('the application', () => {
  it('of an order that names its quote does not matter', async () => {
    const { clock, order, quote } = await orderStage({ ORDER_UNKNOWN_QUOTE: 'refuse' })
    const { id, expiry } = await quote()
    for (const headers of [['App-Name: another'], []]) {
      expect((await order({ quoteId: id }, { headers })).status).toBe(201)
    }
    clock.set(expiry)
    expectProblem(await order({ quoteId: id }, { headers: ['App-Name: another'] }), 409, 'quote-expired')
  })

  it.each([
    ['another', ['App-Name: another']],
    ['none', []],
    ['one that only differs in case', ['App-Name: Wallet']],
  ])(
    'of an order that names no quote must be the one that received the quote: %s',
    async (_what, headers) => {
      const { order, quote } = await orderStage({ ORDER_UNKNOWN_QUOTE: 'refuse' })
      const given = await quote()
      expectProblem(await order(termsOf(given), { headers }), 409, 'quote-unknown')
      expect((await order(termsOf(given))).status).toBe(201)
    },
  )

  it('is SWAP_APP_NAME where the caller sends none, on the quote or on the order', async () => {
    const { clock, order, quote } = await orderStage({ SWAP_APP_NAME: 'ours', ORDER_UNKNOWN_QUOTE: 'refuse' })
    const given = await quote('0.1', { headers: [] })
    for (const headers of [[], ['App-Name: ours']]) {
      expect((await order(termsOf(given), { headers })).status).toBe(201)
    }
    clock.set(given.expiry)
    expectProblem(await order(termsOf(given), { headers: [] }), 409, 'quote-expired')
  })

  it('is distinguished from another one even if its name is thousands of bytes long', async () => {
    const { order, quote } = await orderStage({ ORDER_UNKNOWN_QUOTE: 'refuse' })
    const name = 'n'.repeat(5_000)
    const given = await quote('0.1', { headers: ['App-Name', name] })
    expect((await order(termsOf(given), { headers: [`App-Name: ${name}`] })).status).toBe(201)
    expectProblem(await order(termsOf(given), { headers: [`App-Name: ${name}n`] }), 409, 'quote-unknown')
  })
})
