import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import {
  type GivenQuote,
  type OrderStage,
  orderStage,
} from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import { ask, counted } from '../support/clients/quotes.ts'

const lifeMs = 30_000
const minuteMs = 60_000
const price = '0.034512345678901234'

type Client = 'own' | 'other' | 'unknown'
const forwarded: Record<Client, string> = {
  own: 'for=192.0.2.1',
  other: 'for=192.0.2.2',
  unknown: 'for=unknown',
}

interface Stage extends OrderStage {
  quoteFor(client: Client, toAmount: string, lifeMs?: number): Promise<GivenQuote>
  /** An order of 0.1 ETH that states these members besides. */
  orderOf(members: string, client?: Client): ReturnType<OrderStage['order']>
}

/** Users behind a proxy that says who they are. Every quote is a new one. */
async function stageOf(settings = {}): Promise<Stage> {
  const all = { TRUST_PROXY: 'loopback', QUOTE_MIN_VALIDITY_MS: 86_400_000, ...settings }
  const stage = await orderStage(all)
  return {
    ...stage,
    quoteFor(client, toAmount, life = lifeMs) {
      stage.provider.lifeMs = life
      stage.provider.quote = { toAmount: { assetId: 'USDC', value: toAmount } }
      return stage.quote('0.1', {
        headers: ['App-Name', 'wallet', 'Forwarded', forwarded[client]],
      })
    },
    orderOf: (members, client = 'own') =>
      stage.order(`{"pairId":"ETH_USDC","fromAmount":0.1${members && `,${members}`}}`, {
        headers: ['App-Name: wallet', `Forwarded: ${forwarded[client]}`],
      }),
  }
}

type History = [
  what: string,
  given: string,
  orders: Record<string, string>,
  as?: { by?: Client; settings?: object },
]

/** When a quote ended, before the orders. */
const endedAgoMs: Record<string, number> = {
  over: 0,
  'over <15 min': 15 * minuteMs - 1,
  'over 15 min': 15 * minuteMs,
  'over 60 min': 60 * minuteMs,
  'over <24 h': 1_440 * minuteMs - 1,
  'over 24 h': 1_440 * minuteMs,
}

/** Gives the quotes, each of a user at a price, and then judges an order for each of these amounts. */
async function expectJudged([
  _what,
  given,
  orders,
  { by = 'own', settings = {} } = {},
]: History) {
  const { clock, gateway, orderOf, quoteFor } = await stageOf(settings)
  const orderedAtMs = clock.nowMs() + 3_000 * minuteMs
  for (const quote of given.split(', ')) {
    const [, whose, toAmount, state = ''] = /^(\w+) (\S+) (.+)$/.exec(quote) ?? []
    clock.set(
      state === 'live'
        ? orderedAtMs
        : orderedAtMs - (endedAgoMs[state] ?? Number.NaN) - lifeMs,
    )
    await quoteFor(whose as Client, toAmount ?? '')
  }
  clock.set(orderedAtMs)
  for (const [toAmounts, verdict] of Object.entries(orders)) {
    const [decision = '', rule = ''] = verdict.split(' by ')
    const series = `quotegate_float_order_matches_total{decision="${decision}",rule="${rule}"}`
    for (const toAmount of toAmounts.split(' | ')) {
      const before = await counted(gateway, series)
      const { status } = await orderOf(
        toAmount === 'no amount' ? '' : `"toAmount":${toAmount}`,
        by,
      )
      expect(
        [status, await counted(gateway, series)],
        `${toAmount} is ${verdict}`,
      ).toEqual([decision === 'expired' ? 409 : 201, before + 1])
    }
  }
}

/** The amount of `price` as pages show it: rounded down, half up or up, as a number or a text, with a zero more. */
const shown =
  '0.034512 | "0.034512" | 0.034513 | 0.03451235 | 0.0345123457 | 3.4512e-2 | 0.0345120'
const all = { settings: { QUOTE_PARTITION: 'none' } }

const rules: Record<string, History[]> = {
  '1, named: an unknown id is of another source, a bare id may be the caller’s own number':
    [
      [
        'in a field for quotes',
        'own 2.5 over',
        { '2.5,"quoteId":"q" | 2.5,"quote":{"id":"q"}': 'unknown by id' },
      ],
      ['bare', 'own 289.645 over', { '289.645,"id":"my-order-1"': 'expired by exact' }],
    ],
  '2, exact: by chance two prices are equal in few digits, and not in many': [
    ['live', 'other 283.852 over, own 289.645 live', { 289.645: 'live by exact' }],
    [
      'another’s',
      'other 283.852 over, own 289.645 live',
      { '283.852 | 283.8521': 'live by pays' },
    ],
    [
      'own, six digits',
      'own 283.852 over <15 min, own 289.645 live',
      { 283.852: 'expired by exact' },
    ],
    [
      'own, old',
      'own 283.852 over 15 min, own 289.645 live',
      { 283.852: 'live by pays' },
    ],
    [
      'own, five digits',
      'own 283.85 over, own 289.645 live',
      { '283.85 | 283.850': 'live by pays' },
    ],
    [
      'eight digits',
      'other 283.85123 over <15 min, own 289.645 live',
      { 283.85123: 'expired by exact' },
    ],
    [
      'eight digits, old',
      'own 283.85123 over 15 min, own 289.645 live',
      { 283.85123: 'live by pays' },
    ],
    ['seven', 'other 283.8512 over, own 289.645 live', { 283.8512: 'live by pays' }],
    [
      'a live one of any user counts, whatever its digits',
      'own 283.852 over, other 283.852 live',
      { 283.852: 'live by exact' },
    ],
    [
      'six in a partition of all',
      'other 283.852 over, own 289.645 live',
      { 283.852: 'live by pays' },
      all,
    ],
    [
      'six without an address',
      'unknown 283.852 over, unknown 290 live',
      { 283.852: 'live by pays' },
      { by: 'unknown' },
    ],
  ],
  '3, it pays: slippage takes off and never adds': [
    [
      'what a page shows',
      `own ${price} live`,
      { [shown]: 'live by pays', [price]: 'live by exact' },
    ],
    [
      'any price not lower',
      `own ${price} over, other 0.034513 live`,
      { '0.034512 | no amount': 'live by pays' },
    ],
  ],
  '4, it has fallen: no live quote gives what was shown': [
    [
      'what a page shows',
      `own ${price} over`,
      { [shown]: 'expired by fallen', [price]: 'expired by exact' },
    ],
    [
      'a lower price',
      `own ${price} over, own 0.0344 live`,
      { '0.034512': 'expired by fallen' },
    ],
    [
      'until 15 minutes are over',
      `own ${price} over <15 min, other 0.0344 live`,
      { '0.034512': 'expired by fallen' },
    ],
    ['old', `own ${price} over 15 min, other 0.0344 live`, { '0.034512': 'live by any' }],
    [
      'another’s says nothing',
      `other ${price} over, own 0.0344 live`,
      { '0.034512': 'live by any' },
    ],
    [
      'nor does one of a partition of all, or of one without an address',
      `own ${price} over, own 0.0344 live`,
      { '0.034512': 'live by any' },
      all,
    ],
    ['four digits', 'own 289.65 over, own 283 live', { '289.6 | 289.7': 'live by any' }],
    [
      'rounding may change each digit',
      'own 1234567.5 over',
      { '1234567 | 1234568': 'expired by fallen' },
    ],
    [
      'an amount that matches no quote, while one lives',
      `own ${price} over, own 0.0344 live`,
      { '0.034514 | 0.034511 | 0.0346': 'live by any' },
    ],
  ],
  '5, none: no quote lives': [
    [
      'own',
      'own 289.645 over',
      { '289 | "about 289" | -1 | {"value":null} | no amount': 'expired by none' },
    ],
    // Without the zeros at its end it has fewer than five digits, so it does not count as rounded.
    ['four digits', 'own 0.99991 over', { '1.0000 | 0.9999': 'expired by none' }],
    ['one digit', 'own 99999.6 over', { 100000: 'expired by none' }],
    [
      'another’s amount',
      'other 283.5123 over 60 min',
      { '283.51 | 283.52 | 283.5123 | no amount': 'expired by none' },
    ],
    ['no one’s amount', 'other 283.5123 over', { 28: 'unknown by none' }],
    ['for a day', 'own 289.645 over <24 h', { 289.645: 'expired by none' }],
    ['after a day', 'own 289.645 over 24 h', { 289.645: 'unknown by none' }],
    [
      'in a partition of all each is one’s own',
      'other 283.852 over',
      { 7: 'expired by none' },
      all,
    ],
    [
      'without an address none is',
      'unknown 283.852 over',
      { 7: 'unknown by none' },
      { by: 'unknown' },
    ],
  ],
}

// What docs/orders.md says of each rule. Every history and every order: test/property/guard.test.ts.
describe.each(Object.entries(rules))(
  'five rules match orders with quotes: %s',
  (_rule, histories) => {
    it.each(histories)('%s: %s: %j', (...history) => expectJudged(history))
  },
)

describe('the rows with numbers in docs/orders.md', () => {
  const page = readFileSync(new URL('../../docs/orders.md', import.meta.url), 'utf8')
  const rows = [
    ...page.matchAll(/^\| (\d) \| (\w[^|]+) \| `([^`]+)` \| ([^|]+) \|/gm),
  ].map(
    ([, rule = '', given = '', stated = '', verdict = '']): History => [
      rule,
      given,
      { [stated]: verdict },
    ],
  )

  it.each(rows)('rule %s: %s: %j', (...history) => expectJudged(history))

  it('are eight, of rules 2 to 5', () => {
    expect(rows.map(([rule]) => rule).join('')).toBe('22334455')
  })
})

describe('a quote whose amounts are JSON numbers', () => {
  const numbers = {
    fromAmount: { assetId: 'ETH', value: 0.1 },
    toAmount: { assetId: 'USDC', value: 289.645 },
  }
  const stated = [
    { fromAmount: 0.1, toAmount: 289.645 },
    { fromAmount: '0.1', toAmount: '289.645' },
    { fromAmount: { value: '0.10' }, toAmount: { value: '289.6450' } },
  ]
  const orders = [
    ...stated.map((amounts) => ({ pairId: 'ETH_USDC', ...amounts })),
    // More digits of the same double.
    '{"pairId":"ETH_USDC","fromAmount":0.1,"toAmount":289.6450000000000001}',
    '{"pairId":"ETH_USDC","fromAmount":"0.1","toAmount":"289.6450000000000001"}',
    '{"pairId":"ETH_USDC","fromAmount":"0.10000000000000001","toAmount":"289.645"}',
  ]

  it('is kept, and served in its own bytes', async () => {
    const { gateway, provider, upstream } = await orderStage()
    provider.quote = { ...numbers, note: 1e21 }
    const answers = []
    for (let times = 0; times < 5; times += 1) answers.push(await ask(gateway.url))
    expect(upstream.requests).toHaveLength(1)
    expect(answers[4]?.body).toBe(answers[0]?.body)
    expect(answers[4]?.body).toContain('"value":0.1},')
  })

  it('refuses its orders once it is over, and not before', async () => {
    const { arrived, clock, order, provider, quote } = await orderStage()
    provider.quote = numbers
    const { expiry, id } = await quote()
    for (const body of orders) expect((await order(body)).status).toBe(201)
    clock.set(expiry)
    for (const body of orders)
      expect(expectProblem(await order(body), 409, 'quote-expired').quoteId).toBe(id)
    const named = { headers: ['App-Name: wallet', `Quotegate-Quote: ${id}`] }
    expectProblem(await order('{}', named), 409, 'quote-expired')
    expect(arrived()).toHaveLength(orders.length)
  })

  it('is for another amount, or none, like one with texts', async () => {
    const { gateway, provider } = await orderStage()
    const detailOf = async (value: number) => {
      provider.quote = { ...numbers, fromAmount: { assetId: 'ETH', value } }
      return (await ask(gateway.url)).headers['cache-status']
    }
    expect(await detailOf(0.2)).toContain('detail=other-amount')
    expect(await detailOf(0)).toContain('detail=not-a-quote')
    expect(await detailOf(-0.1)).toContain('detail=not-a-quote')
  })
})

it('a refusal names its user’s own quote rather than another user’s', async () => {
  const { clock, orderOf, quoteFor } = await stageOf()
  const own = await quoteFor('own', '289.645', 10_000)
  clock.set((await quoteFor('other', '289.645', 20_000)).expiry)
  for (const stated of ['"toAmount":289.645', '"toAmount":289.64', '', '"toAmount":7'])
    expect(expectProblem(await orderOf(stated), 409, 'quote-expired').quoteId).toBe(
      own.id,
    )
})

it('a pair and an App-Name longer than 256 characters are known like any other', async () => {
  const { clock, order, provider, quote } = await orderStage()
  const [pair, name] = ['P'.repeat(300), 'n'.repeat(300)]
  provider.quote = { pairId: pair }
  const options = {
    path: `/v3/pairs/${pair}/quotes?amount=0.1`,
    headers: ['App-Name', name],
  }
  clock.set((await quote('0.1', options)).expiry)
  const headers = [`App-Name: ${name}`]
  const refused = await order({ pairId: pair, fromAmount: 0.1 }, { headers })
  expect(expectProblem(refused, 409, 'quote-expired').pairId).toBe(pair)
  expect((await order({ pairId: `${pair}P`, fromAmount: 0.1 }, { headers })).status).toBe(
    201,
  )
})

it('an order is found by the fields of ORDER_QUOTE_ID_FIELDS and by no other', async () => {
  const settings = { ORDER_QUOTE_ID_FIELDS: 'offer.ref', ORDER_UNKNOWN_QUOTE: 'refuse' }
  const { order, quote } = await orderStage(settings)
  const { id } = await quote()
  expect((await order({ offer: { ref: id } })).status).toBe(201)
  expectProblem(await order({ quoteId: id, id, quote: { id } }), 409, 'quote-unknown')
})
