import { expect, test } from 'vitest'
import { act, floatOrder, gatewayWith, quote } from '../operations/support.ts'
import { giveQuote, quoteBody } from '../support/clients/quotes.ts'
import { aSecond, pause, recordingUpstream } from '../support/gateways/between.ts'
import { expectAccessible } from './axe.ts'
import { describeInBrowser, expectPeace, openPage, useBrowser } from './browser.ts'

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
    breakerFailures: 2,
    breakerOpenMs: 600_000,
    TRUST_PROXY: 'loopback',
  })
  await quote(gateway)
  isDown = true
  const askForAll = async () => {
    for (const pair of ['BTC_USDC', 'SOL_USDC', 'SOL_ETH', 'BTC_ETH']) await quote(gateway, { pair })
  }
  await askForAll()
  await aSecond()
  await askForAll()
  await askForAll()
  return gateway
}

describeInBrowser('the console in an outage', () => {
  test.each([1440, 1024, 360])(
    'says in a sentence what is wrong, also without a token: %d px',
    async (width) => {
      const gateway = await gatewayInAnOutage()
      const { page, ...watched } = await openPage(gateway.operationsUrl, {
        viewport: { width, height: 900 },
        colorScheme: 'dark',
      })
      const banner = page.locator('[data-outage="pairs"]')
      await expect
        .poll(() => banner.textContent(), { timeout: 15_000 })
        .toMatch(
          /^All quotes that were asked for fail \(4 of 4 pairs\), since \d\d:\d\d:\d\d \(.+ s\); the last failure was 503; 4 requests refused meanwhile, the next try is in \d+ min\. What to do$/,
        )
      expect(await banner.getAttribute('class')).toBe('outage bad')
      const chip = page.locator('[data-item="upstream-swap"]')
      expect(await chip.textContent()).toContain('all quotes fail (4 of 4 pairs)')
      expect(await chip.locator('.dot').getAttribute('class')).toBe('dot bad')
      const event = 'swap quotes: all that were asked for fail (4 of 4 pairs), the last failure was 503'
      await page.locator('#events li', { hasText: event }).waitFor()
      for (const _ of Array(8)) await quote(gateway, { pair: 'SOL_ETH' })
      await expect.poll(() => banner.textContent(), { timeout: 15_000 }).toContain('12 requests refused')
      await expect
        .poll(() => page.locator('#requests tbody tr').count(), { timeout: 15_000 })
        .toBeGreaterThanOrEqual(6)
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width)
      await expectAccessible(page)
      await page.emulateMedia({ colorScheme: 'light' })
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
    },
  )

  test('removes the sentence after the outage, which stays in the history and the events', async () => {
    let isDown = true
    const upstream = await recordingUpstream((_request, response) =>
      response.writeHead(isDown ? 502 : 200).end('[]'),
    )
    const gateway = await gatewayWith({
      SWAP_BASE_URL: upstream.url,
      breakerFailures: 1,
      breakerOpenMs: 100,
    })
    const ask = async () => {
      const answer = await fetch(`${gateway.url}/v3/pairs`, { headers: { 'App-Name': 'demo' } })
      await answer.arrayBuffer()
      return answer.status
    }
    await ask()
    await aSecond()
    await ask()
    const { page, ...watched } = await openPage(gateway.operationsUrl)
    await page
      .locator('[data-outage="upstream"]', { hasText: 'Requests other than quotes and orders' })
      .waitFor()
    await page.locator('[data-traffic="rest"]', { hasText: /502, \d+ s ago/ }).waitFor()
    // The history has no slot yet for an outage that is over within the first second of the process.
    await page.waitForTimeout(2_000)
    isDown = false
    await expect.poll(ask, { timeout: 10_000 }).toBe(200)
    await page.locator('#outages').waitFor({ state: 'hidden' })
    await page.locator('#events li', { hasText: /^.*swap rest: over after/ }).waitFor()
    const marks = () => page.locator('[data-tile="requests"] .outage-mark').getAttribute('d')
    await expect.poll(marks, { timeout: 10_000 }).toMatch(/^M[\d.]+ 0H/)
    await page.reload()
    await page.locator('#events li', { hasText: 'swap rest: stopped, the last failure was 502' }).waitFor()
    await expect.poll(marks, { timeout: 10_000 }).toMatch(/^M[\d.]+ 0H/)
    expectPeace({ page, ...watched }, gateway.operationsUrl)
  })

  test.each([1440, 1024, 360])(
    'says what is wrong with the store, the clock and the ledger: %d px',
    async (width) => {
      const gateway = await gatewayWith()
      await act(gateway, 'faults', { clockOffsetMs: -60_000 })
      await fetch(`${gateway.url}/v3/pairs/ETH_USDC/quotes?amount=1`, {
        headers: { 'App-Name': 'demo', Forwarded: 'for=198.51.100.7' },
      })
      for (let order = 1; order <= 6; order += 1) await floatOrder(gateway, { pair: 'X_Y' })
      const { page, ...watched } = await openPage(gateway.operationsUrl, { viewport: { width, height: 900 } })
      const sentence = (what: string) => page.locator(`[data-outage="${what}"]`)
      await sentence('clock')
        .filter({ hasText: /^The provider's clock is \d+ s behind ours since/ })
        .waitFor()
      await sentence('trust-proxy')
        .filter({
          hasText:
            /^127\.0\.0\.1 sent a client-address header but is not in TRUST_PROXY since .+ 1 request so far\. What to do$/,
        })
        .waitFor()
      await sentence('unknown-orders')
        .filter({ hasText: /^100% of the float orders of the last 30 min were forwarded as unknown/ })
        .waitFor()
      const links = await page.evaluate(
        `[...document.querySelectorAll('#outages a')].map(({ href }) => href)`,
      )
      const runbook =
        /\/docs\/runbook\.md#(quotegateclockoffset|users-look-as-if-they-were-one|quotegateordersunknown)$/
      expect(links).toEqual(Array(3).fill(expect.stringMatching(runbook)))
      await expectAccessible(page)
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width)
      expectPeace({ page, ...watched }, gateway.operationsUrl)
    },
  )
})

describeInBrowser('the overview', () => {
  test('shows what was saved and refused before the page was opened, with the period of each tile', async () => {
    const gateway = await gatewayWith({ ORDER_EXPIRY_MARGIN_MS: 60_000 })
    for (let request = 1; request <= 5; request += 1) await quote(gateway)
    await floatOrder(gateway)
    await pause(1_200)
    const { page, ...watched } = await openPage(gateway.operationsUrl)
    const saved = (key: string) => page.locator(`[data-saved="${key}"]`).textContent()
    await expect.poll(() => saved('calls'), { timeout: 10_000 }).toBe('4 calls saved (80% of 5 quotes)')
    expect(await saved('expired')).toBe('1 expired order stopped')
    expect(await saved('matched')).toBe('100% of 1 order matched')
    expect(await saved('provider')).toMatch(/^[\d.]+ ms provider's p95 for quotes \(last \d+ s\)$/)
    const tiles = page.locator('.tile .more')
    expect(await tiles.count()).toBe(6)
    for (const text of await tiles.allTextContents()) expect(text).toMatch(/last \d+ s\b/)
    expect(await tiles.first().textContent()).toMatch(/^6 in the last \d+ s$/)
    await page.locator('#events li', { hasText: 'start of version' }).waitFor()
    expectPeace({ page, ...watched }, gateway.operationsUrl)
  })

  test.each([1280, 1600])(
    'shows the events below the upstreams, on the first screen: %d px',
    async (width) => {
      const gateway = await gatewayWith()
      const { page } = await openPage(gateway.operationsUrl, { viewport: { width, height: 900 } })
      await page.locator('#events li', { hasText: 'start of version' }).waitFor()
      const [upstreams, events] = await Promise.all(
        ['#upstreams', '#events'].map((panel) => page.locator(panel).boundingBox()),
      )
      expect(events?.x).toBe(upstreams?.x)
      expect((events?.y ?? 0) - (upstreams?.y ?? 0) - (upstreams?.height ?? 0)).toBeLessThan(20)
      expect((await page.locator('#events li').last().boundingBox())?.y).toBeLessThan(880)
      // Both columns end at the same height, so that none is half blank.
      const bottom = async (panel: string) => {
        const box = await page.locator(panel).boundingBox()
        return (box?.y ?? 0) + (box?.height ?? 0)
      }
      expect(await bottom('#quotes')).toBeCloseTo(await bottom('#try'), 0)
    },
  )

  test('changes from 15 min to 24 h by keyboard', async () => {
    const gateway = await gatewayWith()
    await quote(gateway)
    const { page } = await openPage(gateway.operationsUrl)
    const spark = page.locator('[data-tile="requests"] .spark')
    await page.getByRole('radio', { name: '15 min' }).focus()
    await page.keyboard.press('ArrowRight')
    expect(await page.getByRole('radio', { name: '24 h' }).isChecked()).toBe(true)
    // Two minutes at most have begun.
    const points = async () => ((await spark.locator('.line').getAttribute('d')) ?? '').match(/[ML]/g)?.length
    await expect.poll(points, { timeout: 10_000 }).toBeLessThanOrEqual(2)
    await page.keyboard.press('ArrowLeft')
    // Slots of ten seconds.
    await expect.poll(points, { timeout: 40_000 }).toBeGreaterThan(2)
  })

  test('lets the keyboard reach the live requests and every area that scrolls', async () => {
    const gateway = await gatewayWith()
    const { page } = await openPage(gateway.operationsUrl)
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    const focused = () => page.evaluate('document.activeElement.id')
    expect(await focused()).toBe('requests')
    await page.locator('#events .scroll').focus()
    expect(await page.evaluate('document.activeElement.closest(".panel").id')).toBe('events')
  })
})
