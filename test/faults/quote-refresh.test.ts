import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import {
  type Answered,
  ask,
  createTestClock,
  giveQuote,
  lookups,
  quoteBody,
  untilCounted,
} from '../support/clients/quotes.ts'
import { gatewayWith, pause, recordingUpstream, until } from '../support/gateways/between.ts'
import { escapedErrors } from '../support/machine/escaped-errors.ts'

const lifeMs = 30_000
const aheadMs = 10_000
const refreshes = (outcome: string) => `quotegate_quote_refreshes_total{outcome="${outcome}"}`

/** A gateway with one quote in its cache, whose later upstream calls are answered by the test. */
async function withOneQuote(settings: Record<string, string> = {}) {
  const clock = createTestClock()
  const bodyNow = () => quoteBody({ expiry: clock.nowMs() + lifeMs })
  const undated = ['Date', 'none']
  const waiting: ServerResponse[] = []
  const upstream = await recordingUpstream((_request, response) => giveQuote(response, bodyNow(), undated))
  const all = { SWAP_BASE_URL: upstream.url, QUOTE_REFRESH_AHEAD_MS: aheadMs, retries: 0, ...settings }
  const gateway = await gatewayWith(all, { clock })
  const startMs = clock.nowMs()
  const first = await ask(gateway.url)
  upstream.answer((_request, response) => waiting.push(response))
  const give = (index: number) => giveQuote(waiting[index] as ServerResponse, bodyNow(), undated)
  return { clock, startMs, upstream, gateway, waiting, first, give }
}

const how = ({ headers }: Answered) => headers['cache-status']?.toString().split('; ')[1]

describe('refresh-ahead', () => {
  it('is started by a hit that close to expiry, not by an earlier one, once, and no hit waits for it', async () => {
    const { clock, startMs, upstream, gateway, first, waiting, give } = await withOneQuote()
    clock.set(startMs + lifeMs - aheadMs)
    expect(how(await ask(gateway.url))).toBe('hit')
    expect(upstream.requests).toHaveLength(1)
    clock.set(startMs + lifeMs - aheadMs + 1)
    const hits = await Promise.all(Array.from({ length: 50 }, () => ask(gateway.url)))
    expect(hits.map((hit) => [how(hit), hit.body])).toEqual(Array(50).fill(['hit', first.body]))
    await until(() => waiting.length === 1, 'the background fetch')
    give(0)
    await untilCounted(gateway, refreshes('stored'), 1)
    expect(upstream.requests).toHaveLength(2)
    const refreshed = await ask(gateway.url)
    expect(how(refreshed)).toBe('hit')
    expect(refreshed.body).not.toBe(first.body)
  })

  it('is off by default', async () => {
    const { clock, startMs, upstream, gateway } = await withOneQuote({ QUOTE_REFRESH_AHEAD_MS: '0' })
    clock.set(startMs + lifeMs - 1)
    expect(how(await ask(gateway.url))).toBe('hit')
    expect(upstream.requests).toHaveLength(1)
  })

  it('that brings no quote is seen by no client, counted, and not tried again for the same quote', async () => {
    const { clock, startMs, upstream, gateway, waiting, first } = await withOneQuote()
    const unhandled = escapedErrors()
    clock.set(startMs + lifeMs - 1_000)
    await ask(gateway.url)
    await until(() => waiting.length === 1, 'the background fetch')
    waiting[0]?.socket?.resetAndDestroy()
    await untilCounted(gateway, refreshes('failed'), 1)
    const later = await ask(gateway.url)
    expect([later.status, how(later), later.body]).toEqual([200, 'hit', first.body])
    await pause(100)
    expect(upstream.requests).toHaveLength(2)
    expect(unhandled).toEqual([])
  })

  it('is joined by a client whose quote has expired meanwhile, and continues if that client leaves', async () => {
    const { clock, startMs, upstream, gateway, waiting, give } = await withOneQuote()
    clock.set(startMs + lifeMs - 1_000)
    await ask(gateway.url)
    await until(() => waiting.length === 1, 'the background fetch')
    clock.set(startMs + lifeMs)
    const leaving = new AbortController()
    const left = ask(gateway.url, { signal: leaving.signal }).catch(() => 'left')
    await untilCounted(gateway, lookups('collapsed'), 1)
    leaving.abort()
    expect(await left).toBe('left')
    const staying = ask(gateway.url)
    await untilCounted(gateway, lookups('collapsed'), 2)
    give(0)
    expect((await staying).headers['cache-status']).toBe('quotegate; fwd=uri-miss; collapsed')
    expect(upstream.requests).toHaveLength(2)
  })
})
