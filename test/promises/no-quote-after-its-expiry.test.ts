import { describe, expect, it, onTestFinished } from 'vitest'
import { post } from '../support/clients/orders.ts'
import {
  ask,
  asking,
  counted,
  createTestClock,
  giveQuote,
  lookups,
  quoteBody,
} from '../support/clients/quotes.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { recordingUpstream } from '../support/gateways/between.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import { keptLog, levels } from '../support/observing/log-lines.ts'

const lifeMs = 30_000

/** A gateway and a provider whose clocks stand still until they are set. The provider's is ahead by `offsetMs`. */
async function timed(settings: Record<string, string> = {}, level = 'silent') {
  const clock = createTestClock()
  /** How far the wall clock was set. */
  const wall = { setByMs: 0 }
  const startMs = clock.nowMs()
  const provider = { offsetMs: 0, orderOffsetMs: 0, lifeMs, lagMs: 0 }
  const expiries: number[] = []
  const upstream = await recordingUpstream(({ method }, response) => {
    if (method === 'POST') {
      response
        .writeHead(201, { Date: new Date(clock.nowMs() + provider.orderOffsetMs).toUTCString() })
        .end('{}')
      return
    }
    const nowMs = clock.nowMs() + provider.offsetMs
    const expiry = nowMs + provider.lifeMs
    expiries.push(expiry)
    giveQuote(response, quoteBody({ expiry }), ['Date', new Date(nowMs - provider.lagMs).toUTCString()])
  })
  const log = await keptLog(level)
  const gateway = await startGateway(
    { SWAP_BASE_URL: upstream.url, ...settings },
    {
      clock: { nowMs: () => clock.nowMs() + wall.setByMs, steadyMs: () => clock.nowMs() - startMs },
      logger: log.logger,
    },
  )
  onTestFinished(() => gateway.close())
  const how = async () =>
    (await ask(gateway.url)).headers['cache-status']?.toString().split('; ').slice(1, 3).join(' ')
  const offsetSeconds = () => counted(gateway, 'quotegate_upstream_clock_offset_seconds{upstream="swap"}')
  return { clock, wall, provider, upstream, gateway, log, how, expiries, offsetSeconds }
}

describe('no quote is served after its expiry, by our clock: a cached quote', () => {
  it('is served until one millisecond before its expiry, and fetched again at it', async () => {
    const { clock, how, gateway } = await timed()
    const startMs = clock.nowMs()
    await how()
    clock.set(startMs + lifeMs - 1)
    expect(await how()).toBe('hit ttl=0')
    clock.set(startMs + lifeMs)
    expect(await how()).toBe('fwd=uri-miss stored')
    expect(await counted(gateway, lookups('expired'))).toBe(1)
  })

  it('says the seconds left of it, rounded down, at each instant', async () => {
    const { clock, gateway } = await timed()
    const startMs = clock.nowMs()
    await ask(gateway.url)
    for (const [afterMs, ttl] of [
      [0, 30],
      [1, 29],
      [999, 29],
      [1_000, 29],
      [1_001, 28],
      [29_000, 1],
      [29_001, 0],
    ] as const) {
      clock.set(startMs + afterMs)
      const { headers } = await ask(gateway.url)
      expect(headers['cache-control']).toBe(`private, max-age=${ttl}`)
      expect(headers['cache-status']).toBe(`quotegate; hit; ttl=${ttl}`)
    }
  })

  it('needs QUOTE_MIN_VALIDITY_MS more to be served', async () => {
    const { clock, how, upstream } = await timed({ QUOTE_MIN_VALIDITY_MS: '5000' })
    const startMs = clock.nowMs()
    await how()
    clock.set(startMs + lifeMs - 5_001)
    expect(await how()).toMatch(/^hit/)
    clock.set(startMs + lifeMs - 4_999)
    expect(await how()).toBe('fwd=uri-miss stored')
    expect(upstream.requests).toHaveLength(2)
  })

  it.each([-3_600_000, -10_000, -1_000])(
    'is served until its end, and not a millisecond longer, after our own clock was set by %d ms',
    async (setByMs) => {
      const { clock, wall, how } = await timed()
      await how()
      wall.setByMs = setByMs
      clock.advance(lifeMs - 1)
      expect(await how()).toBe('hit ttl=0')
      clock.advance(1)
      expect(await how()).toBe('fwd=uri-miss stored')
    },
  )

  it('is served no more once our own clock, set forward, is past its end', async () => {
    const { wall, how } = await timed()
    await how()
    wall.setByMs = lifeMs - 1
    expect(await how()).toMatch(/^hit/)
    wall.setByMs = lifeMs
    expect(await how()).toBe('fwd=uri-miss stored')
  })
})

describe("no quote is served after its expiry, by the Date of its answer: the provider's clock", () => {
  it.each([30_000, -30_000, 3_600_000, -3_600_000])(
    'decides when it is %d ms ahead: no quote is served past its true expiry, and at most 1.5 s are lost',
    async (offsetMs) => {
      const { clock, provider, gateway, expiries } = await timed()
      provider.offsetMs = offsetMs
      let hits = 0
      for (let step = 0; step < 600; step += 1) {
        const calls = expiries.length
        await ask(gateway.url)
        const providerMs = clock.nowMs() + offsetMs
        if (expiries.length === calls) {
          hits += 1
          expect(providerMs).toBeLessThan(expiries[calls - 1] ?? 0)
        } else if (calls > 0) {
          expect((expiries[calls - 1] ?? 0) - providerMs).toBeLessThanOrEqual(1_500)
        }
        clock.advance(250 + ((step * 37) % 100))
      }
      expect(hits).toBeGreaterThan(500)
    },
  )

  it.each([0, 120, 250])('counts as ours, exactly, while its Date lags by %d ms at most', async (lagMs) => {
    const { clock, provider, gateway, offsetSeconds } = await timed()
    provider.lagMs = lagMs
    for (let step = 0; step < 100; step += 1) {
      await asking(gateway.url, String(step + 1))
      expect(await offsetSeconds()).toBe(0)
      clock.advance(1 + ((step * 977) % 5_000))
    }
  })

  it('is followed at once when it was 30 s off and is corrected', async () => {
    const { clock, provider, gateway, offsetSeconds } = await timed()
    provider.offsetMs = 30_000
    await asking(gateway.url, '1')
    expect(await offsetSeconds()).toBeGreaterThan(28)
    provider.offsetMs = 0
    clock.advance(2_000)
    await asking(gateway.url, '2')
    expect(await offsetSeconds()).toBe(0)
  })

  it.each([5_000, -5_000, 1_600, -1_600])(
    'is exported to a second when it is %d ms off, and as ours with the first answer after it is corrected',
    async (offsetMs) => {
      const { clock, provider, gateway, offsetSeconds } = await timed()
      provider.offsetMs = offsetMs
      for (const amount of ['1', '2', '3', '4']) {
        await asking(gateway.url, amount)
        expect(Math.abs((await offsetSeconds()) - offsetMs / 1_000)).toBeLessThanOrEqual(1)
        clock.advance(2_117)
      }
      provider.offsetMs = 0
      await asking(gateway.url, '5')
      expect(await offsetSeconds()).toBe(0)
    },
  )

  it('is named in the log when it is more than 2 s off, once, and not when it is less', async () => {
    for (const [offsetMs, warnings] of [
      [30_000, 1],
      [-30_000, 1],
      [1_000, 0],
    ] as const) {
      const { provider, gateway, log } = await timed({}, 'warn')
      provider.offsetMs = offsetMs
      for (const amount of ['1', '2', '3']) await asking(gateway.url, amount)
      const lines = log.lines(levels.warn).filter(({ msg }) => msg.includes("provider's clock"))
      expect(lines).toHaveLength(warnings)
    }
  })

  it('does not decide where a quote was over by it when it came: ours does', async () => {
    const { clock, provider, how } = await timed()
    provider.offsetMs = 60_000
    provider.lifeMs = -5_000
    expect(await how()).toBe('fwd=uri-miss stored')
    clock.advance(54_999)
    expect(await how()).toBe('hit ttl=0')
    clock.advance(1)
    expect(await how()).toBe('fwd=uri-miss stored')
  })

  it.each([0, 60_000, -60_000])(
    'and ours say that a quote was over when it came: it is relayed and not kept (%d ms ahead)',
    async (offsetMs) => {
      const { provider, how, upstream } = await timed()
      provider.offsetMs = offsetMs
      provider.lifeMs = offsetMs > 0 ? -offsetMs : 0
      expect(await how()).toBe('fwd=bypass detail=expired')
      expect(await how()).toBe('fwd=bypass detail=expired')
      expect(upstream.requests).toHaveLength(2)
    },
  )

  it('is not read from the answer to an order: the next quote is served to the millisecond', async () => {
    const { clock, gateway, how, provider, offsetSeconds } = await timed()
    provider.orderOffsetMs = 3_600_000
    const order = JSON.stringify({ pairId: 'ETH_USDC', fromAmount: 7 })
    expect((await rawExchange(gateway.url, post(order))).status).toBe(201)
    expect(await offsetSeconds()).toBe(0)
    await how()
    clock.advance(lifeMs - 1)
    expect(await how()).toBe('hit ttl=0')
  })

  it('contradicts ours for 50 answers and a minute: until then a quote is served for up to 1.25 s less', async () => {
    const { clock, gateway, how, provider } = await timed()
    provider.offsetMs = 5_000
    await asking(gateway.url, '1')
    provider.offsetMs = 0
    const servedForMs = async () => {
      await asking(gateway.url, '0.1')
      clock.advance(lifeMs - 1_251)
      expect(await how()).toMatch(/^hit/)
      clock.advance(1_250)
      return (await how()) === 'hit ttl=0' ? lifeMs : lifeMs - 1_250
    }
    expect(await servedForMs()).toBe(lifeMs - 1_250)
    clock.advance(60_000)
    expect(await servedForMs()).toBe(lifeMs - 1_250)
    for (let amount = 2; amount <= 50; amount += 1) await asking(gateway.url, String(amount))
    clock.advance(lifeMs)
    expect(await servedForMs()).toBe(lifeMs)
  })
})
