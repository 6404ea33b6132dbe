import { expect, test } from 'vitest'
import { floatOrder, gatewayWith, quote } from '../operations/support.ts'
import { giveQuote, quoteBody } from '../support/clients/quotes.ts'
import { pause, recordingUpstream } from '../support/gateways/between.ts'
import { describeInBrowser, expectPeace, openPage, useBrowser } from './browser.ts'

const hostileName = '<img src=x onerror=document.title=1>'

useBrowser()

describeInBrowser('the console', () => {
  test('counts a quote down to zero, and then removes its row', async () => {
    const gateway = await gatewayWith()
    await fetch(`${gateway.sandboxUrl}/sandbox/faults`, {
      method: 'PUT',
      headers: { 'Content-Type': 'application/json' },
      body: '{"quoteLifetimeMs":8000}',
    })
    const watched = await openPage(gateway.operationsUrl)
    await quote(gateway)
    const row = watched.page.locator('#quotes tbody tr')
    await row.waitFor()
    const seen: number[] = []
    const widths: number[] = []
    while ((await row.count()) > 0) {
      const text = await row
        .locator('.left')
        .textContent({ timeout: 2_000 })
        .catch(() => null)
      const box = await row
        .locator('.fill')
        .boundingBox({ timeout: 2_000 })
        .catch(() => null)
      if (text !== null) seen.push(Number.parseFloat(text))
      if (box !== null) widths.push(box.width)
      await pause(100)
    }
    expect(seen.length).toBeGreaterThan(5)
    expect(seen).toEqual([...seen].sort((left, right) => right - left))
    expect(seen[0]).toBeGreaterThan(1)
    expect(seen.at(-1)).toBeLessThan(0.8)
    expect(widths.at(-1)).toBeLessThan((widths[0] ?? 0) / 2)
    await watched.page.locator('#quotes [data-role="empty"]').waitFor()
    expectPeace(watched, gateway.operationsUrl)
  })

  test('shows a miss, then a hit, then the 409 of an order that came too late', async () => {
    const gateway = await gatewayWith()
    const watched = await openPage(gateway.operationsUrl)
    const { page } = watched
    await page.locator('[name="quoteLifetimeMs"]').fill('6000')
    const faults = async () => (await fetch(`${gateway.sandboxUrl}/sandbox/faults`)).json()
    await page.locator('[name="orderOutcome"]').selectOption('refunded')
    await expect.poll(faults).toMatchObject({ quoteLifetimeMs: 6_000, orderOutcome: 'refunded' })
    const ask = page.getByRole('button', { name: 'Ask for a quote' })
    await ask.click()
    await page.locator('#try .steps li').nth(0).waitFor()
    await ask.click()
    await page.locator('#try .steps li').nth(1).waitFor()
    expect(await page.locator('#try .steps li').allTextContents()).toEqual(['miss', 'hit'])
    expect(await page.locator('#try pre.curl').textContent()).toContain(
      `'${gateway.url}/v3/pairs/ETH_USDC/quotes?amount=0.1'`,
    )
    await expect.poll(() => page.locator('#try .left').textContent(), { timeout: 15_000 }).toBe('0.0 s')
    await page.waitForTimeout(1_500)
    await page.getByRole('button', { name: 'Place the order' }).click()
    await page.locator('#try .status', { hasText: '409' }).waitFor()
    expect(await page.locator('#try pre.body').textContent()).toContain('urn:quotegate:problem:quote-expired')
    await page.locator('#orders tbody tr', { hasText: 'ETH_USDC' }).waitFor()
    await page.locator('#requests tbody tr', { hasText: '409' }).waitFor()
    await page.locator('#requests .chip', { hasText: 'hit' }).first().waitFor()
    expectPeace(watched, gateway.operationsUrl)
  })

  test('shows an answer that is not a quote unchanged, and counts down a quote that is not cached', async () => {
    let answer = quoteBody()
    const upstream = await recordingUpstream((_request, response) =>
      giveQuote(response, answer, ['Content-Type', 'application/json', 'Vary', '*']),
    )
    const gateway = await gatewayWith({ SWAP_BASE_URL: upstream.url })
    const watched = await openPage(gateway.operationsUrl)
    const { page } = watched
    const steps = page.locator('#try .steps li')
    const orderBody = page.locator('#try [name="order"]')
    const tried = [
      quoteBody({ expiry: Date.now() + 600_000 }),
      '{"toAmount":{"value":"1"}}',
      '{"toAmount":null,"fromAmount":null}',
    ]
    for (const [index, body] of tried.entries()) {
      answer = body
      await page.getByRole('button', { name: 'Ask for a quote' }).click()
      await steps.nth(index).waitFor()
      const shown = await page.locator('#try pre.body').textContent()
      expect(JSON.parse(shown ?? '')).toEqual(JSON.parse(body))
      expect(await orderBody.isVisible()).toBe(index === 0)
      if (index > 0) continue
      expect(Number.parseFloat((await page.locator('#try .left').textContent()) ?? '')).toBeGreaterThan(300)
    }
    expectPeace(watched, gateway.operationsUrl)
  })

  test('keeps every column visible next to a long name, and the page as narrow as a phone', async () => {
    const pair = 'A'.repeat(200)
    const upstream = await recordingUpstream((_request, response) =>
      giveQuote(response, quoteBody({ pairId: pair, expiry: Date.now() + 600_000 })),
    )
    const gateway = await gatewayWith({ SWAP_BASE_URL: upstream.url })
    await quote(gateway, { pair, amount: `0.${'0'.repeat(70)}1` })
    for (const width of [320, 1280]) {
      const { page } = await openPage(gateway.operationsUrl, { viewport: { width, height: 800 } })
      await page.locator('#quotes tbody tr').waitFor()
      // As of a store that has been full for a while.
      await page.locator('[data-item="store"] .dim').evaluate((node) => {
        node.textContent = '100.0k quotes, 64.0 MiB; ledger 200.0k'
      })
      for (const part of ['html', '#quotes .scroll']) {
        const tooWide = page.locator(part).evaluate((node) => node.scrollWidth - node.clientWidth)
        expect(await tooWide).toBe(0)
      }
    }
  })

  test('shows the App-Name of a client as text, not as HTML', async () => {
    const gateway = await gatewayWith({ ORDER_EXPIRY_MARGIN_MS: 60_000 })
    await quote(gateway, { application: hostileName })
    await floatOrder(gateway, { application: hostileName })
    const watched = await openPage(gateway.operationsUrl)
    const { page } = watched
    await quote(gateway, { application: hostileName, pair: `%3Cimg src=x onerror=document.title=1%3E` })
    await page.locator('#orders tbody', { hasText: hostileName }).waitFor()
    await page.locator('#requests .open').first().click()
    await page.locator('#requests .detail', { hasText: hostileName }).waitFor()
    await page.fill('#orders [name="application"]', hostileName)
    await page.getByRole('button', { name: 'Explain' }).click()
    await page.locator('#orders .outcome', { hasText: hostileName }).waitFor()
    await page.fill('#try [name="application"]', hostileName)
    await page.getByRole('button', { name: 'Ask for a quote' }).click()
    await page.locator('#try pre.curl', { hasText: hostileName }).waitFor()
    expect(await page.locator('main img').count()).toBe(0)
    expect(await page.title()).toBe('quotegate')
    expectPeace(watched, gateway.operationsUrl)
  })

  test('filters, sorts and drops, by keyboard alone', async () => {
    const gateway = await gatewayWith()
    for (const amount of ['2', '10', '0.5']) await quote(gateway, { amount })
    await quote(gateway, { pair: 'BTC_USDC' })
    const watched = await openPage(gateway.operationsUrl)
    const { page } = watched
    const amounts = () => page.locator('#quotes tbody tr:not([hidden]) td:nth-child(2)').allTextContents()
    await page.locator('#quotes [data-role="filter"]').focus()
    await page.keyboard.type('eth')
    await expect.poll(async () => (await amounts()).length).toBe(3)
    await page.locator('#quotes th[data-column="amount"] button').focus()
    await page.keyboard.press('Enter')
    expect(await amounts()).toEqual(['10', '2', '0.5'])
    expect(await page.locator('#quotes th[aria-sort]').getAttribute('aria-sort')).toBe('descending')
    await page.getByRole('button', { name: 'Drop ETH_USDC 10' }).focus()
    await page.keyboard.press('Enter')
    await expect.poll(amounts).toEqual(['2', '0.5'])
    await page.waitForTimeout(1_200)
    expect(await amounts()).toEqual(['2', '0.5'])
    expectPeace(watched, gateway.operationsUrl)
  })

  test('has a row for each cache entry of one quote, and counts no more than it lists', async () => {
    const body = quoteBody({ expiry: Date.now() + 600_000 })
    const upstream = await recordingUpstream((_request, response) => giveQuote(response, body))
    const gateway = await gatewayWith({ SWAP_BASE_URL: upstream.url })
    const { page } = await openPage(gateway.operationsUrl)
    const count = () => page.locator('#quotes [data-role="count"]').textContent()
    for (const application of ['a', 'b', 'c']) await quote(gateway, { application })
    await expect.poll(count, { timeout: 10_000 }).toBe('3 live')
    for (let number = 0; number < 100; number += 1) await quote(gateway, { application: `more-${number}` })
    await expect.poll(count, { timeout: 10_000 }).toBe('the 100 most requested')
    expect(await page.locator('#quotes tbody tr').count()).toBe(100)
  })
})
