import { expect, it } from 'vitest'
import { statusOf } from '../operations/support.ts'
import {
  asking,
  counted,
  createTestClock,
  giveQuote,
  quoteBody,
} from '../support/clients/quotes.ts'
import { gatewayWith, recordingUpstream } from '../support/gateways/between.ts'
import { keptLog, levels } from '../support/observing/log-lines.ts'

const utc = (ms: number) => new Date(ms).toUTCString()

/** A provider whose clock is half a minute ahead, and what is said of that. */
async function stage() {
  const clock = createTestClock()
  const provider = { headersAt: (_providerMs: number): readonly string[] => [] }
  const upstream = await recordingUpstream((_request, response) => {
    const nowMs = clock.nowMs() + 30_000
    giveQuote(response, quoteBody({ expiry: nowMs + 30_000 }), provider.headersAt(nowMs))
  })
  const log = await keptLog('warn')
  const gateway = await gatewayWith(
    { SWAP_BASE_URL: upstream.url },
    { clock, logger: log.logger },
  )
  async function said() {
    const { clock: shown } = await statusOf(gateway)
    const warnings = log
      .lines(levels.warn)
      .filter(({ msg }) => msg.includes('has a readable Date'))
    const unknown = await counted(
      gateway,
      'quotegate_upstream_clock_unknown{upstream="swap"}',
    )
    return { unknown, isShownUnknown: shown.unknown, warnings: warnings.length }
  }
  const offset = () =>
    counted(gateway, 'quotegate_upstream_clock_offset_seconds{upstream="swap"}')
  return {
    provider,
    said,
    offset,
    ask: (amount: number) => asking(gateway.url, String(amount)),
  }
}

// In which forms a Date may come: test/http/http-date.test.ts.
it.each([
  ['an Age above 0', (ms: number) => ['Date', utc(ms), 'Age', '1']],
  ['an invalid Date', () => ['Date', 'now']],
])(
  "the provider's clock is not known from %s, which is said once, after some answers",
  async (_what, headersAt) => {
    const { provider, said, offset, ask } = await stage()
    provider.headersAt = headersAt
    for (const amount of [1, 2]) await ask(amount)
    expect(await said()).toEqual({ unknown: 0, isShownUnknown: false, warnings: 0 })
    for (const amount of [3, 4, 5]) await ask(amount)
    expect(await said()).toEqual({ unknown: 1, isShownUnknown: true, warnings: 1 })
    expect(await offset()).toBe(0)
  },
)

it("the provider's clock stays known from the first readable Date on", async () => {
  const { provider, said, offset, ask } = await stage()
  provider.headersAt = (ms) => [
    'Date',
    utc(ms + 7_200_000).replace('GMT', '+0200'),
    'Age',
    '0',
  ]
  await ask(1)
  provider.headersAt = () => ['Date', 'now']
  for (const amount of [2, 3, 4, 5]) await ask(amount)
  expect(await said()).toEqual({ unknown: 0, isShownUnknown: false, warnings: 0 })
  expect(await offset()).toBeGreaterThan(28)
})
