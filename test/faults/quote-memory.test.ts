import { expect, it } from 'vitest'
import { ask, counted, giveQuote, keepAliveAgent, quoteBody } from '../support/clients/quotes.ts'
import { gatewayTo, recordingUpstream } from '../support/gateways/between.ts'

// The attacker asks for pairs that do not exist, or for pairs that do with ever new amounts and headers.
it.each([
  ['entries', { QUOTE_CACHE_ENTRIES: '50' }, 50, Number.POSITIVE_INFINITY],
  ['bytes', { cacheBytes: '100000' }, Number.POSITIVE_INFINITY, 100_000],
])(
  'random pairs, amounts and headers never fill more than the %s that quotes may take',
  async (_what, settings, most, bytesMost) => {
    const upstream = await recordingUpstream((_request, response) =>
      giveQuote(response, quoteBody({ more: 'x'.repeat(500) })),
    )
    const gateway = await gatewayTo(upstream.url, settings)
    const agent = keepAliveAgent(8)
    for (let start = 0; start < 400; start += 8) {
      await Promise.all(
        Array.from({ length: 8 }, (_, index) =>
          ask(gateway.url, {
            path: `/v3/pairs/P${start + index}/quotes?amount=${start + 1}&pad=${'p'.repeat(1_000)}`,
            headers: ['App-Name', `a${index}`, 'User-Agent', `${start}`.padEnd(1_000, 'u')],
            agent,
          }),
        ),
      )
    }
    expect(upstream.requests).toHaveLength(400)
    const entries = await counted(gateway, 'quotegate_cache_entries')
    const bytes = await counted(gateway, 'quotegate_cache_bytes')
    expect(entries).toBeLessThanOrEqual(most)
    expect(bytes).toBeLessThanOrEqual(bytesMost)
    // Each counts with all that it takes: its body, its key and its place.
    expect(bytes / entries).toBeGreaterThan(800)
    expect(await counted(gateway, 'quotegate_cache_evictions_total{reason="capacity"}')).toBe(400 - entries)
  },
)
