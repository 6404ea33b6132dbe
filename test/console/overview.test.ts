import { expect, onTestFinished, test } from 'vitest'
import { act, floatOrder, gatewayWith, quote } from '../operations/support.ts'
import { giveQuote, quoteBody } from '../support/clients/quotes.ts'
import { pause, recordingUpstream } from '../support/gateways/between.ts'
import { expectAccessible } from './axe.ts'
import { describeInBrowser, expectPeace, openPage, useBrowser } from './browser.ts'

const looks = [
  { width: 1440, colorScheme: 'dark' },
  { width: 1440, colorScheme: 'light' },
  { width: 1024, colorScheme: 'dark' },
  { width: 1024, colorScheme: 'light' },
  { width: 360, colorScheme: 'dark' },
  { width: 360, colorScheme: 'light' },
] as const

useBrowser()

/** Quotes of several pairs fail with 503; everything else is answered. */
async function gatewayInAnOutage() {
  let isDown = false
  const upstream = await recordingUpstream((_request, response) => {
    if (isDown) response.writeHead(503, { 'Content-Type': 'application/json' }).end('{}')
    else giveQuote(response, quoteBody({ expiry: Date.now() + 600_000 }))
  })
  const gateway = await gatewayWith({
    SWAP_BASE_URL: upstream.url,
    BREAKER_FAILURES: 2,
    BREAKER_OPEN_MS: 600_000,
    TRUST_PROXY: 'loopback',
  })
  await quote(gateway)
  isDown = true
  for (const pair of ['BTC_USDC', 'SOL_USDC', 'SOL_ETH', 'BTC_ETH', 'ETH_BTC', 'ETH_SOL', 'BTC_SOL', 'DAI_ETH'])
    await quote(gateway, { pair })
  return gateway
}

describeInBrowser('the console in an outage', () => {
  test.each(looks)('says in a sentence what is wrong, for everybody: $width px, $colorScheme', async (look) => {
    const gateway = await gatewayInAnOutage()
    const { colorScheme, width } = look
    const { page, ...watched } = await openPage(gateway.operationsUrl, {
      viewport: { width, height: 900 },
      colorScheme,
    })
    const banner = page.locator('[data-outage="upstream"]')
    await expect
      .poll(() => banner.textContent())
      .toMatch(
        /^Quotes of the swap API have failed since \d\d:\d\d:\d\d \(.+ s\); the last failure was 503; 6 requests refused meanwhile, the next try is in \d+ min\. Still served: cached quotes until they expire, orders and the rest of the swap API\.$/,
      )
    for (const _ of Array(8)) await quote(gateway, { pair: 'X_Y' })
    await expect.poll(() => banner.textContent()).toContain('14 requests refused')
    await expect.poll(() => page.locator('#requests tbody tr').count()).toBeGreaterThanOrEqual(6)
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width)
    await expectAccessible(page)
    if (width === 1440) {
      expect(await page.evaluate('scrollY')).toBe(0)
      const rows = page.locator('#requests tbody tr')
      for (const part of [page.locator('#requests h2'), rows.nth(0), rows.nth(5)]) {
        const box = await part.boundingBox()
        expect(box?.y).toBeGreaterThan(0)
        expect((box?.y ?? 0) + (box?.height ?? 0)).toBeLessThanOrEqual(900)
      }
    }
    expectPeace({ page, ...watched }, gateway.operationsUrl)
  })
})
