import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import {
  type Answered,
  ask,
  createTestClock,
  giveQuote,
  quoteBody,
  untilCounted,
} from '../support/clients/quotes.ts'
import { gatewayWith, recordingUpstream, until } from '../support/gateways/between.ts'

const lifeMs = 30_000
const aheadMs = 10_000
const refreshes = (outcome: string) =>
  `quotegate_quote_refreshes_total{outcome="${outcome}"}`

/** A gateway with one quote in its cache, whose later upstream calls are answered by the test. */
async function withOneQuote(settings: Record<string, string | undefined> = {}) {
  const clock = createTestClock()
  const bodyNow = () => quoteBody({ expiry: clock.nowMs() + lifeMs })
  const undated = ['Date', 'none']
  const waiting: ServerResponse[] = []
  const upstream = await recordingUpstream((_request, response) =>
    giveQuote(response, bodyNow(), undated),
  )
  const all = {
    SWAP_BASE_URL: upstream.url,
    QUOTE_MIN_VALIDITY_MS: '0',
    QUOTE_REFRESH_AHEAD_MS: aheadMs,
    retries: 0,
    ...settings,
  }
  const gateway = await gatewayWith(all, { clock })
  const startMs = clock.nowMs()
  const first = await ask(gateway.url)
  upstream.answer((_request, response) => waiting.push(response))
  const give = (index: number) =>
    giveQuote(waiting[index] as ServerResponse, bodyNow(), undated)
  return { clock, startMs, upstream, gateway, waiting, first, give }
}

const how = ({ headers }: Answered) => headers['cache-status']?.toString().split('; ')[1]

describe('refresh-ahead', () => {
  it('is started by a hit that close to expiry, not by an earlier one, once, and no hit waits for it', async () => {
    const { clock, startMs, upstream, gateway, first, waiting, give } =
      await withOneQuote()
    clock.set(startMs + lifeMs - aheadMs)
    expect(how(await ask(gateway.url))).toBe('hit')
    expect(upstream.requests).toHaveLength(1)
    clock.set(startMs + lifeMs - aheadMs + 1)
    const hits = await Promise.all(Array.from({ length: 50 }, () => ask(gateway.url)))
    expect(hits.map((hit) => [how(hit), hit.body])).toEqual(
      Array(50).fill(['hit', first.body]),
    )
    await until(() => waiting.length === 1, 'the background fetch')
    give(0)
    await untilCounted(gateway, refreshes('stored'), 1)
    expect(upstream.requests).toHaveLength(2)
    const refreshed = await ask(gateway.url)
    expect(how(refreshed)).toBe('hit')
    expect(refreshed.body).not.toBe(first.body)
  })

  it('begins that long before the quote is to be fetched again', async () => {
    const { clock, startMs, upstream, gateway, waiting, give } = await withOneQuote({
      QUOTE_MIN_VALIDITY_MS: undefined,
    })
    clock.set(startMs + lifeMs - 5_000 - aheadMs)
    expect(how(await ask(gateway.url))).toBe('hit')
    expect(upstream.requests).toHaveLength(1)
    clock.advance(1)
    expect(how(await ask(gateway.url))).toBe('hit')
    await until(() => waiting.length === 1, 'the background fetch')
    give(0)
    await untilCounted(gateway, refreshes('stored'), 1)
    clock.advance(aheadMs)
    expect(how(await ask(gateway.url))).toBe('hit')
    expect(upstream.requests).toHaveLength(2)
  })

  it('is not tried again for a quote that the provider repeats, and neither is a call at its end', async () => {
    const { clock, startMs, upstream, gateway, waiting, first } = await withOneQuote({
      QUOTE_MIN_VALIDITY_MS: undefined,
    })
    clock.set(startMs + lifeMs - 5_000 - aheadMs + 1)
    await ask(gateway.url)
    await until(() => waiting.length === 1, 'the background fetch')
    giveQuote(waiting[0] as ServerResponse, first.body, ['Date', 'none'])
    await untilCounted(gateway, refreshes('stored'), 1)
    clock.set(startMs + lifeMs - 1)
    expect(how(await ask(gateway.url))).toBe('hit')
    expect(upstream.requests).toHaveLength(2)
  })

  it('is off by default', async () => {
    const { clock, startMs, upstream, gateway } = await withOneQuote({
      QUOTE_REFRESH_AHEAD_MS: '0',
    })
    clock.set(startMs + lifeMs - 1)
    expect(how(await ask(gateway.url))).toBe('hit')
    expect(upstream.requests).toHaveLength(1)
  })
})
