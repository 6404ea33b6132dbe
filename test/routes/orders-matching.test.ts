import { describe, expect, it } from 'vitest'
import { orderStage } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'

/** Whether a body is an order for the one quote that was given: live before its expiry, expired after. */
async function isFor(
  body: string,
  settings: Record<string, string> = {},
  given: { amount?: string; quote?: Record<string, unknown> } = {},
): Promise<boolean> {
  const { clock, order, provider, quote } = await orderStage({ ORDER_UNKNOWN_QUOTE: 'refuse', ...settings })
  provider.quote = given.quote ?? {}
  const { id, expiry } = await quote(given.amount ?? '0.1')
  const named = body.replaceAll('<id>', id)
  const before = await order(named)
  clock.set(expiry)
  const after = await order(named)
  if (before.status === 201) {
    expectProblem(after, 409, 'quote-expired')
    return true
  }
  expectProblem(before, 409, 'quote-unknown')
  expectProblem(after, 409, 'quote-unknown')
  return false
}

// How the terms are read out of a body: test/orders/order-terms.test.ts. What they lead to: test/property/guard.test.ts.
describe('an order for 0.1 ETH at 289.645 USDC', () => {
  it.each([
    '{"pairId":"ETH_USDC","fromAmount":0.1,"fromAddress":"0x1","toAddress":"0x2","toAmount":289.645}',
    '{"\\u0070airId":"ETH\\u005fUSDC","from\\u0041mount":"\\u0030.1"}',
    '{"pairId":"ETH_USDC","fromAmount":" 0.1","toAmount":"+289.645 "}',
    '{"pairId":"ETH_USDC","fromAmount":0.1,"toAmount":289.646}',
    '{"pairId":"ETH_USDC","fromAmount":0.1,"quoteId":null,"quote":"q","id":["<id>"]}',
    '{"quote":{"id":"<id>"}}',
    '{"quoteId":"mine","id":"<id>"}',
    '{"quoteId":"<id>","pairId":"OTHER_PAIR","fromAmount":7,"toAmount":"?"}',
  ])('is recognised in %s', async (body) => expect(await isFor(body)).toBe(true))

  it.each([
    '{"pairId":"ETH_USDC","fromAmount":0.2,"toAmount":289.645}',
    '{"pairId":"ETH_USDC","fromAmount":0.1,"quoteId":"never-seen","id":"mine","quote":{"id":7}}',
    '{"pairId":"ETH_USDC","fromAmount":0.1000000000000000055}',
    '{"fromAmount":0.1,"toAmount":289.645}',
    '{"__proto__":{"pairId":"ETH_USDC","fromAmount":0.1,"quoteId":"<id>"}}',
    '{"QuoteId":"<id>","quote.id":"<id>","quote":["<id>"]}',
  ])('is not seen in %s', async (body) => expect(await isFor(body)).toBe(false))

  it('is found by the fields of ORDER_QUOTE_ID_FIELDS and by no other', async () => {
    const settings = { ORDER_QUOTE_ID_FIELDS: 'offer.ref' }
    expect(await isFor('{"offer":{"ref":"<id>"}}', settings)).toBe(true)
    expect(await isFor('{"quoteId":"<id>","id":"<id>","quote":{"id":"<id>"}}', settings)).toBe(false)
  })
})

describe('amounts', () => {
  const long = '123456789.123456789'
  const ofLong = { amount: long, quote: { fromAmount: { assetId: 'ETH', value: long } } }
  const rounded = { amount: '0.123456789', quote: { fromAmount: { assetId: 'ETH', value: '0.1234567' } } }

  it.each([
    ['the number that a browser makes of it', '123456789.12345679', true],
    ['a string with all its digits', `"${long}"`, true],
    ['a string that is only near it', '"123456789.12345679"', false],
  ])('too long for a double are recognised in %s', async (_what, amount, recognised) => {
    expect(await isFor(`{"pairId":"ETH_USDC","fromAmount":${amount}}`, {}, ofLong)).toBe(recognised)
  })

  it('that the provider rounded are recognised as asked for and as given, and between the two match neither', async () => {
    for (const amount of ['0.123456789', '"0.1234567"'])
      expect(await isFor(`{"pairId":"ETH_USDC","fromAmount":${amount}}`, {}, rounded)).toBe(true)
    expect(await isFor('{"pairId":"ETH_USDC","fromAmount":0.12345678}', {}, rounded)).toBe(false)
  })

  // The provider's pages have numbers in one place and strings in another, in Amount objects too.
  it.each([
    ['"0.1"', '{ "assetId":"USDC", "value":289.645 }'],
    ['{"value":"0.1","assetId":"ETH"}', '289.645'],
  ])('as numbers and as strings are one order, relayed as it came: %s for %s', async (from, to) => {
    const body = `{"toAmount" : ${to},"fromAmount":${from}, "pairId":"ETH_USDC","toAddress":"0x2"}`
    const { arrived, clock, order, provider, quote } = await orderStage({ ORDER_UNKNOWN_QUOTE: 'refuse' })
    const { expiry } = await quote()
    const answered = '{"id":"o", "amount":{"assetId":"ETH","value":0.10},"toAmount":{"value":"289.645"}}'
    provider.takeOrder = (_request, response) => void response.writeHead(201).end(answered)
    const live = await order(body)
    expect([live.status, live.body.toString()]).toEqual([201, answered])
    clock.set(expiry)
    expectProblem(await order(body), 409, 'quote-expired')
    expect(arrived().map((request) => request.body.toString())).toEqual([body])
  })
})
