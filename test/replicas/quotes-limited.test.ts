import { describe, expect, it } from 'vitest'
import { ask, giveQuote, lookups, quotePath, untilCounted } from '../support/clients/quotes.ts'
import { replicaStage } from '../support/gateways/replicas.ts'

const from = (address: string) => ['App-Name', 'web', 'Forwarded', `for=${address}`]

describe('a client whose quotes the provider limits', { tags: ['redis-server'] }, () => {
  it('does not keep another client from its quote, who waited for the same call', async () => {
    const { here, store, upstream } = await replicaStage(1, {
      TRUST_PROXY: 'loopback',
      QUOTE_PARTITION: 'none',
    })
    upstream.answer((request, response) => {
      if (request.headers.forwarded === 'for=192.0.2.2') giveQuote(response)
      else response.writeHead(429, ['Retry-After', '30']).end()
    })
    const quote = (amount: number, address: string) =>
      ask(here.url, { path: `${quotePath}?amount=${amount}`, headers: from(address) })
    expect((await quote(1, '192.0.2.1')).status).toBe(429)
    // The call waits for the store, and so do the requests that join it.
    store.freeze()
    const asked = upstream.requests.length
    const limited = quote(2, '192.0.2.1')
    await untilCounted(here, 'quotegate_http_requests_in_flight', 1)
    const joining = quote(2, '192.0.2.2')
    await untilCounted(here, lookups('collapsed'), 1)
    store.thaw()
    expect((await joining).status).toBe(200)
    expect((await limited).status).toBe(429)
    expect(upstream.requests).toHaveLength(asked + 1)
    expect(JSON.parse((await limited).body).type).toBe('urn:quotegate:problem:provider-limit')
  })
})
