import { expect, test } from 'vitest'
import { aSecond, floatOrder, gatewayInHaste, quote } from '../operations/support.ts'
import { giveQuote, quoteBody } from '../support/clients/quotes.ts'
import { gatewayWith, recordingUpstream } from '../support/gateways/between.ts'
import { describeInBrowser, expectAccessible, openPage, useBrowser } from './browser.ts'

useBrowser()

/** Quotes of several pairs fail with 503; everything else was answered, and is again after `recover`. */
async function gatewayInAnOutage() {
  let isDown = false
  const upstream = await recordingUpstream((_request, response) => {
    if (isDown) response.writeHead(503, { 'Content-Type': 'application/json' }).end('{}')
    else giveQuote(response, quoteBody({ expiry: Date.now() + 600_000 }))
  })
  const settings = {
    SWAP_BASE_URL: upstream.url,
    breakerFailures: 2,
    breakerOpenMs: 600_000,
  }
  const gateway = await gatewayInHaste(settings)
  await quote(gateway)
  isDown = true
  const askForAll = async () => {
    for (const pair of ['BTC_USDC', 'SOL_USDC', 'SOL_ETH', 'BTC_ETH'])
      await quote(gateway, { pair })
  }
  await askForAll()
  gateway.pass(aSecond)
  await askForAll()
  await askForAll()
  async function recover(): Promise<void> {
    isDown = false
    gateway.pass(600_000)
    await askForAll()
  }
  return { gateway, recover }
}

describeInBrowser('the console in an outage', () => {
  test('leads to the section of the runbook that the gateway serves, at any width', async () => {
    const { gateway } = await gatewayInAnOutage()
    const { page } = await openPage(gateway.operationsUrl)
    const opened = page.waitForEvent('popup')
    // By the keyboard.
    await page.locator('[data-outage="upstream"] a').press('Enter')
    const runbook = await opened
    await runbook.waitForLoadState()
    expect(runbook.url()).toBe(
      `${gateway.operationsUrl}/runbook#quotegatebreakeropen--critical`,
    )
    const section = runbook.locator('h3:target')
    expect(await section.textContent()).toBe('QuotegateBreakerOpen · critical')
    expect((await section.boundingBox())?.y).toBeLessThan(200)
    await expectAccessible(runbook)
    await runbook.getByRole('link', { name: 'Console' }).click()
    await runbook.locator('#connection[data-state="live"]').waitFor()
  })

  test('says in a sentence what is wrong, until it is over: then the history and the events have it', async () => {
    const { gateway, recover } = await gatewayInAnOutage()
    const { page } = await openPage(gateway.operationsUrl)
    const banner = page.locator('[data-outage="upstream"]')
    await expect
      .poll(() => banner.textContent())
      .toMatch(
        /^The swap API fails \(503\) for quotes \(.+\) since \d\d:\d\d:\d\d\. 4 requests refused meanwhile, the next try is in \d+ min\. What to do$/,
      )
    expect(await banner.getAttribute('class')).toBe('outage bad')
    const chip = page.locator('[data-item="upstream-swap"]')
    const event = 'The swap API fails (503) for quotes'
    expect(await chip.textContent()).toContain('quotes failing (503)')
    expect(await chip.locator('.dot').getAttribute('class')).toBe('dot bad')
    await page.locator('#events li', { hasText: event }).waitFor()
    await page.locator('[data-traffic="quotes"]', { hasText: /503, \d+ s ago/ }).waitFor()
    for (let refused = 1; refused <= 8; refused += 1)
      await quote(gateway, { pair: 'SOL_ETH' })
    await banner.filter({ hasText: '12 requests refused' }).waitFor()
    await expectAccessible(page)

    await recover()
    await page.locator('#outages').waitFor({ state: 'hidden' })
    await page
      .locator('#events li', { hasText: 'The swap API: over after' })
      .first()
      .waitFor()
    await page.reload()
    await page.locator('#events li', { hasText: event }).waitFor()
  })
})

describeInBrowser('the events', () => {
  test('have one that counts the orders for used quotes, however many there are in a second', async () => {
    const upstream = await recordingUpstream((request, response) => {
      if (request.method === 'POST') response.writeHead(201).end('{}')
      else giveQuote(response, quoteBody({ expiry: Date.now() + 600_000 }))
    })
    const gateway = await gatewayWith({ SWAP_BASE_URL: upstream.url })
    const { page } = await openPage(gateway.operationsUrl)
    const { id: quoteId } = await quote(gateway)
    const repeated = page.locator('#events li', { hasText: 'sent for a quote that an' })
    for (const sent of [0, 3, 6, 9]) {
      if (sent > 0)
        await repeated.filter({ hasText: `${sent - 1} orders were` }).waitFor()
      for (let order = 1; order <= 3; order += 1)
        await floatOrder(gateway, { terms: { quoteId } })
    }
    await repeated.filter({ hasText: '11 orders were' }).waitFor()
    expect(await repeated.count()).toBe(1)
    await page.locator('#events li', { hasText: 'start of version' }).waitFor()
  })
})

describeInBrowser('the overview', () => {
  test('shows what was saved and refused before the page was opened, with the period of each tile', async () => {
    const gateway = await gatewayWith({ ORDER_EXPIRY_MARGIN_MS: 60_000 })
    for (let request = 1; request <= 5; request += 1) await quote(gateway)
    await floatOrder(gateway)
    const { page } = await openPage(gateway.operationsUrl)
    const saved = (key: string) => page.locator(`[data-saved="${key}"]`).textContent()
    await expect.poll(() => saved('calls')).toBe('4 calls saved (80 % of 5 quotes)')
    expect(await saved('expired')).toBe('1 expired order stopped')
    expect(await saved('matched')).toBe('100 % of 1 order matched')
    expect(await saved('provider')).toMatch(
      /^[\d.]+ ms provider's p95 for quotes \(last \d+ s\)$/,
    )
    const tiles = page.locator('.tile .more')
    expect(await tiles.count()).toBe(6)
    for (const text of await tiles.allTextContents()) expect(text).toMatch(/last \d+ s\b/)
    // Of the second that runs nothing is shown.
    await expect.poll(() => tiles.first().textContent()).toMatch(/^6 in the last \d+ s$/)
    await page.locator('#events li', { hasText: 'start of version' }).waitFor()
  })

  test('lets the keyboard reach the live requests and every area that scrolls', async () => {
    const gateway = await gatewayWith()
    const { page } = await openPage(gateway.operationsUrl)
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    expect(await page.evaluate('document.activeElement.id')).toBe('requests')
    await page.locator('#events .scroll').focus()
    expect(await page.evaluate('document.activeElement.closest(".panel").id')).toBe(
      'events',
    )
  })
})
