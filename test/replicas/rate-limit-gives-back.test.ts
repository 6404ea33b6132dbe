import { describe, expect, it, onTestFinished } from 'vitest'
import { ask, counted, giveQuote } from '../support/clients/quotes.ts'
import { recordingUpstream, until } from '../support/gateways/between.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import { eventually } from '../support/gateways/replicas.ts'
import { valkey } from '../support/stores/valkey.ts'

// A request that never reached the provider is given back. When the store came or went between the two, it was given
// back to a counter that had never counted it, and its client got more than its limit.

const perMinute = 3

/** An upstream that can be reached or not, and a request that is counted while it waits for the only connection. */
async function stage() {
  const store = await valkey()
  const waiting: (() => void)[] = []
  const upstream = await recordingUpstream((request, response) => {
    if (request.target.includes('hold')) waiting.push(() => response.end('held'))
    else giveQuote(response)
  })
  const gateway = await startGateway({
    SWAP_BASE_URL: upstream.url,
    VALKEY_URL: store.url,
    VALKEY_TIMEOUT_MS: 1_000,
    RATE_LIMIT_PER_MINUTE: perMinute,
    UPSTREAM_CONNECTIONS: 1,
    UPSTREAM_HEADERS_TIMEOUT_MS: 60_000,
    UPSTREAM_TOTAL_TIMEOUT_MS: 60_000,
  })
  onTestFinished(() => gateway.close())
  const storeIs = (up: 0 | 1) =>
    eventually(`the store to be ${up}`, async () => (await counted(gateway, 'quotegate_store_up')) === up)
  const statusOf = async (name: string, path: string, signal?: AbortSignal) =>
    (await ask(gateway.url, { path, headers: ['App-Name', name], ...(signal ? { signal } : {}) })).status
  /** How many more of its requests get through. */
  async function left(name: string): Promise<number> {
    for (let passed = 0; ; passed += 1) {
      const status = await statusOf(name, `/v3/assets/${name}-${passed}`)
      if (status === 429) return passed
      expect(status).toBe(200)
    }
  }
  return { store, upstream, gateway, waiting, storeIs, statusOf, left }
}

describe('a request that was never sent is given back', { tags: ['redis-server'] }, () => {
  it.each<['went' | 'came']>([['went'], ['came']])('to its own counter after the store %s', async (what) => {
    const { store, waiting, gateway, storeIs, statusOf, left, upstream } = await stage()
    await storeIs(1)
    const change = async (to: 'went' | 'came') => {
      await (to === 'went' ? store.kill() : store.restartEmpty())
      await storeIs(to === 'went' ? 0 : 1)
    }
    if (what === 'came') await change('went')
    const holder = statusOf('other', '/v3/hold')
    await until(() => waiting.length === 1, 'the only connection to be in use')
    const leaving = new AbortController()
    const client = statusOf('wallet', '/v3/assets', leaving.signal)
    const underWay = 'quotegate_upstream_requests_in_flight{upstream="swap"}'
    const untilUnderWay = (count: number) =>
      eventually(`${count} to be under way`, async () => (await counted(gateway, underWay)) === count)
    await untilUnderWay(2)
    await change(what)
    // The counter that is used now is at its limit, for all that it knows of this client.
    const others = Array.from({ length: perMinute }, () => statusOf('wallet', '/v3/pairs'))
    await untilUnderWay(2 + perMinute)
    leaving.abort()
    await client.catch(() => {})
    await untilUnderWay(1 + perMinute)
    waiting[0]?.()
    expect([await holder, ...(await Promise.all(others))]).toEqual([200, 200, 200, 200])
    expect(await left('wallet')).toBe(0)
    expect(upstream.requests.map(({ target }) => target)).not.toContain('/v3/assets')
  })
})
