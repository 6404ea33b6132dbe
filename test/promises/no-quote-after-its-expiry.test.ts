import { describe, expect, it } from 'vitest'
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
import { gatewayWith, recordingUpstream } from '../support/gateways/between.ts'
import { keptLog, levels } from '../support/observing/log-lines.ts'

const lifeMs = 30_000

/** A gateway and a provider whose clocks stand still until they are set. The provider's is ahead by `offsetMs`. */
async function timed(settings: Record<string, string> = {}, level = 'silent') {
  const clock = createTestClock()
  /** How far the wall clock was set. */
  const wall = { setByMs: 0 }
  const startMs = clock.nowMs()
  /**
   * `workMs`: how long the provider works after it made the price of the next answer. `tripMs`, `sleepMs`: how long that
   * is under way, and this machine sleeps meanwhile.
   */
  const provider = {
    offsetMs: 0,
    orderOffsetMs: 0,
    lifeMs,
    workMs: 0,
    tripMs: 0,
    sleepMs: 0,
  }
  const upstream = await recordingUpstream(({ method }, response) => {
    if (method === 'POST') {
      const date = new Date(clock.nowMs() + provider.orderOffsetMs).toUTCString()
      response.writeHead(201, { Date: date }).end('{}')
      return
    }
    const providerMs = () => clock.nowMs() + provider.offsetMs
    const body = quoteBody({ expiry: providerMs() + provider.lifeMs })
    clock.advance(provider.workMs)
    giveQuote(response, body, ['Date', new Date(providerMs()).toUTCString()])
    clock.advance(provider.tripMs)
    wall.setByMs += provider.sleepMs
    Object.assign(provider, {
      offsetMs: provider.offsetMs + provider.sleepMs,
      workMs: 0,
      tripMs: 0,
      sleepMs: 0,
    })
  })
  const log = await keptLog(level)
  const gateway = await gatewayWith(
    { SWAP_BASE_URL: upstream.url, QUOTE_MIN_VALIDITY_MS: '0', ...settings },
    {
      clock: {
        nowMs: () => clock.nowMs() + wall.setByMs,
        steadyMs: () => clock.nowMs() - startMs,
      },
      logger: log.logger,
    },
  )
  const how = async () =>
    (await ask(gateway.url)).headers['cache-status']
      ?.toString()
      .split('; ')
      .slice(1, 3)
      .join(' ')
  const offsetSeconds = () =>
    counted(gateway, 'quotegate_upstream_clock_offset_seconds{upstream="swap"}')
  return { clock, wall, provider, upstream, gateway, log, how, offsetSeconds }
}

describe('no quote is served after its expiry, by our clock: a cached quote', () => {
  it('is served with the seconds left of it, rounded down, until one millisecond before its expiry', async () => {
    const { clock, gateway, how } = await timed()
    const startMs = clock.nowMs()
    await how()
    for (const [afterMs, ttl] of [
      [0, 30],
      [1, 29],
      [1_000, 29],
      [1_001, 28],
      [lifeMs - 1, 0],
    ] as const) {
      clock.set(startMs + afterMs)
      const { headers } = await ask(gateway.url)
      expect(headers['cache-control']).toBe(`private, max-age=${ttl}`)
      expect(headers['cache-status']).toBe(`quotegate; hit; ttl=${ttl}`)
    }
    clock.set(startMs + lifeMs)
    expect(await how()).toBe('fwd=uri-miss stored')
    expect(await counted(gateway, lookups('expired'))).toBe(1)
  })

  it('needs QUOTE_MIN_VALIDITY_MS more to be served', async () => {
    const { clock, how } = await timed({ QUOTE_MIN_VALIDITY_MS: '5000' })
    await how()
    clock.advance(lifeMs - 5_000)
    expect(await how()).toMatch(/^hit/)
    clock.advance(1)
    expect(await how()).toBe('fwd=uri-miss stored')
  })

  it.each([-3_600_000, -1_000])(
    'is not served for longer after our clock was set by %d ms',
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

it.each([{ tripMs: lifeMs + 1 }, { sleepMs: 40_000 }])(
  'a quote that ended before its head came is asked for again: %j',
  async (way) => {
    const { provider, how, upstream } = await timed()
    Object.assign(provider, way)
    expect(await how()).toBe('fwd=uri-miss stored')
    expect(upstream.requests).toHaveLength(2)
  },
)

// All answer times, lives and clocks: test/quotes/ends.test.ts.
describe('a quote that took six seconds to come', () => {
  /** Prompt answers have shown that the clocks agree. */
  async function known() {
    const stage = await timed()
    await stage.how()
    stage.clock.advance(lifeMs)
    return stage
  }

  it('is served for the four seconds that it has left, after one call', async () => {
    const { clock, provider, how, upstream } = await known()
    Object.assign(provider, { workMs: 6_000, lifeMs: 10_000 })
    expect(await how()).toBe('fwd=uri-miss stored')
    clock.advance(3_999)
    expect(await how()).toBe('hit ttl=0')
    expect(upstream.requests).toHaveLength(2)
    clock.advance(1)
    expect(await how()).toBe('fwd=uri-miss stored')
  })

  it.each([0, 30_000, -30_000])(
    'is asked for again if it ended a second before it came (the provider’s clock %d ms ahead)',
    async (offsetMs) => {
      const { provider, gateway, upstream } = await timed()
      Object.assign(provider, { offsetMs, workMs: 6_000, lifeMs: 5_000 })
      const { headers } = await ask(gateway.url)
      expect(headers['cache-status']).toMatch(/; fwd=uri-miss; stored; ttl=[345]$/)
      expect(upstream.requests).toHaveLength(2)
    },
  )

  it('is relayed and not kept as the first answer of a process: whether our clock is right is not known', async () => {
    const { provider, how, upstream } = await timed()
    Object.assign(provider, { workMs: 6_000, lifeMs: 10_000 })
    expect(await how()).toBe('fwd=bypass detail=expired')
    expect(upstream.requests).toHaveLength(1)
  })
})

describe("no quote is served after its expiry, by the Date of its answer: the provider's clock", () => {
  it.each([30_000, -30_000, 3_600_000, -3_600_000])(
    'decides when it is %d ms ahead: no quote is served past its true expiry, and at most 1.5 s are lost',
    async (offsetMs) => {
      const { clock, provider, how } = await timed()
      provider.offsetMs = offsetMs
      for (let quotes = 0; quotes < 3; quotes += 1) {
        expect(await how()).toBe('fwd=uri-miss stored')
        clock.advance(lifeMs - 1_500)
        expect(await how()).toMatch(/^hit/)
        clock.advance(1_500)
      }
    },
  )

  it.each([
    [30_000, 30],
    [5_000, 5],
    [-5_000, -5],
    [1_600, 1.6],
    [-250, 0],
  ])(
    'is exported when it is %d ms off: about %d s; and as ours once it is corrected',
    async (offsetMs, seconds) => {
      const { clock, provider, gateway, offsetSeconds } = await timed()
      provider.offsetMs = offsetMs
      for (const amount of ['1', '2', '3', '4']) {
        await asking(gateway.url, amount)
        expect(Math.abs((await offsetSeconds()) - seconds)).toBeLessThanOrEqual(
          seconds === 0 ? 0 : 1.25,
        )
        clock.advance(2_117)
      }
      provider.offsetMs = 0
      await asking(gateway.url, '5')
      expect(await offsetSeconds()).toBe(0)
    },
  )

  it.each([
    [30_000, 1],
    [-30_000, 1],
    [1_000, 0],
  ])(
    'is named in the log once when it is more than 2 s off: %d ms',
    async (offsetMs, warnings) => {
      const { provider, gateway, log } = await timed({}, 'warn')
      provider.offsetMs = offsetMs
      for (const amount of ['1', '2', '3']) await asking(gateway.url, amount)
      const lines = log
        .lines(levels.warn)
        .filter(({ msg }) => msg.includes("provider's clock"))
      expect(lines).toHaveLength(warnings)
    },
  )

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
      for (let times = 0; times < 2; times += 1)
        expect(await how()).toBe('fwd=bypass detail=expired')
      expect(upstream.requests).toHaveLength(2)
    },
  )

  it('leaves a quote in doubt that has lived for nearly as long as a Date may be off: it is relayed and not kept', async () => {
    const { provider, how } = await timed()
    Object.assign(provider, { offsetMs: 30_000, lifeMs: 1_500, tripMs: 500 })
    expect(await how()).toBe('fwd=bypass detail=expired')
  })

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
})
