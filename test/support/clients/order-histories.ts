import fc from 'fast-check'
import { expect } from 'vitest'
import type { GivenQuote, OrderStage } from './orders.ts'

// Few amounts and applications, so that quotes share their terms; among the amounts some that share a double.
const amount = fc.constantFrom('0.1', '0.10', '1e-1', '123456789.123456789', '123456789.12345679', '7')
const application = fc.constantFrom('wallet', 'exchange')

const step = fc.oneof(
  fc.record({
    doing: fc.constant('quote' as const),
    amount,
    application,
    lifeMs: fc.integer({ min: 1, max: 40_000 }),
  }),
  fc.record({
    doing: fc.constant('order' as const),
    /** Which of the quotes so far, counted from the last. */
    pick: fc.nat(6),
    by: fc.constantFrom('id', 'terms', 'terms', 'open terms'),
    spelling: fc.constantFrom('number', 'string', 'object'),
    accepted: fc.boolean(),
    /** How long after the expiry of its quote, unless that moment has passed. */
    atMs: fc.option(fc.oneof(fc.constantFrom(-1, 0, 1), fc.integer({ min: -2_000, max: 2_000 }))),
  }),
  fc.record({
    doing: fc.constant('wait' as const),
    ms: fc.oneof(fc.integer({ min: 0, max: 45_000 }), fc.constantFrom(1, 999, 1_000, 29_999, 30_000)),
  }),
)
export const history = fc.array(step, { minLength: 4, maxLength: 14, size: 'max' })
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never
type Ordering = Extract<Step, { doing: 'order' }>

interface Seen extends GivenQuote {
  application: string
  asked: string
}

const spellings = {
  number: (value: string) => String(Number(value)),
  string: (value: string) => JSON.stringify(value),
  object: (value: string) => JSON.stringify({ assetId: 'X', value }),
}

function bodyOf({ by, spelling }: Ordering, { id, pairId, asked, toAmount }: Seen): string {
  if (by === 'id') return JSON.stringify({ quoteId: id })
  const to = by === 'terms' ? `,"toAmount":${spellings[spelling](toAmount.value)}` : ''
  return `{"pairId":"${pairId}","fromAmount":${spellings[spelling](asked)}${to}}`
}

/** Every quote that the order can mean, found by going through all of them. */
function meant({ by, spelling }: Ordering, picked: Seen, seen: readonly Seen[]): Seen[] {
  if (by === 'id') return seen.filter(({ id }) => id === picked.id)
  const same = (left: string, right: string) => {
    if (spelling === 'number') return Number(left) === Number(right)
    return left === right || (Number(left) === 0.1 && Number(right) === 0.1)
  }
  return seen.filter(
    (quote) =>
      quote.application === picked.application &&
      same(picked.asked, quote.asked) &&
      (by === 'open terms' || same(picked.toAmount.value, quote.toAmount.value)),
  )
}

/** Plays a history against a gateway; `judge` is called for each order with how long ago the last of its quotes expired. */
export async function play(
  stage: OrderStage,
  steps: readonly Step[],
  judge: (overForMs: number, wasForwarded: boolean) => void,
): Promise<void> {
  const { arrived, clock, order, provider, quote } = stage
  const providerMs = () => clock.nowMs() + provider.offsetMs
  const seen: Seen[] = []
  for (const current of steps) {
    if (current.doing === 'wait') clock.advance(current.ms)
    if (current.doing === 'quote') {
      provider.lifeMs = current.lifeMs
      provider.quote = { fromAmount: { assetId: 'ETH', value: current.amount } }
      const given = await quote(current.amount, { headers: ['App-Name', current.application] })
      seen.push({ ...given, application: current.application, asked: current.amount })
    }
    const picked = seen.at(-1 - (current.doing === 'order' ? current.pick : 0))
    if (current.doing !== 'order' || picked === undefined) continue
    if (current.atMs !== null) clock.advance(Math.max(0, picked.expiry + current.atMs - providerMs()))
    provider.takeOrder = (_request, response) => response.writeHead(current.accepted ? 201 : 422).end()
    const before = arrived().length
    const headers = [`App-Name: ${picked.application}`]
    const { status } = await order(bodyOf(current, picked), { headers })
    const wasForwarded = arrived().length > before
    expect(status).toBe(wasForwarded ? (current.accepted ? 201 : 422) : 409)
    const lastExpiry = Math.max(...meant(current, picked, seen).map(({ expiry }) => expiry))
    judge(providerMs() - lastExpiry, wasForwarded)
  }
}
