import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import { post } from '../support/clients/orders.ts'
import {
  ask,
  asking,
  counted,
  giveQuote,
  lookups,
  notKept,
  quoteBody,
  untilCounted,
} from '../support/clients/quotes.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { gatewayTo, recordingUpstream, until } from '../support/gateways/between.ts'

/** All calls wait until the test answers them; orders are accepted. */
async function stage(settings: Record<string, string | number> = {}) {
  const waiting: ServerResponse[] = []
  const upstream = await recordingUpstream(({ method }, response) => {
    if (method === 'POST') response.writeHead(201).end()
    else waiting.push(response)
  })
  const gateway = await gatewayTo(upstream.url, settings)
  const called = async (calls: number): Promise<ServerResponse> => {
    await until(() => waiting.length === calls, `call ${calls}`)
    return waiting[calls - 1] as ServerResponse
  }
  return { upstream, gateway, called }
}

const stored = /^quotegate; fwd=uri-miss; stored; ttl=\d+$/

describe('Cache-Status says stored', () => {
  it('not of a quote that does not fit into cacheBytes', async () => {
    const { gateway, called } = await stage({ cacheBytes: 2_048 })
    for (let times = 1; times <= 2; times += 1) {
      const answer = ask(gateway.url)
      giveQuote(await called(times), quoteBody(), ['X-Long', 'x'.repeat(2_000)])
      expect((await answer).headers['cache-status']).toBe('quotegate; fwd=bypass; detail=too-large')
      expect(await counted(gateway, notKept('too-large'))).toBe(times)
    }
    expect(await counted(gateway, 'quotegate_cache_entries')).toBe(0)
  })

  it('not of a quote that an order used while it was being fetched or waited for', async () => {
    const { gateway, called } = await stage()
    // The provider gives the same quote to another client, who orders it first.
    const body = quoteBody({ id: 'used' })
    const another = asking(gateway.url, '2')
    giveQuote(await called(1), body)
    expect((await another).headers['cache-status']).toMatch(stored)
    const clients = [asking(gateway.url, '3'), asking(gateway.url, '3')]
    const call = await called(2)
    await untilCounted(gateway, lookups('collapsed'), 1)
    expect((await rawExchange(gateway.url, post('{"quoteId":"used"}'))).status).toBe(201)
    giveQuote(call, body)
    for (const { headers } of await Promise.all(clients)) {
      expect(headers['cache-status']).toBe('quotegate; fwd=bypass; detail=used')
    }
    expect(await counted(gateway, notKept('used'))).toBe(1)
    expect(await counted(gateway, 'quotegate_cache_entries')).toBe(0)
  })
})
