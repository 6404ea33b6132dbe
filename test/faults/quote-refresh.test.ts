import type { ServerResponse } from 'node:http'
import { describe, expect, it, onTestFinished } from 'vitest'
import {
  type Answered,
  type Ask,
  ask,
  counted,
  createTestClock,
  giveQuote,
  lookups,
  quoteBody,
  untilCounted,
  watchForUnhandled,
} from '../support/clients/quotes.ts'
import { at, refuse, refusedAddress, sharedBy } from '../support/clients/refusals.ts'
import { recordingUpstream, until } from '../support/gateways/between.ts'
import { startGateway } from '../support/gateways/gateway.ts'

const lifeMs = 30_000
const aheadMs = 10_000
const refreshes = (outcome: string) => `quotegate_quote_refreshes_total{outcome="${outcome}"}`

/** A gateway with one quote in its cache, whose later upstream calls are answered by the test. */
async function withOneQuote(settings: Record<string, string> = {}, life = lifeMs, asked: Ask = {}) {
  const clock = createTestClock()
  const bodyNow = () => quoteBody({ expiry: clock.nowMs() + life })
  const undated = ['Date', 'none']
  const waiting: ServerResponse[] = []
  const upstream = await recordingUpstream((_request, response) => giveQuote(response, bodyNow(), undated))
  const gateway = await startGateway(
    {
      SWAP_BASE_URL: upstream.url,
      QUOTE_REFRESH_AHEAD_MS: String(aheadMs),
      retries: '0',
      ...settings,
    },
    { clock },
  )
  onTestFinished(() => gateway.close())
  const startMs = clock.nowMs()
  const first = await ask(gateway.url, asked)
  upstream.answer((_request, response) => waiting.push(response))
  const give = (index: number) => giveQuote(waiting[index] as ServerResponse, bodyNow(), undated)
  return { clock, startMs, upstream, gateway, waiting, first, give }
}

const how = ({ headers }: Answered) => headers['cache-status']?.toString().split('; ')[1]

describe('refresh-ahead', () => {
  it('is started by a hit that close to expiry, not by an earlier one, and that hit waits for nothing', async () => {
    const { clock, startMs, upstream, gateway, first, waiting, give } = await withOneQuote()
    clock.set(startMs + lifeMs - aheadMs)
    expect(how(await ask(gateway.url))).toBe('hit')
    expect(upstream.requests).toHaveLength(1)
    clock.set(startMs + lifeMs - aheadMs + 1)
    const hit = await ask(gateway.url)
    expect([how(hit), hit.body]).toEqual(['hit', first.body])
    await until(() => waiting.length === 1, 'the background fetch')
    give(0)
    await untilCounted(gateway, refreshes('stored'), 1)
    const refreshed = await ask(gateway.url)
    expect(how(refreshed)).toBe('hit')
    expect(refreshed.body).not.toBe(first.body)
  })

  it('makes one call, however many hits there are meanwhile', async () => {
    const { clock, startMs, upstream, gateway, waiting } = await withOneQuote()
    clock.set(startMs + lifeMs - 1_000)
    const hits = await Promise.all(Array.from({ length: 50 }, () => ask(gateway.url)))
    expect(hits.map(how)).toEqual(Array(50).fill('hit'))
    await until(() => waiting.length === 1, 'the background fetch')
    expect(upstream.requests).toHaveLength(2)
  })

  it('prevents misses for a pair in demand: every answer after the first is a hit', async () => {
    const { clock, gateway, upstream, first } = await withOneQuote()
    upstream.answer((_request, response) =>
      giveQuote(response, quoteBody({ expiry: clock.nowMs() + lifeMs }), ['Date', 'none']),
    )
    const bodies = new Set([first.body])
    for (let second = 0; second < 120; second += 1) {
      clock.advance(1_000)
      const before = await counted(gateway, refreshes('stored'))
      const answer = await ask(gateway.url)
      expect(how(answer)).toBe('hit')
      bodies.add(answer.body)
      const calls = upstream.requests.length
      if (calls - 1 > before) await untilCounted(gateway, refreshes('stored'), calls - 1)
    }
    expect(bodies.size).toBeGreaterThanOrEqual(5)
    expect(upstream.requests.length).toBeLessThanOrEqual(8)
  })

  it('does not refresh a pair that no client asks for', async () => {
    const { clock, startMs, upstream, gateway } = await withOneQuote()
    for (let afterMs = 0; afterMs < 3 * lifeMs; afterMs += 1_000) clock.set(startMs + afterMs)
    expect(await counted(gateway, refreshes('stored'))).toBe(0)
    expect(upstream.requests).toHaveLength(1)
  })

  it('is off by default', async () => {
    const { clock, startMs, upstream, gateway } = await withOneQuote({ QUOTE_REFRESH_AHEAD_MS: '0' })
    clock.set(startMs + lifeMs - 1)
    expect(how(await ask(gateway.url))).toBe('hit')
    expect(upstream.requests).toHaveLength(1)
  })

  it.each([
    ['an error', (response: ServerResponse) => response.writeHead(503, { Date: 'none' }).end('busy')],
    ['a reset', (response: ServerResponse) => response.socket?.resetAndDestroy()],
    ['no quote', (response: ServerResponse) => response.writeHead(200, { Date: 'none' }).end('{}')],
  ])(
    'that brings %s is seen by no client, counted, and not tried again for the same quote',
    async (_what, fail) => {
      const { clock, startMs, upstream, gateway, waiting, first } = await withOneQuote()
      const unhandled = watchForUnhandled()
      clock.set(startMs + lifeMs - 1_000)
      await ask(gateway.url)
      await until(() => waiting.length === 1, 'the background fetch')
      fail(waiting[0] as ServerResponse)
      await untilCounted(gateway, refreshes('failed'), 1)
      const later = await ask(gateway.url)
      expect([later.status, how(later), later.body]).toEqual([200, 'hit', first.body])
      expect(upstream.requests).toHaveLength(2)
      expect(unhandled).toEqual([])
    },
  )

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

  // A setting larger than the life of a quote would otherwise ask the provider without a pause.
  it('of quotes that live shorter than the setting happens at most twice in a life', async () => {
    const { clock, upstream, gateway } = await withOneQuote({}, 4_000)
    upstream.answer((_request, response) =>
      giveQuote(response, quoteBody({ expiry: clock.nowMs() + 4_000 }), ['Date', 'none']),
    )
    for (let step = 0; step < 80; step += 1) {
      expect(how(await ask(gateway.url))).toBe('hit')
      const calls = upstream.requests.length - 1
      await untilCounted(gateway, refreshes('stored'), calls)
      clock.advance(100)
    }
    // 8 s of hits, and one call more for the very first.
    expect(upstream.requests.length).toBeGreaterThanOrEqual(3)
    expect(upstream.requests.length).toBeLessThanOrEqual(6)
  })

  it('that is refused to one client is followed by a further call for the others that waited for it', async () => {
    const from = (address: string) => ({ headers: at(address) })
    const stage = await withOneQuote(sharedBy.header, lifeMs, from('198.51.100.1'))
    const { clock, startMs, gateway, waiting, give } = stage
    clock.set(startMs + lifeMs - 1)
    expect(how(await ask(gateway.url, from(refusedAddress)))).toBe('hit')
    await until(() => waiting.length === 1, 'the background fetch')
    clock.set(startMs + lifeMs)
    const joiners = [refusedAddress, '198.51.100.1', '198.51.100.2'].map((one) => ask(gateway.url, from(one)))
    await untilCounted(gateway, lookups('collapsed'), 3)
    refuse(waiting[0] as ServerResponse)
    await until(() => waiting.length === 2, 'the further call')
    give(1)
    expect((await Promise.all(joiners)).map(({ status }) => status)).toEqual([403, 200, 200])
    expect(await counted(gateway, refreshes('failed'))).toBe(1)
  })

  it('that fails by time is followed by one further call for those that waited for it', async () => {
    const { clock, startMs, gateway, waiting, give } = await withOneQuote({
      UPSTREAM_HEADERS_TIMEOUT_MS: '2000',
    })
    clock.set(startMs + lifeMs - 1)
    expect(how(await ask(gateway.url))).toBe('hit')
    await until(() => waiting.length === 1, 'the background fetch')
    clock.set(startMs + lifeMs)
    const joiners = [ask(gateway.url), ask(gateway.url)]
    await untilCounted(gateway, lookups('collapsed'), 2)
    await until(() => waiting.length === 2, 'the further call')
    give(1)
    expect((await Promise.all(joiners)).map(({ status }) => status)).toEqual([200, 200])
    expect(await counted(gateway, refreshes('failed'))).toBe(1)
  })
})
