import { describe, expect, it } from 'vitest'
import { type GivenQuote, type OrderStage, orderStage } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import { counted } from '../support/clients/quotes.ts'

const minuteMs = 60_000
const price = '0.034512345678901234'

type Client = 'own' | 'stranger' | 'unknown'
const forwarded: Record<Client, string> = {
  own: 'for=192.0.2.1',
  stranger: 'for=192.0.2.2',
  unknown: 'for=unknown',
}

interface Stage extends OrderStage {
  quoteFor(client: Client, toAmount: string, lifeMs?: number): Promise<GivenQuote>
  /** An order of 0.1 ETH; undefined: it states no toAmount. */
  orderOf(toAmount: unknown, client?: Client, members?: object): ReturnType<OrderStage['order']>
  matched(decision: string, rule: string): Promise<number>
}

/** Clients behind a proxy that says who they are. Every quote is a new one. */
async function stageOf(settings = {}): Promise<Stage> {
  const all = { TRUST_PROXY: 'loopback', QUOTE_MIN_VALIDITY_MS: 86_400_000, ...settings }
  const stage = await orderStage(all)
  return {
    ...stage,
    quoteFor(client, toAmount, lifeMs = 30_000) {
      stage.provider.lifeMs = lifeMs
      stage.provider.quote = { toAmount: { assetId: 'USDC', value: toAmount } }
      return stage.quote('0.1', { headers: ['App-Name', 'wallet', 'Forwarded', forwarded[client]] })
    },
    orderOf(toAmount, client = 'own', members = {}) {
      const amount = toAmount === undefined ? '' : `,"toAmount":${toAmount}`
      const more = Object.entries(members).map(([name, value]) => `,"${name}":${JSON.stringify(value)}`)
      return stage.order(`{"pairId":"ETH_USDC","fromAmount":0.1${amount}${more.join('')}}`, {
        headers: ['App-Name: wallet', `Forwarded: ${forwarded[client]}`],
      })
    },
    matched: (decision, rule) =>
      counted(stage.gateway, `quotegate_float_order_matches_total{decision="${decision}",rule="${rule}"}`),
  }
}

describe('six rules match orders with quotes: an order for an amount as a page shows it', () => {
  const shown = ['0.034512', '"0.034512"', '0.034513', '0.03451235', '0.0345123457', '0.034512345678901234']
  it.each([...shown, '3.4512e-2', '0.0345120'])('is refused once its quote is over: %s', async (toAmount) => {
    const { clock, matched, orderOf, quoteFor } = await stageOf()
    const { expiry, id } = await quoteFor('own', price)
    clock.set(expiry - 1)
    expect((await orderOf(toAmount)).status).toBe(201)
    clock.set(expiry)
    expect(expectProblem(await orderOf(toAmount), 409, 'quote-expired').quoteId).toBe(id)
    const isExact = toAmount === shown.at(-1)
    expect(await matched('live', isExact ? 'exact' : 'pays')).toBe(1)
    expect(await matched('expired', isExact ? 'exact' : 'fallen')).toBe(1)
  })

  it.each(['own', 'stranger'] as const)(
    'is refused though there is a new price (of the page: %s), because it states the old one, which was higher',
    async (client) => {
      const { clock, matched, orderOf, quoteFor } = await stageOf()
      const { expiry, id } = await quoteFor('own', price)
      clock.set(expiry)
      await quoteFor(client, '0.0344')
      expect(expectProblem(await orderOf('0.034512'), 409, 'quote-expired').quoteId).toBe(id)
      expect(await matched('expired', 'fallen')).toBe(1)
      expect((await orderOf('0.0344')).status).toBe(201)
    },
  )

  it('is sent if a new price pays it too: a lower price costs the user nothing', async () => {
    const { clock, matched, orderOf, quoteFor } = await stageOf()
    clock.set((await quoteFor('own', price)).expiry)
    await quoteFor('stranger', '0.034513')
    expect((await orderOf('0.034512')).status).toBe(201)
    expect(await matched('live', 'pays')).toBe(1)
  })

  it('is refused for 15 minutes, by any client’s quote, and later only if no quote lives', async () => {
    const { clock, matched, orderOf, quoteFor } = await stageOf()
    const { expiry } = await quoteFor('stranger', price)
    clock.set(expiry + 15 * minuteMs - 1)
    await quoteFor('stranger', '0.0344')
    expectProblem(await orderOf('0.034512'), 409, 'quote-expired')
    clock.set(expiry + 15 * minuteMs)
    expect((await orderOf('0.034512')).status).toBe(201)
    expect(await matched('live', 'any')).toBe(1)
    clock.advance(30_000)
    expectProblem(await orderOf('0.034512'), 409, 'quote-expired')
    expect(await matched('expired', 'none')).toBe(1)
  })

  it.each([
    ['1234567.5', '1234567', 'fallen'],
    ['1234567.5', '1234568', 'fallen'],
    // Without the zeros at its end it has fewer than five digits, so it does not count as rounded; the order is its client's own.
    ['0.99991', '1.0000', 'none'],
    ['0.99991', '0.9999', 'none'],
    ['9.99996', '10.0000', 'none'],
    ['99999.6', '100000', 'none'],
  ])('is refused if rounding changes its digits: %s as %s', async (given, stated, rule) => {
    const { clock, matched, orderOf, quoteFor } = await stageOf()
    clock.set((await quoteFor('own', given)).expiry)
    expectProblem(await orderOf(stated), 409, 'quote-expired')
    expect(await matched('expired', rule)).toBe(1)
  })

  it.each(['0.034514', '0.034511', '0.0346'])('is another amount: %s', async (toAmount) => {
    const { clock, matched, orderOf, quoteFor } = await stageOf()
    const { expiry } = await quoteFor('own', price)
    clock.set(expiry)
    await quoteFor('own', '0.0344')
    expect((await orderOf(toAmount)).status).toBe(201)
    expect(await matched('live', 'any')).toBe(1)
  })
})

describe('an order with slippage taken off', () => {
  it('is for a live quote that pays it, whichever price of another client it equals', async () => {
    const { clock, matched, orderOf, quoteFor } = await stageOf()
    clock.set((await quoteFor('stranger', '283.852')).expiry)
    await quoteFor('own', '289.645')
    for (const toAmount of ['283.85', '283.852', '283.8521', '289.645'])
      expect((await orderOf(toAmount)).status).toBe(201)
    expect([await matched('live', 'pays'), await matched('live', 'exact')]).toEqual([3, 1])
  })

  it('is refused for six digits of its client’s own price of the last 15 minutes, and not for an older one', async () => {
    const { clock, matched, orderOf, quoteFor } = await stageOf()
    const { expiry } = await quoteFor('own', '283.852')
    clock.set(expiry + 15 * minuteMs - 1)
    await quoteFor('own', '289.645')
    expectProblem(await orderOf('283.852'), 409, 'quote-expired')
    expect(await matched('expired', 'exact')).toBe(1)
    clock.set(expiry + 15 * minuteMs)
    expect((await orderOf('283.852')).status).toBe(201)
  })

  it('is sent if it equals its client’s own price in five digits only', async () => {
    const { clock, orderOf, quoteFor } = await stageOf()
    clock.set((await quoteFor('own', '283.85')).expiry)
    await quoteFor('own', '289.645')
    expect((await orderOf('283.85')).status).toBe(201)
    expect((await orderOf('283.850')).status).toBe(201)
  })

  it('is refused for another client’s price of eight digits, because no two are equal by chance', async () => {
    const { clock, matched, orderOf, quoteFor } = await stageOf()
    clock.set((await quoteFor('stranger', '283.85123')).expiry + 60 * minuteMs)
    await quoteFor('own', '289.645')
    expectProblem(await orderOf('283.85123'), 409, 'quote-expired')
    expect(await matched('expired', 'exact')).toBe(1)
    expect((await orderOf('283.8512')).status).toBe(201)
  })

  it('is refused for any expired price that it equals if no quote lives', async () => {
    const { clock, orderOf, quoteFor } = await stageOf()
    clock.set((await quoteFor('stranger', '283.85123')).expiry + 60 * minuteMs)
    for (const toAmount of ['283.85123', '283.85', '283.86'])
      expectProblem(await orderOf(toAmount), 409, 'quote-expired')
  })
})

describe('an order whose toAmount matches no quote', () => {
  it.each([undefined, 289, '"about 289"', -1, '{"value":null}'])(
    'is refused if its client’s quote is over: %s',
    async (toAmount) => {
      const { clock, matched, orderOf, quoteFor } = await stageOf()
      clock.set((await quoteFor('own', '289.645')).expiry)
      expectProblem(await orderOf(toAmount), 409, 'quote-expired')
      expect(await matched('expired', 'none')).toBe(1)
    },
  )

  it('is unknown if only other clients’ quotes have expired, and refused without a toAmount', async () => {
    const { clock, matched, orderOf, quoteFor } = await stageOf()
    clock.set((await quoteFor('stranger', '289.645')).expiry)
    expect((await orderOf(289)).status).toBe(201)
    expect(await matched('unknown', 'none')).toBe(1)
    expectProblem(await orderOf(undefined), 409, 'quote-expired')
  })

  it('is sent if any client has a matching live quote', async () => {
    const { clock, matched, orderOf, quoteFor } = await stageOf()
    clock.set((await quoteFor('own', '289.645')).expiry)
    await quoteFor('stranger', '290')
    for (const toAmount of [undefined, 289, 290.5]) expect((await orderOf(toAmount)).status).toBe(201)
    expect([await matched('live', 'pays'), await matched('live', 'any')]).toEqual([2, 1])
  })

  it('is refused a day later too, and unknown once LEDGER_RETENTION_MS is over', async () => {
    const { clock, orderOf, quoteFor } = await stageOf()
    const { expiry } = await quoteFor('own', '289.645')
    for (const afterMs of [15 * minuteMs + 1_000, 86_399_999]) {
      clock.set(expiry + afterMs)
      expectProblem(await orderOf('289.645'), 409, 'quote-expired')
    }
    clock.set(expiry + 86_400_000)
    expect((await orderOf('289.645')).status).toBe(201)
  })
})

describe('a client without an address', () => {
  it('has no quotes of its own', async () => {
    const { clock, orderOf, quoteFor } = await stageOf()
    await quoteFor('unknown', '283.852')
    clock.advance(30_000)
    await quoteFor('unknown', '289.645')
    // Six digits refuse only a client's own order; a live quote pays this one.
    expect((await orderOf('283.852', 'unknown')).status).toBe(201)
    clock.advance(30_000)
    expect((await orderOf('280', 'unknown')).status).toBe(201)
    expectProblem(await orderOf('283.852', 'unknown'), 409, 'quote-expired')
    expectProblem(await orderOf(undefined, 'unknown'), 409, 'quote-expired')
  })
})

it('a client of a partition that is not an address has no price of its own by six digits, and has its quotes', async () => {
  const { clock, orderOf, quoteFor } = await stageOf({ QUOTE_PARTITION: 'none' })
  await quoteFor('stranger', '283.852')
  await quoteFor('stranger', '283.85123')
  clock.advance(30_000)
  await quoteFor('stranger', '289.645')
  expect((await orderOf('283.852')).status).toBe(201)
  expectProblem(await orderOf('283.85123'), 409, 'quote-expired')
  clock.advance(30_000)
  expectProblem(await orderOf('7'), 409, 'quote-expired')
})

describe('an id that is not known here', () => {
  it('counts as another source’s quote, unless it is a bare id, which may be the client’s own number', async () => {
    const { clock, matched, orderOf, quoteFor } = await stageOf()
    clock.set((await quoteFor('own', '289.645')).expiry)
    expect((await orderOf('289.645', 'own', { quoteId: 'q' })).status).toBe(201)
    expect((await orderOf('289.645', 'own', { quote: { id: 'q' } })).status).toBe(201)
    expect(await matched('unknown', 'id')).toBe(2)
    expectProblem(await orderOf('289.645', 'own', { id: 'my-order-1' }), 409, 'quote-expired')
  })
})

describe('the quote of an order is its client’s own rather than another client’s', () => {
  it('in the refusal', async () => {
    const { clock, orderOf, quoteFor } = await stageOf()
    const own = await quoteFor('own', '289.645', 10_000)
    const other = await quoteFor('stranger', '289.645', 20_000)
    clock.set(other.expiry)
    for (const toAmount of ['289.645', '289.64', undefined, 7])
      expect(expectProblem(await orderOf(toAmount), 409, 'quote-expired').quoteId).toBe(own.id)
  })

  it('when an accepted order uses it up', async () => {
    const { orderOf, quoteFor } = await stageOf({ QUOTE_MIN_VALIDITY_MS: 0 })
    const own = await quoteFor('own', '289.645', 10_000)
    const other = await quoteFor('stranger', '289.645', 20_000)
    expect((await orderOf('289.645')).status).toBe(201)
    expect((await quoteFor('own', '290')).id).not.toBe(own.id)
    expect((await quoteFor('stranger', '290')).id).toBe(other.id)
  })
})

it('a pair and an App-Name longer than 256 characters are known like any other', async () => {
  const { clock, order, provider, quote } = await orderStage()
  const [pair, name] = ['P'.repeat(300), 'n'.repeat(300)]
  provider.quote = { pairId: pair }
  const options = { path: `/v3/pairs/${pair}/quotes?amount=0.1`, headers: ['App-Name', name] }
  clock.set((await quote('0.1', options)).expiry)
  const body = { pairId: pair, fromAmount: 0.1 }
  const refused = expectProblem(await order(body, { headers: [`App-Name: ${name}`] }), 409, 'quote-expired')
  expect(refused.pairId).toBe(pair)
  expect((await order({ ...body, pairId: `${pair}P` }, { headers: [`App-Name: ${name}`] })).status).toBe(201)
})
