import { describe, expect, it, onTestFinished } from 'vitest'
import { asking, counted, createTestClock, giveQuote, quoteBody } from '../support/clients/quotes.ts'
import { recordingUpstream } from '../support/gateways/between.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import { keptLog, levels } from '../support/observing/log-lines.ts'

const unknown = 'quotegate_upstream_clock_unknown{upstream="swap"}'
const offset = 'quotegate_upstream_clock_offset_seconds{upstream="swap"}'
const aheadMs = 30_000

/** A provider whose clock is half a minute ahead, and that says so, or does not, as `headersAt` has it. */
async function stage(headersAt: (providerMs: number) => readonly string[]) {
  const clock = createTestClock()
  const provider = { headersAt }
  const upstream = await recordingUpstream((_request, response) => {
    const nowMs = clock.nowMs() + aheadMs
    giveQuote(response, quoteBody({ expiry: nowMs + 30_000 }), provider.headersAt(nowMs))
  })
  const log = await keptLog('warn')
  const gateway = await startGateway({ SWAP_BASE_URL: upstream.url }, { clock, logger: log.logger })
  onTestFinished(() => gateway.close())
  const warnings = () => log.lines(levels.warn).filter(({ msg }) => msg.includes('has a readable Date'))
  const status = async () =>
    (await fetch(`${gateway.operationsUrl}/status`)).json() as Promise<{ clock: object }>
  return { clock, provider, gateway, warnings, status, ask: (amount: string) => asking(gateway.url, amount) }
}

const utc = (ms: number) => new Date(ms).toUTCString()

describe("the provider's clock", () => {
  // In which forms it may come: test/http/http-date.test.ts.
  it.each([
    ['an Age of 0', (ms: number) => ['Date', utc(ms), 'Age', '0']],
    ['a Date in another zone', (ms: number) => ['Date', utc(ms + 7_200_000).replace('GMT', '+0200')]],
  ])('is read from %s', async (_what, headersAt) => {
    const { gateway, ask } = await stage(headersAt)
    await ask('1')
    expect(await counted(gateway, offset)).toBeGreaterThan(28)
    expect(await counted(gateway, unknown)).toBe(0)
  })

  it.each([
    ['an Age above 0', (ms: number) => ['Date', utc(ms), 'Age', '1']],
    ['an invalid Date', () => ['Date', 'now']],
  ])(
    'is not known from %s: a metric, /status and a warning say so, but not before some answers came',
    async (_what, headersAt) => {
      const { gateway, ask, warnings, status } = await stage(headersAt)
      expect(await counted(gateway, unknown)).toBe(0)
      await ask('1')
      await ask('2')
      expect([await counted(gateway, unknown), warnings().length]).toEqual([0, 0])
      expect((await status()).clock).toMatchObject({ lowMs: null, unknown: false })
      for (const amount of ['3', '4', '5']) await ask(amount)
      expect([await counted(gateway, unknown), warnings().length]).toEqual([1, 1])
      expect((await status()).clock).toMatchObject({ lowMs: null, unknown: true })
      expect(await counted(gateway, offset)).toBe(0)
    },
  )

  it('stays known from the first readable Date on', async () => {
    const { gateway, ask, provider, warnings } = await stage((ms) => ['Date', utc(ms)])
    await ask('1')
    provider.headersAt = () => ['Date', 'now']
    for (const amount of ['2', '3', '4']) await ask(amount)
    expect([await counted(gateway, unknown), warnings().length]).toEqual([0, 0])
    expect(await counted(gateway, offset)).toBeGreaterThan(28)
  })
})
