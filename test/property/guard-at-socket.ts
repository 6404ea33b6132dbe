import { floatPath } from '../support/clients/orders.ts'
import { ask, createTestClock, giveQuote, quoteBody } from '../support/clients/quotes.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import { readPage } from '../support/observing/metrics-page.ts'
import { startRecordingUpstream } from '../support/upstreams/recording-upstream.ts'
import { bodyOf } from './guard-bodies.ts'
import type { Decision, Given, Guard } from './guard-histories.ts'

const addresses: Record<string, string> = { a: '192.0.2.1', b: '192.0.2.2' }
const edgeAheadMs = 5_000

/**
 * A whole gateway, asked over its socket: how it reads quotes, times and clients' addresses is under test as well. The
 * provider has two edges, and the clock of one is 5 s ahead.
 */
export async function guardAtSocket(): Promise<Guard & { close(): Promise<void> }> {
  const clock = createTestClock()
  let next: { body: string; dateMs: number } | undefined
  const upstream = await startRecordingUpstream((_request, response) => {
    if (next === undefined) response.writeHead(201).end('{}')
    else giveQuote(response, next.body, ['Date', new Date(next.dateMs).toUTCString()])
  })
  const settings = { SWAP_BASE_URL: upstream.url, TRUST_PROXY: 'loopback', LOG_LEVEL: 'silent' }
  const gateway = await startGateway(settings, { clock })
  let asked = 0

  const clientOf = (partition: string | undefined) => `for=${addresses[partition ?? ''] ?? 'unknown'}`

  async function give(
    {
      pair,
      requested,
      application,
      partition,
    }: Pick<Given, 'pair' | 'requested' | 'application' | 'partition'>,
    answer: { body: string; dateMs: number },
  ): Promise<void> {
    next = answer
    asked += 1
    // Each is another question, or the cache would answer.
    const path = `/v3/pairs/${pair}/quotes?amount=${requested}&question=${asked}`
    const headers = ['App-Name', application, 'Forwarded', clientOf(partition)]
    const { status } = await ask(gateway.url, { path, headers })
    if (status !== 200) throw new Error(`a quote was answered ${status}`)
    next = undefined
  }

  async function matches(): Promise<Map<string, number>> {
    const series = readPage(await gateway.metrics()).get('quotegate_float_order_matches_total')?.series ?? []
    return new Map(series.map(({ labels, value }) => [`${labels.decision} ${labels.rule}`, value]))
  }

  return {
    clock,
    quote(quote, isAhead) {
      const { id, pair, from, to, endsAtMs, givenAtMs } = quote
      const aheadMs = isAhead ? edgeAheadMs : 0
      const amounts = { fromAmount: { assetId: 'A', value: from }, toAmount: { assetId: 'B', value: to } }
      const body = quoteBody({ id, pairId: pair, ...amounts, expiry: endsAtMs + aheadMs })
      return give(quote, { body, dateMs: givenAtMs + aheadMs })
    },
    odd(odd) {
      const body = JSON.stringify({ toAmount: { value: '1' } })
      return give(odd, { body, dateMs: clock.nowMs() })
    },
    async order(order): Promise<Decision> {
      const before = await matches()
      const headers = ['App-Name', order.application, 'Forwarded', clientOf(order.partition)]
      const { status } = await ask(gateway.url, {
        path: floatPath,
        method: 'POST',
        headers,
        body: bodyOf(order),
      })
      const counted = [...(await matches())].filter(([key, value]) => value !== before.get(key))
      const [state, rule] = counted.length === 1 ? String(counted[0]?.[0]).split(' ') : []
      if ((status === 409) !== (state === 'expired'))
        throw new Error(`${status} for an order that is ${state}`)
      return { state: state as Decision['state'], rule: String(rule) }
    },
    async close() {
      await gateway.close()
      await upstream.close()
    },
  }
}
