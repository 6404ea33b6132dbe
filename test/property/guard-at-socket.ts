import { floatPath } from '../support/clients/orders.ts'
import { ask, createTestClock, giveQuote, quoteBody } from '../support/clients/quotes.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import { readPage } from '../support/observing/metrics-page.ts'
import { startRecordingUpstream } from '../support/upstreams/recording-upstream.ts'
import { bodyOf } from './guard-bodies.ts'
import type { Decision, Guard } from './guard-histories.ts'
import type { Unreadable } from './guard-model.ts'

/** What a trusted proxy says of each client: its address, and of the one in a country that country. */
const clients: Record<string, readonly string[]> = {
  a: ['Forwarded', 'for=192.0.2.1'],
  b: ['Forwarded', 'for=192.0.2.2'],
  DE: ['Forwarded', 'for=192.0.2.3', 'CF-IPCountry', 'DE'],
}
const withoutAddress = ['Forwarded', 'for=unknown']

/**
 * A whole gateway, asked over its socket: how it reads quotes, times and clients' addresses is under test as well. The
 * provider has two edges, and the clock of one is ahead.
 */
export async function guardAtSocket(): Promise<Guard & { close(): Promise<void> }> {
  const clock = createTestClock()
  let next: { body: string; dateMs: number } | undefined
  const upstream = await startRecordingUpstream((_request, response) => {
    if (next === undefined) response.writeHead(201).end('{}')
    else giveQuote(response, next.body, ['Date', new Date(next.dateMs).toUTCString()])
  })
  const settings = {
    SWAP_BASE_URL: upstream.url,
    TRUST_PROXY: 'loopback',
    QUOTE_PARTITION: 'header',
    QUOTE_PARTITION_HEADER: 'cf-ipcountry',
    LOG_LEVEL: 'silent',
  }
  const gateway = await startGateway(settings, { clock })
  let asked = 0

  const headersOf = ({ application, partition }: Pick<Unreadable, 'application' | 'partition'>) => [
    ...['App-Name', application],
    ...(clients[partition ?? ''] ?? withoutAddress),
  ]

  async function give(
    asker: Pick<Unreadable, 'pair' | 'requested' | 'application' | 'partition'>,
    answer: { body: string; dateMs: number },
  ): Promise<void> {
    next = answer
    asked += 1
    // Each is another question, or the cache would answer.
    const path = `/v3/pairs/${asker.pair}/quotes?amount=${asker.requested}&question=${asked}`
    const { status } = await ask(gateway.url, { path, headers: headersOf(asker) })
    if (status !== 200) throw new Error(`a quote was answered ${status}`)
    next = undefined
  }

  async function matches(): Promise<Map<string, number>> {
    const series = readPage(await gateway.metrics()).get('quotegate_float_order_matches_total')?.series ?? []
    return new Map(series.map(({ labels, value }) => [`${labels.decision} ${labels.rule}`, value]))
  }

  return {
    clock,
    quote(quote) {
      const { id, pair, from, to, endsAtMs, expiresAtMs } = quote
      const amounts = { fromAmount: { assetId: 'A', value: from }, toAmount: { assetId: 'B', value: to } }
      const body = quoteBody({ id, pairId: pair, ...amounts, expiry: expiresAtMs })
      return give(quote, { body, dateMs: clock.nowMs() + expiresAtMs - endsAtMs })
    },
    odd(odd) {
      const fromAmount = odd.stated === undefined ? {} : { fromAmount: { assetId: 'A', value: odd.stated } }
      const body = JSON.stringify({ ...fromAmount, toAmount: { assetId: 'B', value: '1' } })
      return give(odd, { body, dateMs: clock.nowMs() })
    },
    async order(order): Promise<Decision> {
      const before = await matches()
      const named = order.header === undefined ? [] : ['Quotegate-Quote', order.header]
      const answer = await ask(gateway.url, {
        path: floatPath,
        method: 'POST',
        headers: [...headersOf(order), ...named],
        body: bodyOf(order),
      })
      const counted = [...(await matches())].filter(([key, value]) => value !== before.get(key))
      const [state, rule] = counted.length === 1 ? String(counted[0]?.[0]).split(' ') : []
      const isRefused = answer.status === 409
      if (isRefused !== (state === 'expired'))
        throw new Error(`${answer.status} for an order that is ${state}`)
      const quoteId = isRefused ? String(JSON.parse(answer.body).quoteId) : undefined
      return { state: state as Decision['state'], rule: String(rule), quoteId }
    },
    async close() {
      await gateway.close()
      await upstream.close()
    },
  }
}
