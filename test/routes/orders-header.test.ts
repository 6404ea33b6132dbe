import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { orderStage, termsOf } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import { ask } from '../support/clients/quotes.ts'
import type { Recorded } from '../support/upstreams/recording-upstream.ts'

const plainPath = '/v3/orders'
/** The terms of no quote. */
const otherTerms = { pairId: 'BTC_USDC', fromAmount: 7, toAddress: '0xt' }
/** As a caller writes it: UTF-8, one character a byte. */
const asBytes = (line: string) => Buffer.from(line).toString('latin1')
const naming = (...ids: string[]) => [
  'App-Name: wallet',
  ...ids.map((id) => asBytes(`Quotegate-Quote: ${id}`)),
]
const namesOf = ({ rawHeaders }: Recorded) =>
  rawHeaders.filter((_, index) => index % 2 === 0).map((name) => name.toLowerCase())

/** Two quotes with the same terms: the first lives for a second, and the second one longer. */
async function twoQuotes(settings: Record<string, string> = {}) {
  const stage = await orderStage({ QUOTE_MIN_VALIDITY_MS: 60_000, ...settings })
  stage.provider.lifeMs = 1_000
  const first = await stage.quote()
  stage.provider.lifeMs = 30_000
  const second = await stage.quote()
  return { ...stage, first, second }
}

describe('a float order with Quotegate-Quote', () => {
  it('for a live quote is sent, though its terms are those of no quote, or of an expired one', async () => {
    const { arrived, clock, decided, order, quote } = await orderStage({
      ORDER_UNKNOWN_QUOTE: 'refuse',
    })
    const expired = await quote('0.2')
    clock.set(expired.expiry)
    const { id } = await quote()
    expectProblem(await order(otherTerms), 409, 'quote-unknown')
    for (const body of [otherTerms, termsOf(expired), {}])
      expect((await order(body, { headers: naming(id) })).status).toBe(201)
    expect(arrived()).toHaveLength(3)
    expect(await decided('forwarded', 'live')).toBe(3)
  })

  it('and two of it, or a comma in it, is 400, and nothing is sent', async () => {
    const { arrived, order, quote } = await orderStage()
    const given = await quote()
    const { id } = given
    for (const ids of [
      [id, 'another'],
      [id, id],
      [`${id}, another`],
      [','],
      [`${id},`],
    ]) {
      const refused = await order(termsOf(given), { headers: naming(...ids) })
      expect(expectProblem(refused, 400, 'bad-order').detail).toContain(
        'more than one Quotegate-Quote',
      )
    }
    expect(arrived()).toHaveLength(0)
  })

  it('that is empty or blank is an order without it; beside an empty line, or in blanks, it names the quote', async () => {
    const { arrived, clock, first, order } = await twoQuotes()
    clock.set(first.expiry)
    for (const none of [[''], [' \t '], ['', '']])
      expect((await order(termsOf(first), { headers: naming(...none) })).status).toBe(201)
    for (const named of [[` \t${first.id} \t `], ['', first.id]])
      expectProblem(
        await order(otherTerms, { headers: naming(...named) }),
        409,
        'quote-expired',
      )
    expect(arrived().flatMap(namesOf)).not.toContain('quotegate-quote')
  })

  it('is read as UTF-8', async () => {
    const id = 'kurs-à-€-𝄞-è'
    const { clock, order, provider, quote } = await orderStage({
      ORDER_UNKNOWN_QUOTE: 'refuse',
    })
    provider.quote = { id }
    const { expiry } = await quote()
    expect((await order(otherTerms, { headers: naming(id) })).status).toBe(201)
    // The same characters, but for one of them in latin1.
    const inLatin1 = `App-Name: wallet\r\n${asBytes(`Quotegate-Quote: ${id}`).replace('\xc3\xa8', '\xe8')}`
    expectProblem(await order(otherTerms, { headers: [inLatin1] }), 409, 'quote-unknown')
    clock.set(expiry)
    const refused = await order(otherTerms, { headers: naming(id) })
    expect(expectProblem(refused, 409, 'quote-expired').quoteId).toBe(id)
  })
})

it('Quotegate-Quote is not sent on with a float order or any other request to the swap API', async () => {
  const { arrived, gateway, order, quote, upstream } = await orderStage()
  const { id } = await quote()
  expect(
    (await order(otherTerms, { headers: [...naming(id), 'X-Mine: 1'] })).status,
  ).toBe(201)
  const fixed = { path: plainPath, headers: [...naming('unknown'), 'X-Mine: 1'] }
  expect((await order({}, fixed)).status).toBe(201)
  await ask(gateway.url, {
    path: '/v3/assets',
    headers: ['Quotegate-Quote', id, 'X-Mine', '1'],
  })
  const sent = [
    ...arrived(),
    ...upstream.requests.filter(({ target }) => target === '/v3/assets'),
  ]
  expect(sent).toHaveLength(3)
  for (const request of sent) {
    expect(namesOf(request)).toContain('x-mine')
    expect(namesOf(request)).not.toContain('quotegate-quote')
  }
})

it.each<[string, string | Buffer, string[]]>([
  ['that names an unknown quote', '{"quoteId":"unknown"}', []],
  ['that is malformed', '{"quoteId":', []],
  ['that is coded', gzipSync('{}'), ['Content-Encoding: gzip']],
  ['of 3 MB', '{}'.padEnd(3_000_000), []],
])(
  'POST /v3/orders with Quotegate-Quote is judged by it, or passes byte for byte, with a body %s',
  async (_what, body, more) => {
    const { arrived, clock, order, quote } = await orderStage({
      ORDER_UNKNOWN_QUOTE: 'refuse',
    })
    const { id, expiry } = await quote()
    const sent = (...names: string[]) =>
      order(body, { path: plainPath, headers: [...naming(...names), ...more] })
    for (const nowMs of [expiry - 1, expiry]) {
      clock.set(nowMs)
      const refused = expectProblem(await sent(id), 409, 'float-order-required')
      expect(refused).toMatchObject({ quoteId: id, use: '/v3/orders/float' })
    }
    expectProblem(await sent('unknown', 'other'), 400, 'bad-order')
    expect(arrived()).toHaveLength(0)
    expect((await sent('unknown')).status).toBe(201)
    expect(arrived()[0]?.body.equals(Buffer.from(body))).toBe(true)
    const named = await order(
      { quoteId: id },
      { path: plainPath, headers: naming('unknown') },
    )
    expect(expectProblem(named, 409, 'float-order-required').quoteId).toBe(id)
  },
)
