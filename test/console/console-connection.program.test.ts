import { createServer } from 'node:http'
import express from 'express'
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { floatOrder, production, quote, statusOf } from '../operations/support.ts'
import { gatewayWith, pause, until } from '../support/gateways/between.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import { listening } from '../support/machine/listening.ts'
import { describeInBrowser, expectAccessible, openPage, useBrowser } from './browser.ts'

useBrowser()

/** These, and what no viewer without rights may use. */
async function expectHidden(page: Page, selectors: readonly string[]): Promise<void> {
  for (const hidden of ['#try form', '#orders form', '#sandbox', ...selectors])
    expect(await page.locator(hidden).isVisible(), hidden).toBe(false)
}

describeInBrowser('the console', () => {
  test('finds the gateway again after a restart', async () => {
    const first = await startGateway()
    const port = Number(new URL(first.operationsUrl).port)
    const { page } = await openPage(first.operationsUrl, { mayComplain: true })
    await first.close()
    await page.locator('#connection[data-state="waiting"]').waitFor()
    const second = await gatewayWith({ ADMIN_PORT: port })
    await page.locator('#connection[data-state="live"]').waitFor()
    await quote(second, { pair: 'BTC_USDC' })
    await page.locator('#quotes tbody tr[data-pair="BTC_USDC"]').waitFor()
  })

  test('works below a path of another app, also where the final slash is left out', async () => {
    const gateway = await gatewayWith()
    const outer = createServer(express().use('/tools/console', gateway.operations))
    const { url: origin } = await listening(outer)
    const { page } = await openPage(`${origin}/tools/console`)
    expect(page.url()).toBe(`${origin}/tools/console/`)
    await page.getByRole('button', { name: 'Ask for a quote' }).click()
    await page.locator('#quotes tbody tr[data-pair="ETH_USDC"]').waitFor()
  })

  test('stops while it is paused, and then shows the current state', async () => {
    const gateway = await gatewayWith()
    const { page } = await openPage(gateway.operationsUrl)
    await page.getByRole('button', { name: 'Pause' }).click()
    await quote(gateway)
    // The page has asked as well meanwhile.
    for (let second = 1; second <= 3; second += 1) await statusOf(gateway)
    expect(await page.locator('#quotes tbody tr').count()).toBe(0)
    await page.getByRole('button', { name: 'Resume' }).click()
    await page.locator('#quotes tbody tr').waitFor()
  })

  test('asks for the ADMIN_TOKEN before it shows requests, and reports a wrong token', async () => {
    const token = 'correct-horse-battery'
    const gateway = await gatewayWith({
      ...production,
      ADMIN_TOKEN: token,
      ORDER_UNKNOWN_QUOTE: 'refuse',
    })
    await floatOrder(gateway, { application: 'secret-app', pair: 'SECRET_PAIR' })
    const { page, complaints } = await openPage(gateway.operationsUrl, {
      mayComplain: true,
    })
    await page.locator('.notice', { hasText: 'Unlock with the ADMIN_TOKEN' }).waitFor()
    await expectHidden(page, ['#requests', '#orders .group', '#quotes thead td'])
    await page.locator('#orders tbody tr.opens').first().click()
    expect(await page.locator('#orders .detail').textContent()).toContain('No live quote')
    expect(await page.content()).not.toMatch(/secret/i)
    await expectAccessible(page, [1280])
    for (const [given, expected] of [
      [`${token}\u200b`, 'visible ASCII characters only'],
      ['wrong-wrong-wrong-wrong', 'That is not the ADMIN_TOKEN.'],
      [token, undefined],
    ] as const) {
      await page.locator('#unlock').click()
      await page.fill('dialog input', given)
      await page.keyboard.press('Enter')
      if (expected) await page.locator('.notice', { hasText: expected }).waitFor()
    }
    for (const shown of ['#try form', '#orders form', '#requests'])
      await page.locator(shown).waitFor()
    await page
      .locator('#orders .group', { hasText: 'secret-app: 1 of 1 order match' })
      .waitFor()
    await quote(gateway)
    await page.locator('#requests tbody tr', { hasText: 'ETH_USDC' }).waitFor()
    // The browser itself reports the answer to the wrong one.
    expect(complaints.filter((text) => !text.includes('401'))).toEqual([])
  })

  test('is read-only in production without a token', async () => {
    const gateway = await gatewayWith(production)
    const { page } = await openPage(gateway.operationsUrl)
    await page.locator('.notice', { hasText: 'Read-only' }).waitFor()
    await quote(gateway)
    await page
      .locator('[data-tile="requests"] .more', { hasText: /^1 in the last/ })
      .waitFor()
    await expectHidden(page, [
      '#requests tbody tr',
      '#unlock',
      '#quotes [data-role="drop-all"]',
    ])
  })

  test('asks once a second, and once in five in a hidden tab, until it is looked at', async () => {
    const gateway = await gatewayWith()
    const { page } = await openPage(gateway.operationsUrl)
    let asked = 0
    page.on('request', (request) => {
      if (request.url().endsWith('/status')) asked += 1
    })
    const { now } = await statusOf(gateway)
    const asksIn = async (seconds: number) => {
      const before = asked
      await pause(seconds * 1_000)
      return asked - before
    }
    expect(now).toBeGreaterThan(0)
    const inSight = await asksIn(5)
    expect(inSight).toBeGreaterThan(1)
    expect(inSight).toBeLessThan(7)
    const changed = `document.dispatchEvent(new Event('visibilitychange'))`
    await page.evaluate(
      `Object.defineProperty(document, 'hidden', { value: true, configurable: true });${changed}`,
    )
    // One of a second may be on its way.
    expect(await asksIn(6)).toBeLessThan(4)
    const before = asked
    await page.evaluate(`delete document.hidden;${changed}`)
    await until(() => asked > before, 'it looks again')
  })

  test('locks itself if the ADMIN_TOKEN is another one all at once, and shows no request of before', async () => {
    const settings = {
      ...production,
      ADMIN_TOKEN: 'correct-horse-battery',
      ORDER_UNKNOWN_QUOTE: 'refuse',
    }
    const first = await startGateway(settings)
    await floatOrder(first, { application: 'secret-app' })
    const port = Number(new URL(first.operationsUrl).port)
    const { page } = await openPage(first.operationsUrl, { mayComplain: true })
    await page.locator('#unlock').click()
    await page.fill('dialog input', settings.ADMIN_TOKEN)
    await page.keyboard.press('Enter')
    await fetch(`${first.url}/secret-path`)
    await page.locator('#requests .open', { hasText: 'secret-path' }).click()
    await page.locator('#requests .detail').waitFor()
    await page.locator('#orders .open').click()
    await page.locator('#orders .detail', { hasText: 'secret-app' }).waitFor()
    await first.close()
    await gatewayWith({
      ...settings,
      ADMIN_TOKEN: 'another-horse-battery',
      ADMIN_PORT: port,
    })
    await page.locator('.notice', { hasText: 'That is not the ADMIN_TOKEN.' }).waitFor()
    await page.locator('.notice', { hasText: 'Unlock with the ADMIN_TOKEN' }).waitFor()
    expect(await page.content()).not.toContain('secret-')
  })
})
